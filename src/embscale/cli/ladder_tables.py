"""Write the tables of the answers about the ladder, of this study or of a recorded one."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError

TABLES = ("crossings", "effects", "explanations", "fits", "costs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "answers",
        type=Path,
        nargs=len(TABLES),
        metavar="CSV",
        help=f"{', '.join(TABLES)}, from embscale ladder-answers",
    )
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="gets a .md file per table")


def run(args: argparse.Namespace) -> None:
    """Read rows, write tables."""
    from embscale.answers import words
    from embscale.rows import tidy

    given = {path.stem: path for path in args.answers}
    if missing := [name for name in TABLES if name not in given]:
        raise EmbscaleError(f"{args.answers[0].parent}: no {missing[0]}.csv among the answers; give all of them")
    outputs = [args.tables / f"ladder_{name}.md" for name in TABLES]
    with write_with_provenance(args, inputs=args.answers, outputs=outputs) as paths:
        for name, path in zip(TABLES, paths, strict=True):
            table = getattr(words, f"{name}_table")
            path.write_text(table(tidy.read([given[name]], (), where=[])), "utf-8")
