"""Render a report, SOURCE.qmd, to one self-contained HTML page, with pandoc or with Quarto."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from embscale.cli import _pairs
from embscale.cli._note import write_with_provenance
from embscale.report.machine import machine
from embscale.report.pandoc import DESIGN
from embscale.report.render import CHOICES, choose, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_page(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="the page")
    parser.add_argument(
        "--appendix",
        metavar="URL",
        help="the folder with the pages by chapter, which then hold the sections marked .own-page in the page's place",
    )
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
    parser.add_argument("--date", help="of that state, YYYY-MM-DD, shown on the page")
    parser.add_argument(
        "--data",
        default="data",
        metavar="URL",
        help="the folder with the rows behind the figures, for {{< meta data >}} (default: %(default)s)",
    )
    parser.add_argument(
        "--explorer",
        default="explorer.html",
        metavar="URL",
        help="the explorer, for {{< meta explorer >}} (default: %(default)s)",
    )
    _pairs.add_links(parser)


def page_metadata(args: argparse.Namespace) -> dict[str, Any]:
    """Page metadata from the flags of `add_page`.

    Raises:
        EmbscaleError: a link is not of the form TITLE=URL.
    """
    links = [{"title": title, "url": url} for title, url in _pairs.links(args.links)]
    date = {"date": args.date} if args.date else {}
    places = {"data": args.data, "explorer": args.explorer}
    return {"commit": args.commit, **places, "links": links, "machine": machine(), **date}


def run(args: argparse.Namespace) -> None:
    """Make the page and its note."""
    renderer, extra = choose(args.renderer), page_metadata(args)
    # The note's source digests cover only Python; the page also depends on its design files.
    inputs = [args.source, *args.input, *DESIGN]
    facts = {"machine": extra["machine"], "renderer": renderer.label}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as [page]:
        page.write_bytes(render(args.source, renderer, args.appendix, **extra).encode("utf-8"))
