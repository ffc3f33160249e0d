"""Average the scores of layers over training runs, and compare them with the table, the untrained model and chance."""

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
    parser.add_argument("scores", type=Path, nargs="+", metavar="LAYERS.parquet", help="from embscale layer-scores")
    parser.add_argument(
        "--controls",
        type=Path,
        nargs="+",
        required=True,
        metavar="SCORES.parquet",
        help="random tables and references, from embscale score",
    )
    add_where(parser)
    flags.add(parser, Bootstrap)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV")


def run(args: argparse.Namespace) -> None:
    """Read, average, compare, write."""
    from embscale.scoring import layer_scores

    with write_with_provenance(args, inputs=[*args.scores, *args.controls], outputs=[args.output]) as (output,):
        rows = layer_scores.estimates(
            read_per_query(args.scores, args.where),
            read_per_query(args.controls, args.where),
            resamples=args.bootstrap_resamples,
            seed=args.bootstrap_seed,
        )
        rows.to_csv(output, index=False)
