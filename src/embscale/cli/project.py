"""Complete the folder of a report, SOURCE.qmd, so that ``quarto render`` can be run in it by hand."""

from __future__ import annotations

import argparse

from embscale.cli._note import write_with_provenance
from embscale.cli.render import add_page, page_metadata
from embscale.report import quarto


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)


def run(args: argparse.Namespace) -> None:
    """Write Quarto's metadata and the page's design beside the text, and their note."""
    extra = page_metadata(args) | {"renderer": "Quarto"}
    outputs = [args.source.parent / name for name in quarto.PROJECT]
    with write_with_provenance(
        args, inputs=quarto.DESIGN, outputs=outputs, facts={"machine": extra["machine"]}
    ) as temporary:
        files = quarto.project(extra)
        for path, name in zip(temporary, quarto.PROJECT, strict=True):
            path.write_bytes(files[name])
