"""Render a report, SOURCE.qmd, to one self-contained HTML page, with Quarto or with pandoc."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.artifacts import file_sha256, recorded
from embscale.report.pandoc import DESIGN
from embscale.report.render import CHOICES, choose, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "source", type=Path, metavar="SOURCE.qmd", help="main document; all paths in it start at its folder"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="the page")
    parser.add_argument(
        "--renderer",
        choices=CHOICES,
        default="auto",
        help="auto takes Quarto where it is installed (default: %(default)s)",
    )
    parser.add_argument(
        "--input",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="another file that the page is made from, for its note; can be given again",
    )


def run(args: argparse.Namespace) -> None:
    """Make the page and its note."""
    renderer = choose(args.renderer)
    # The note's source digests cover only Python; the page also follows from these files.
    params = {"renderer": renderer.label, "design": {file.name: file_sha256(file) for file in DESIGN}}
    inputs = [args.source, *args.input]
    with recorded(command="render", params=params, inputs=inputs, outputs=[args.output]) as [page]:
        page.write_bytes(render(args.source, renderer).encode("utf-8"))
