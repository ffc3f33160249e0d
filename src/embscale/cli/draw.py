"""Draw one figure from tidy rows, with its alternative text."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("figure", help="a module of embscale.figures, such as layer_accuracy")
    parser.add_argument("--rows", type=Path, required=True, nargs="+", metavar="CSV", help="tidy rows, joined")
    add_where(parser)
    parser.add_argument("--svg", type=Path, required=True, help="the figure")
    parser.add_argument("--partial", type=Path, required=True, metavar="MD", help="Markdown that includes the figure")
    parser.add_argument("--data", type=Path, required=True, metavar="CSV[.gz]", help="the rows that the figure shows")
    parser.add_argument("--image", metavar="PATH", help="the figure's path relative to the page")


def run(args: argparse.Namespace) -> None:
    """Read the rows, draw, describe."""
    from embscale.plotting import theme

    module = load(args.figure)
    outputs = [args.svg, args.partial, args.data]
    with write_with_provenance(args, inputs=args.rows, outputs=outputs) as (svg, partial, data):
        rows = tidy.read(args.rows, module.COLUMNS, where=args.where)
        tidy.write(rows, data)
        source = source_fold(
            rule="draw",
            command=f"draw {args.figure}",
            module=module.__name__,
            digests={path.as_posix(): file_sha256(path) for path in args.rows},
            where=args.where,
            data=args.data.name,
        )
        image = args.image or Path(os.path.relpath(args.svg, args.partial.parent)).as_posix()
        try:
            theme.save(module.draw(rows), svg)
            partial.write_text(markdown(image, module.describe(rows)) + source, "utf-8")
        except NothingToShow as reason:
            theme.save(theme.figure(height=0.1), svg)
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
