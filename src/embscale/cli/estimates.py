"""Average scores over training runs and random draws, and compare trained tables with their controls."""

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
    parser.add_argument("--estimates", type=Path, required=True, metavar="CSV", help="a row per kind of table")
    parser.add_argument("--differences", type=Path, required=True, metavar="CSV", help="a row per table and control")


def run(args: argparse.Namespace) -> None:
    """Read, average, compare, write."""
    from embscale.scoring import estimates, scores

    with write_with_provenance(args, inputs=args.scores, outputs=[args.estimates, args.differences]) as paths:
        tasks = scores.by_task(map(scores.read_parquet, args.scores))
        found = estimates.estimates(tasks, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed)
        for rows, path in zip(found, paths, strict=True):
            rows.to_csv(path, index=False)
