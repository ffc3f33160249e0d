"""Train one model of the ladder and save its checkpoints in the Hugging Face layout.

The training goes on where an interrupted or a shorter one of the same run ended.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shutil
import sys
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import count
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.corpus import TableRows
from embscale.parameters.training import Length, Recipe, RunSeed, Trainer
from embscale.progress import progress
from embscale.texts import beir, streams, tokens

CHECKPOINT_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
POSITIONS = ("rotary", "learned")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--width", type=count, required=True, help="columns of the embedding table")
    parser.add_argument(
        "--positions", choices=POSITIONS, required=True, help="rotary in GPT-NeoX blocks, or learned in GPT-2's"
    )
    flags.add(parser, TableRows, Recipe, Length, RunSeed, Trainer)
    parser.add_argument(
        "--runs", type=Path, required=True, metavar="FOLDER", help="where runs and their states are kept for later"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="gets stepN/, losses.csv and costs.json"
    )


def run(args: argparse.Namespace) -> None:
    """Train, saving a whole checkpoint after each of the given steps."""
    import torch
    from transformers.utils import logging

    from embscale.devices import choose_device
    from embscale.training import cost, ladder, runs

    logging.disable_progress_bar()  # of single files that are written
    device = choose_device(args.device)
    torch.use_deterministic_algorithms(True)
    # Without it torch refuses matrix products on a GPU, since cuBLAS may sum in another order each time.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if max(args.checkpoints) > args.steps:
        raise EmbscaleError(f"--checkpoints: {max(args.checkpoints)} comes after the last of --steps, {args.steps}")
    source = beir.corpus_file(args.corpus)
    costs = args.output / "costs.json"
    outputs = [args.output / "losses.csv", costs] + [
        args.output / f"step{step}" / name for step in args.checkpoints for name in CHECKPOINT_FILES
    ]
    inputs = [source, args.tokens, tokens.tokenizer_file(args.tokenizer), args.tokenizer / "tokenizer_config.json"]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as temporary:
        training, unseen, _ = streams.read(source, args.tokens, args.tokenizer, seed=args.seed)
        unseen = unseen[: ladder.HELDOUT_TOKENS]
        recipe = flags.read(args, Recipe)
        shape = runs.shape_of(
            recipe, width=args.width, vocab_size=args.vocab_size, seed=args.seed, positions=args.positions
        )
        schedule = ladder.Schedule.of(recipe, steps=args.steps, seed=args.seed)
        about = runs.description(
            shape=shape,
            schedule=schedule,
            input_table=args.input_table,
            training=training,
            unseen=unseen,
            threads=args.threads,
            device=device,
        )
        report = progress(f"width {args.width}", args.steps)
        with runs.Run(args.runs, about).opened() as trained:
            found = trained.train(training, unseen, schedule, args.checkpoints, device=device, report=report)
            places = dict(zip(outputs, temporary, strict=True))
            for step in args.checkpoints:
                for name in CHECKPOINT_FILES:
                    folder = trained.checkpoint(step) if name in runs.KEPT else args.tokenizer
                    shutil.copyfile(folder / name, places[args.output / f"step{step}" / name])
        per_step = args.batch * args.context
        print(f"{found.step * per_step / max(found.seconds, 1e-9):,.0f} tokens a second", file=sys.stderr)
        with places[outputs[0]].open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("step", "tokens", "loss", "heldout_loss"))
            for step, loss in enumerate([math.nan, *found.losses[: args.steps]]):
                writer.writerow(
                    (step, step * per_step, loss, found.heldout.get(step) if step in args.checkpoints else None)
                )
        values = {
            "steps": found.step,
            "tokens": found.step * per_step,
            "operations": cost.operations(shape, found.step * per_step),
            "seconds": found.seconds,
        }
        places[costs].write_text(json.dumps(values) + "\n", "utf-8")
