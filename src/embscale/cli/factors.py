"""Hold ways of scoring against one another: pooling, special tokens, number format, which of a model's tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.provenance.artifacts import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument("--variant", required=True, help="that others are held against: full")
    parser.add_argument("--pooling", choices=("mean", "sum", "max"), required=True, help="the same")
    parser.add_argument("--special-tokens", choices=("exclude", "include"), required=True, help="the same")
    parser.add_argument("--resamples", type=int, required=True, help="bootstrap resamples of the queries")
    parser.add_argument("--seed", type=int, required=True, help="of the resamples")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row for each difference")


def run(args: argparse.Namespace) -> None:
    """Read, compare, write."""
    import pandas as pd

    from embscale.scoring import factors, scores

    against = {name: getattr(args, name) for name in factors.FACTORS}
    params = against | {"resamples": args.resamples, "seed": args.seed}
    with recorded(command="factors", params=params, inputs=args.scores, outputs=[args.output]) as [output]:
        per_query = pd.concat([scores.read_parquet(path) for path in args.scores], ignore_index=True)
        rows = factors.differences(per_query, against=against, resamples=args.resamples, seed=args.seed)
        rows.to_csv(output, index=False)
