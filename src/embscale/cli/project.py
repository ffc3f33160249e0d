"""Complete the folder of a report, SOURCE.qmd, so that ``quarto render`` in it makes the page by hand."""

from __future__ import annotations

import argparse

from embscale.artifacts import file_sha256, recorded
from embscale.cli.render import add_page, page_metadata
from embscale.report import quarto


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)


def run(args: argparse.Namespace) -> None:
    """Write Quarto's metadata and the page's design beside the text, and their note."""
    extra = page_metadata(args) | {"renderer": "Quarto"}
    params = extra | {"design": {file.name: file_sha256(file) for file in quarto.DESIGN}}
    files = quarto.project(extra)
    outputs = [args.source.parent / name for name in files]
    with recorded(command="project", params=params, inputs=[], outputs=outputs) as temporary:
        for path, content in zip(temporary, files.values(), strict=True):
            path.write_bytes(content)
