"""Fetch the texts of a data set from the Hugging Face Hub, at a commit, as lines of JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("dataset", metavar="REPO@COMMIT", help="the commit with all its 40 digits")
    parser.add_argument("--subset", required=True, help="the data set's configuration")
    parser.add_argument("--split", required=True)
    parser.add_argument("--column", required=True, help="the one with the text")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TEXTS.jsonl.gz")


def run(args: argparse.Namespace) -> None:
    """Load with the datasets library; a text's id is its index in the split."""
    from datasets import load_dataset

    from embscale.checkpoints.hub import COMMIT, trying
    from embscale.texts import beir

    repo, _, commit = args.dataset.partition("@")
    if not COMMIT.fullmatch(commit):
        raise EmbscaleError(f"{args.dataset}: not a commit of 40 hexadecimal digits; resolve it with embscale pin")
    with write_with_provenance(args, inputs=[], outputs=[args.output]) as (output,):
        rows = trying(args.dataset, lambda: load_dataset(repo, args.subset, split=args.split, revision=commit))
        if args.column not in rows.column_names:
            raise EmbscaleError(f"{args.dataset}: no column {args.column}; it has {', '.join(rows.column_names)}")
        texts = ({"_id": f"{args.split}-{i}", "text": text} for i, text in enumerate(rows[args.column]))
        output.write_bytes(beir.gzip_bytes(beir.jsonl_bytes(texts)))
    print(f"{len(rows)} texts", file=sys.stderr)
