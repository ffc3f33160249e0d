"""Correlate the scores of tables on two tasks, over tables.

embscale task-correlation A/*.parquet B/*.parquet --where metric=ndcg_at_10 --where length=64 -o rows.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli._per_query import read_per_query
from embscale.cli._rows import add_where
from embscale.parameters import flags
from embscale.parameters.scores import Bootstrap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score, of two tasks"
    )
    add_where(parser)
    flags.add(parser, Bootstrap)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV")


def run(args: argparse.Namespace) -> None:
    """Read, correlate, write."""
    from embscale.scoring import task_correlation

    with write_with_provenance(args, inputs=args.scores, outputs=[args.output]) as (output,):
        rows = task_correlation.correlations(
            read_per_query(args.scores, args.where), resamples=args.bootstrap_resamples, seed=args.bootstrap_seed
        )
        rows.to_csv(output, index=False)
