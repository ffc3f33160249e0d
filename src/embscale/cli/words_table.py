"""Write the probes of words of one model as a table for the report."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.rows import tidy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("rows", type=Path, nargs="+", metavar="WORDS.csv", help="from embscale words")
    parser.add_argument("--model", required=True, help="whose")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MD")


def run(args: argparse.Namespace) -> None:
    """Read, choose, write."""
    from embscale.report.words_table import words_table
    from embscale.scoring.words import COLUMNS

    with write_with_provenance(args, inputs=args.rows, outputs=[args.output]) as (output,):
        rows = tidy.read(args.rows, ("model", "variant", *COLUMNS), where=[])
        output.write_text(words_table(rows, args.model), "utf-8")
