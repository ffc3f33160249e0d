"""Tabulate the time and memory used by each step of a study, from Snakemake's benchmark files."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="results/STUDY/benchmarks")
    parser.add_argument("--steps", nargs="+", required=True, metavar="RULE", help="states, probe and so on")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="COSTS.csv")


def run(args: argparse.Namespace) -> None:
    """Read, sum, write, and print the same."""
    from embscale.provenance import costs

    inputs = sorted(file for step in args.steps for file in (args.folder / step).glob("*.tsv"))
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        costs_table = costs.costs(args.folder, args.steps)
        costs_table.to_csv(output, index=False, float_format="%.1f")
    print(costs_table.to_string(index=False, float_format="%.1f"))
