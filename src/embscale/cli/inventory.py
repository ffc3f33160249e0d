"""List every published checkpoint of a study, with its commit, its licence and whether it is used."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.study import Limits

COLUMNS = ("suite", "model", "checkpoint", "repo", "commit", "rows", "dims", "licence", "status", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--suites", nargs="*", required=True, help="of the study")
    parser.add_argument("--layer-suites", nargs="*", required=True, help="suites whose hidden states are computed too")
    parser.add_argument("--local-paths", nargs="*", required=True, metavar="MODEL=FOLDER")
    parser.add_argument("--registry", type=Path, required=True)
    parser.add_argument("--pins", type=Path, required=True)
    parser.add_argument("--token", action="store_true", help="there is one, so gated checkpoints are asked for")
    flags.add(parser, Limits)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV")


def run(args: argparse.Namespace) -> None:
    """Plan, write a row for each checkpoint."""
    from embscale.checkpoints import suites

    with write_with_provenance(args, inputs=[args.registry, args.pins], outputs=[args.output]) as (output,):
        planned = suites.plan(
            suites.load(args.registry, args.pins),
            args.suites,
            layer_suites=args.layer_suites,
            local_paths=dict(text.split("=", 1) for text in args.local_paths),
            token=args.token,
            max_table_gb=args.max_table_gb,
            max_checkpoint_gb=args.max_checkpoint_gb,
            max_download_gb=args.max_download_gb,
        )
        with output.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for item in planned:
                point = item.checkpoint
                writer.writerow(
                    [
                        point.suite,
                        point.model,
                        point.name,
                        point.repo,
                        point.commit or "",
                        point.rows,
                        point.dims,
                        point.licence,
                        item.status,
                        item.reason,
                    ]
                )
