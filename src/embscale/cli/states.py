"""Run texts through a checkpoint and store the hidden states of every layer."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from embscale.artifacts import file_sha256, recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT_DIR", help="a folder in the Hugging Face layout")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="rows with _id and text")
    parser.add_argument("--text-split", metavar="NAME", help="keep only the rows whose metadata.split is NAME")
    parser.add_argument("--texts-count", type=int, required=True, help="texts to take")
    parser.add_argument("--tokens", type=int, required=True, help="tokens of each text; shorter texts are passed over")
    parser.add_argument("--first-position", type=int, required=True, help="leave out the positions before it")
    parser.add_argument("--batch", type=int, required=True, help="texts in one forward pass")
    parser.add_argument("--seed", type=int, required=True, help="seed of the choice of texts")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="STATES.safetensors")


def run(args: argparse.Namespace) -> None:
    """Choose texts, run the model, write the states."""
    from embscale import hidden_states
    from embscale.tokens import load_tokenizer, tokenizer_file

    params = {name: getattr(args, name) for name in ("text_split", "texts_count", "tokens", "first_position")}
    params |= {"batch": args.batch, "seed": args.seed}
    inputs = [args.texts, tokenizer_file(args.tokenizer), *hidden_states.checkpoint_files(args.checkpoint)]
    with recorded(command="states", params=params, inputs=inputs, outputs=[args.output]) as (output,):
        texts = hidden_states.read_texts(args.texts, split=args.text_split)
        tokenizer = load_tokenizer(args.tokenizer)
        sample = hidden_states.choose(texts, tokenizer, count=args.texts_count, length=args.tokens, seed=args.seed)
        model = hidden_states.load_model(args.checkpoint)
        states = hidden_states.capture(model, sample, first_position=args.first_position, batch=args.batch)
        digest = {"config_sha256": file_sha256(args.checkpoint / "config.json")}
        hidden_states.save(output, dataclasses.replace(states, metadata={**states.metadata, **digest}))
    shape = f"{len(states.layers)} layers x {len(states.text)} vectors x {states.width}"
    print(f"{shape}; {sample.too_short} texts too short", file=sys.stderr)
