"""Gather per-query scores into one tidy table, a row per score with its interval."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.provenance.artifacts import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument("--resamples", type=int, required=True, help="bootstrap resamples of the queries")
    parser.add_argument("--seed", type=int, required=True, help="of the resamples")
    parser.add_argument("--csv", type=Path, required=True, help="the rows as text")
    parser.add_argument("--parquet", type=Path, required=True, help="the same rows")


def run(args: argparse.Namespace) -> None:
    """Read, summarise, write twice."""
    import pandas as pd

    from embscale.scoring import scores

    params = {"resamples": args.resamples, "seed": args.seed}
    with recorded(command="gather", params=params, inputs=args.scores, outputs=[args.csv, args.parquet]) as (
        csv,
        parquet,
    ):
        per_query = pd.concat([scores.read_parquet(path) for path in args.scores], ignore_index=True)
        rows = scores.summarise(per_query, resamples=args.resamples, seed=args.seed)
        rows.to_csv(csv, index=False)
        scores.write_parquet(rows, parquet)
