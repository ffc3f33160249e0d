"""Gather per-query scores into one tidy table, a row per score with its interval."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.scores import Bootstrap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    flags.add(parser, Bootstrap)
    parser.add_argument("--csv", type=Path, required=True, help="the rows as text")
    parser.add_argument("--parquet", type=Path, required=True, help="the same rows")


def run(args: argparse.Namespace) -> None:
    """Read, summarise, write twice."""
    from embscale.scoring import scores

    with write_with_provenance(args, inputs=args.scores, outputs=[args.csv, args.parquet]) as (
        csv,
        parquet,
    ):
        tasks = scores.by_task(map(scores.read_parquet, args.scores))
        rows = scores.summarise(tasks, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed)
        rows.to_csv(csv, index=False)
        scores.write_parquet(rows, parquet)
