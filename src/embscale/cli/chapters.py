"""Render a report, SOURCE.qmd, to a small site: a page for each chapter, with navigation."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli.render import add_inputs, add_page, page_metadata
from embscale.provenance.artifacts import read_inputs
from embscale.report.pandoc import DESIGN
from embscale.report.render import render_chapters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="gets index.html and more")


def run(args: argparse.Namespace) -> None:
    """Make the pages and their note."""
    metadata = page_metadata(args)
    inputs = read_inputs([args.source, *args.input, *DESIGN])
    # Which pages there are is known only when they are made.
    pages = render_chapters(args.source, **metadata)
    outputs = [args.output / name for name in sorted(pages, key=lambda name: (name != "index.html", name))]
    with write_with_provenance(
        args, inputs=inputs, outputs=outputs, facts={"machine": metadata["machine"]}
    ) as temporary:
        for path, output in zip(temporary, outputs, strict=True):
            path.write_bytes(pages[output.relative_to(args.output).as_posix()])
