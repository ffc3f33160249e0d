"""Set every published number of both studies beside ours, by its authors' protocol and by our own."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.scores import Bootstrap
from embscale.rows import tidy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--scores", type=Path, nargs="*", default=[], metavar="PARQUET", help="from embscale score --faithful"
    )
    parser.add_argument("--estimates", type=Path, required=True, metavar="CSV", help="from embscale estimates")
    parser.add_argument(
        "--layers", type=Path, nargs="*", default=[], metavar="CSV", help="from embscale faithful-layers"
    )
    parser.add_argument("--inventory", type=Path, required=True, metavar="CSV", help="from embscale inventory")
    parser.add_argument("--registry", type=Path, required=True, metavar="YAML", help="workflow/suites.yaml")
    parser.add_argument("--pins", type=Path, required=True, metavar="YAML", help="workflow/pins.yaml")
    parser.add_argument("--tasks", nargs="*", required=True, help="retrieval tasks of the study")
    flags.add(parser, Bootstrap)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row per published number")
    parser.add_argument("--partial", type=Path, required=True, metavar="MD", help="a table for the report")
    parser.add_argument("--data", type=Path, required=True, metavar="CSV[.gz]", help="the rows, for download")


def run(args: argparse.Namespace) -> None:
    """Read, match, write."""
    import pandas as pd

    from embscale.checkpoints import suites
    from embscale.claims import published_cells, published_scores, reproduction
    from embscale.scoring import scores

    inputs = [
        *args.scores, args.estimates, *args.layers, args.inventory, args.registry, args.pins,
        published_cells.FILE, published_scores.LAYERS_FILE,
    ]  # fmt: skip
    with write_with_provenance(args, inputs=inputs, outputs=[args.output, args.partial, args.data]) as paths:
        csv, partial, data = paths
        faithful = pd.DataFrame(columns=scores.COLUMNS)
        if args.scores:
            tasks = scores.by_task(scores.read_parquet(path) for path in args.scores)
            faithful = scores.summarise(tasks, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed)
        layers = pd.DataFrame(columns=["way", "model", *reproduction.OF_LAYERS, *reproduction.MEASURED])
        if args.layers:
            layers = pd.concat(map(tidy.load, args.layers))
            layers["masked"] = layers["masked"].fillna("")
        inventory = tidy.load(args.inventory)
        there = reproduction.There(
            registry={
                point.model: point for points in suites.load(args.registry, args.pins).values() for point in points
            },
            inventory={row.model: (row.status, row.reason) for row in inventory.itertuples()},
            tasks=args.tasks,
        )
        rows = reproduction.table(faithful, tidy.read([args.estimates], (), where=[]), layers, there)
        rows.to_csv(csv, index=False)
        tidy.write(rows, data)
        download = f"[Every published number beside ours]({{{{< meta data >}}}}/{args.data.name}), as CSV."
        partial.write_text(f"{reproduction.partial(rows)}\n{download}\n", "utf-8")
