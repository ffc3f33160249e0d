"""Render a report, SOURCE.qmd, to one self-contained HTML page, with pandoc or with Quarto."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.report.machine import machine
from embscale.report.pandoc import DESIGN
from embscale.report.render import CHOICES, choose, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="the page")
    parser.add_argument("--renderer", choices=CHOICES, required=True, help="the program that renders the page")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Declare further inputs of the note."""
    parser.add_argument(
        "--input",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="another file that the page is made from, for its note; repeatable",
    )


def add_page(parser: argparse.ArgumentParser) -> None:
    """Declare a page's main document, and the metadata that it cannot contain."""
    parser.add_argument(
        "source", type=Path, metavar="SOURCE.qmd", help="main document; all paths in it start at its folder"
    )
    parser.add_argument(
        "--commit", default="not known", help="state of the repository, shown on the page (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        default="data",
        metavar="URL",
        help="the folder with the rows behind the figures, for {{< meta data >}} (default: %(default)s)",
    )
    parser.add_argument(
        "--link",
        dest="links",
        action="append",
        default=[],
        metavar="TITLE=URL",
        help="another page of the site, for the navigation; repeatable",
    )


def page_metadata(args: argparse.Namespace) -> dict[str, Any]:
    """Page metadata from the flags of `add_page`.

    Raises:
        EmbscaleError: a link is not of the form TITLE=URL.
    """
    pairs = [text.partition("=") for text in args.links]
    if wrong := ["".join(pair) for pair in pairs if not all(pair)]:
        raise EmbscaleError(f"--link {wrong[0]}: expected TITLE=URL")
    links = [{"title": title, "url": url} for title, _, url in pairs]
    return {"commit": args.commit, "data": args.data, "links": links, "machine": machine()}


def run(args: argparse.Namespace) -> None:
    """Make the page and its note."""
    renderer, extra = choose(args.renderer), page_metadata(args)
    # The note's source digests cover only Python; the page also depends on its design files.
    inputs = [args.source, *args.input, *DESIGN]
    facts = {"machine": extra["machine"], "renderer": renderer.label}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as [page]:
        page.write_bytes(render(args.source, renderer, **extra).encode("utf-8"))
