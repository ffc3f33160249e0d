"""Gather the rows of a study that are kept in git, and its headline numbers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--scores", type=Path, nargs="+", required=True, metavar="CSV", help="from embscale gather")
    parser.add_argument("--estimates", type=Path, required=True, metavar="CSV", help="from embscale estimates")
    parser.add_argument("--differences", type=Path, required=True, metavar="CSV", help="the same")
    parser.add_argument("--layers", type=Path, nargs="+", required=True, metavar="CSV", help="from embscale probe")
    parser.add_argument("--claims", type=Path, required=True, metavar="CSV", help="from embscale claims")
    parser.add_argument("--metric", required=True, help="of the scores that are kept")
    parser.add_argument("--length", required=True, help="of documents, among the headline numbers")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="gets the tables")


def run(args: argparse.Namespace) -> None:
    """Read, gather, write."""
    from embscale.provenance import kept_results

    of_scores = {"scores": args.scores, "estimates": [args.estimates], "differences": [args.differences]}
    sources = of_scores | {"layers": args.layers, "claims": [args.claims]}
    outputs = [
        args.output / "metrics.json",
        args.output / "curves.csv",
        *(args.output / f"{name}.csv" for name in sources),
    ]
    inputs = [path for paths in sources.values() for path in paths]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as (
        metrics,
        curves,
        *csv,
    ):
        tables = {name: kept_results.gather(paths) for name, paths in sources.items()}
        # Results of single seeds are only in the probes' own files.
        tables["layers"] = tables["layers"][tables["layers"]["seed"] == "all"]
        for name in of_scores:  # other metrics are only in the study's own files
            tables[name] = tables[name][tables[name]["metric"] == args.metric]
        numbers = kept_results.headline(tables, args.metric, args.length)
        if not all(numbers.values()):
            raise EmbscaleError(
                f"{args.estimates}: no row of the metric {args.metric} at the length {args.length}; score with it first"
            )
        metrics.write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
        kept_results.curves(tables["estimates"], args.length).to_csv(curves, index=False)
        for path, rows in zip(csv, tables.values(), strict=True):
            rows.to_csv(path, index=False)
