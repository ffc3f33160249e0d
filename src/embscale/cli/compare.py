"""Compare our scores with those published in Corey 2024."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli._rows import add_where
from embscale.rows import tidy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, metavar="SCORES.csv", help="from embscale gather")
    add_where(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row for each common score")
    parser.add_argument("--partial", type=Path, required=True, metavar="MD", help="the rows as a Markdown table")


def run(args: argparse.Namespace) -> None:
    """Read, match, write."""
    from embscale.claims import published_scores
    from embscale.scoring import scores

    inputs, outputs = [args.scores, published_scores.FILE], [args.output, args.partial]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as (csv, partial):
        needed = tuple(name for name in scores.COLUMNS if name not in ("dim", "pooling", "special_tokens", "strength"))
        rows = published_scores.compare(tidy.read([args.scores], needed, where=args.where), published_scores.load())
        rows.to_csv(csv, index=False)
        partial.write_text(published_scores.comparison_table(rows), "utf-8")
