"""Draw one figure from tidy rows, with the words that stand for it where it cannot be seen."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

import embscale.figures
from embscale.errors import EmbscaleError
from embscale.figures import NothingToShow
from embscale.provenance.artifacts import file_sha256, recorded
from embscale.rows.markdown import source_fold

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd

# Columns that are names even where they look like numbers.
TEXT_COLUMNS = (
    "choice",
    "classifier",
    "control",
    "design",
    "expected",
    "experiment",
    "fill",
    "input",
    "layer",
    "mask",
    "metric",
    "model",
    "part",
    "positions",
    "predicted_layer",
    "scaling",
    "scheme",
    "seed",
    "split",
    "suite",
    "task",
    "text",
    "texts",
    "token",
    "tokenizer",
    "trained_on",
    "true_layer",
    "variant",
    "weights",
    "word",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("figure", help="a module of embscale.figures, such as layer_accuracy")
    parser.add_argument("--rows", type=Path, required=True, nargs="+", metavar="CSV", help="tidy rows, joined")
    add_where(parser)
    parser.add_argument("--svg", type=Path, required=True, help="the figure")
    parser.add_argument("--partial", type=Path, required=True, metavar="MD", help="Markdown that shows the figure")
    parser.add_argument("--data", type=Path, required=True, metavar="CSV[.gz]", help="the rows that the figure shows")
    parser.add_argument("--image", metavar="PATH", help="the figure's path as the page knows it")


def run(args: argparse.Namespace) -> None:
    """Read the rows, draw, describe."""
    from embscale.figures import theme
    from embscale.rows import tidy

    module = load(args.figure)
    params = {"figure": args.figure, "where": args.where, "image": args.image}
    outputs = [args.svg, args.partial, args.data]
    with recorded(command="draw", params=params, inputs=args.rows, outputs=outputs) as (svg, partial, data):
        rows = read_rows(args.rows, module.COLUMNS, where=args.where)
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


def add_where(parser: argparse.ArgumentParser) -> None:
    """Declare the flag that chooses rows."""
    parser.add_argument(
        "--where", action="append", default=[], metavar="COLUMN=VALUE", help="keep only such rows; can be given again"
    )


def names() -> list[str]:
    """The figures that there are."""
    return [m.name for m in pkgutil.iter_modules(embscale.figures.__path__) if m.name != "theme"]


def load(name: str) -> ModuleType:
    """The module of a figure, by its name with underscores or hyphens.

    Raises:
        EmbscaleError: there is no such figure.
    """
    if name.replace("-", "_") not in names():
        raise EmbscaleError(f"no figure {name!r}; known are {', '.join(names())}")
    return importlib.import_module(f"embscale.figures.{name.replace('-', '_')}")


def read_rows(paths: list[Path], columns: tuple[str, ...], *, where: list[str]) -> pd.DataFrame:
    """Rows of several files, one after the other, that fulfil every condition ``COLUMN=VALUE``.

    Raises:
        EmbscaleError: a file lacks a column or holds no rows, or no row is left.
    """
    import pandas as pd

    conditions = [condition.partition("=")[::2] for condition in where]
    frames = [_read(path, (*columns, *(column for column, _ in conditions))) for path in paths]
    rows = pd.concat(frames, ignore_index=True)
    for column, value in conditions:
        found = sorted(rows[column].astype(str).unique())
        rows = rows[rows[column].astype(str) == value]
        if rows.empty:
            raise EmbscaleError(f"{paths[0]}: no rows of the {column} {value!r}; there are {', '.join(found)}")
    return rows.reset_index(drop=True)


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(TEXT_COLUMNS, "str"))
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise EmbscaleError(f"{path}: not a table of comma-separated values ({error}); make it again") from error
    for column in columns:
        if column not in rows.columns:
            raise EmbscaleError(
                f"{path}: no column {column!r}, which this figure needs; it has {', '.join(map(str, rows))}"
            )
    if rows.empty:
        raise EmbscaleError(f"{path}: no rows; make it again with the command that its note names")
    return rows


def markdown(image: str, alt: str) -> str:
    """An image with its words, in the form that both Quarto and pandoc read."""
    words = " ".join(alt.split()).replace("\\", "\\\\").replace('"', '\\"').replace("{{<", "{\\{<")
    return f'![]({image}){{fig-alt="{words}"}}\n'
