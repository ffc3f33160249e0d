"""Compare ways of scoring: pooling, special tokens, number format, and input or output table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.kinds import SpecialTokens
from embscale.parameters.scores import Bootstrap, Pooling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument("--variant", required=True, help="that the others are compared with: full")
    parser.add_argument("--pooling", choices=get_args(Pooling), required=True, help="the same")
    parser.add_argument("--special-tokens", choices=get_args(SpecialTokens), required=True, help="the same")
    flags.add(parser, Bootstrap)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row for each difference")


def run(args: argparse.Namespace) -> None:
    """Read, compare, write."""
    import pandas as pd

    from embscale.scoring import factors, scores

    against = {name: getattr(args, name) for name in factors.FACTORS}
    with write_with_provenance(args, inputs=args.scores, outputs=[args.output]) as [output]:
        per_query = pd.concat([scores.read_parquet(path) for path in args.scores], ignore_index=True)
        rows = factors.differences(
            per_query, against=against, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed
        )
        rows.to_csv(output, index=False)
