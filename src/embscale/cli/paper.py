"""Set a report, SOURCE.qmd, as a PDF that looks like a paper, with Typst."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli.render import add_inputs, add_page, page_metadata
from embscale.report import paper, qmd
from embscale.report.render import choose


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAPER.pdf", help="the paper")


def run(args: argparse.Namespace) -> None:
    """Make the paper and its note."""
    extra = page_metadata(args)
    inputs = [args.source, *args.input, *paper.DESIGN]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts={"machine": extra["machine"]}) as [
        pdf
    ]:
        pdf.write_bytes(paper.to_pdf(qmd.read(args.source, {"renderer": choose("pandoc").label, **extra})))
