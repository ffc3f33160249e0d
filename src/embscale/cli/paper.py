"""Set a report, SOURCE.qmd, as a paper: a PDF, or an OpenDocument text for a word processor."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli.render import add_inputs, add_page, page_metadata
from embscale.errors import EmbscaleError
from embscale.report import paper, qmd
from embscale.report.render import choose


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAPER", help="the paper, .pdf or .odt")


def run(args: argparse.Namespace) -> None:
    """Make the paper and its note."""
    if args.output.suffix not in paper.FORMS:
        raise EmbscaleError(f"--output {args.output}: expected a name that ends in {' or '.join(paper.FORMS)}")
    extra = page_metadata(args)
    inputs = [args.source, *args.input, *paper.DESIGN]
    facts = {"machine": extra["machine"]}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as [written]:
        document = qmd.read(args.source, {"renderer": choose("pandoc").label, **extra})
        written.write_bytes(paper.FORMS[args.output.suffix](document))
