"""Draw one figure from tidy rows, for a page and for a phone, with its alternative text."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import embscale.figures
from embscale.cli._note import write_with_provenance
from embscale.cli._rows import add_where
from embscale.errors import EmbscaleError
from embscale.figures import NothingToShow
from embscale.provenance.artifacts import file_sha256
from embscale.rows import tidy
from embscale.rows.markdown import source_fold

if TYPE_CHECKING:
    from types import ModuleType


PHONE = "-phone"  # behind the name of the drawing for a phone, beside the other one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("figure", help="a module of embscale.figures, such as layer_accuracy")
    parser.add_argument("--rows", type=Path, required=True, nargs="+", metavar="CSV", help="tidy rows, joined")
    add_where(parser)
    parser.add_argument("--svg", type=Path, required=True, help="the figure; NAME-phone.svg beside it, for a phone")
    parser.add_argument("--partial", type=Path, required=True, metavar="MD", help="Markdown that includes the figure")
    parser.add_argument("--data", type=Path, required=True, metavar="CSV[.gz]", help="the rows that the figure shows")
    parser.add_argument("--image", metavar="PATH", help="the figure's path relative to the page")


def run(args: argparse.Namespace) -> None:
    """Read the rows, draw, describe."""
    from embscale.plotting import theme

    module = load(args.figure)
    outputs = [args.svg, args.svg.with_stem(f"{args.svg.stem}{PHONE}"), args.partial, args.data]
    with write_with_provenance(args, inputs=args.rows, outputs=outputs) as (svg, phone, partial, data):
        rows = tidy.read(args.rows, module.COLUMNS, where=args.where)
        tidy.write(rows, data)
        source = source_fold(
            of="this figure",
            rule="draw",
            command=f"draw {args.figure}",
            module=module.__name__,
            digests={path.as_posix(): file_sha256(path) for path in args.rows},
            where=args.where,
            data=args.data.name,
        )
        image = args.image or Path(os.path.relpath(args.svg, args.partial.parent)).as_posix()
        try:
            theme.save(module.draw(rows), svg, salt=args.figure)
            with theme.for_phones():
                theme.save(module.draw(rows), phone, salt=f"{args.figure}{PHONE}")
            # A figure with a view in the explorer names it, from the rows that it shows.
            view = explorer_link(module.explorer(rows)) if hasattr(module, "explorer") else ""
            partial.write_text(markdown(image, module.describe(rows)) + source + view, "utf-8")
        except NothingToShow as reason:
            for file in (svg, phone):
                theme.save(theme.figure(height=0.1), file)
            partial.write_text(f"{reason}\n{source}", "utf-8")


def names() -> list[str]:
    """Names of all figures."""
    return [m.name for m in pkgutil.iter_modules(embscale.figures.__path__) if m.name != "theme"]


def load(name: str) -> ModuleType:
    """The module of a figure, by its name with underscores or hyphens.

    Raises:
        EmbscaleError: there is no such figure.
    """
    if name.replace("-", "_") not in names():
        raise EmbscaleError(f"no figure {name!r}; known are {', '.join(names())}")
    return importlib.import_module(f"embscale.figures.{name.replace('-', '_')}")


def markdown(image: str, alt: str) -> str:
    """An image with its alternative text, in Markdown that both Quarto and pandoc read."""
    words = " ".join(alt.split()).replace("\\", "\\\\").replace('"', '\\"').replace("{{<", "{\\{<")
    return f'![]({image}){{fig-alt="{words}"}}\n'


def explorer_link(view: Mapping[str, str | Sequence[str]]) -> str:
    """A link to a view of the explorer, in Markdown; the page that shows it sets ``explorer``, its address."""
    address = f"{{{{< meta explorer >}}}}#{urlencode(view, doseq=True)}"
    return f"\n::: {{.explore}}\n[Open this view in the explorer]({address})\n:::\n"
