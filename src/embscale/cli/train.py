"""Train one model of the ladder and save its checkpoints in the Hugging Face layout."""

from __future__ import annotations

import argparse
import csv
import shutil
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.corpus import TableRows
from embscale.parameters.training import Length, Recipe, RunSeed
from embscale.progress import progress
from embscale.texts import beir, streams, tokens

CHECKPOINT_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
POSITIONS = ("rotary", "learned")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--width", type=int, required=True, help="columns of the embedding table")
    parser.add_argument(
        "--positions", choices=POSITIONS, required=True, help="rotary in GPT-NeoX blocks, or learned in GPT-2's"
    )
    flags.add(parser, TableRows, Recipe, Length, RunSeed)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="gets stepN/ and losses.csv")


def run(args: argparse.Namespace) -> None:
    """Train, saving a whole checkpoint after each of the given steps."""
    import torch

    from embscale.training import ladder

    torch.use_deterministic_algorithms(True)
    source = beir.corpus_file(args.corpus)
    outputs = [args.output / "losses.csv"] + [
        args.output / f"step{step}" / name for step in args.checkpoints for name in CHECKPOINT_FILES
    ]
    inputs = [source, args.tokens, tokens.tokenizer_file(args.tokenizer), args.tokenizer / "tokenizer_config.json"]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as temporary:
        training, unseen, _ = streams.read(source, args.tokens, args.tokenizer, seed=args.seed)
        model = ladder.build(
            width=args.width,
            blocks=args.blocks,
            head_width=args.head_width,
            vocab_size=args.vocab_size,
            context=args.context,
            seed=args.seed,
            positions=args.positions,
        )
        schedule = ladder.Schedule(
            steps=args.steps,
            batch=args.batch,
            context=args.context,
            learning_rate=args.learning_rate,
            final_learning_rate=args.final_learning_rate,
            warmup=args.warmup,
            seed=args.seed,
        )
        places = dict(zip(outputs, temporary, strict=True))
        losses = []
        report = progress(f"width {args.width}", args.steps)

        def reached(step: int, loss: float) -> None:
            report(step, f"loss {loss:.3f}")
            unseen_loss = None
            if step in args.checkpoints:
                unseen_loss = ladder.heldout_loss(
                    model, unseen[: ladder.HELDOUT_TOKENS], context=args.context, batch=args.batch
                )
                saved = temporary[0].parent / f"step{step}"
                model.save_pretrained(saved)
                for name in ("tokenizer.json", "tokenizer_config.json"):
                    shutil.copyfile(args.tokenizer / name, saved / name)
                for name in CHECKPOINT_FILES:
                    (saved / name).replace(places[args.output / f"step{step}" / name])
            losses.append((step, step * args.batch * args.context, loss, unseen_loss))

        ladder.train(model, training, schedule, reached=reached)
        with places[args.output / "losses.csv"].open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("step", "tokens", "loss", "heldout_loss"))
            writer.writerows(losses)
