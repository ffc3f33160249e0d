"""Read and write files of tidy rows, with checks of columns and optional compression."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows.selection import with_unique_models


def write(rows: pd.DataFrame, path: Path, *, float_format: str | None = None) -> None:
    """Write rows as CSV, compressed if the name ends with ``.gz``; `pandas.read_csv` reads both."""
    text = rows.to_csv(index=False, float_format=float_format).encode()
    # Without a time and a name, so that equal rows have equal bytes.
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


# Columns that are names even where they look like numbers.
TEXT_COLUMNS = (
    "against",
    "choice",
    "classifier",
    "control",
    "design",
    "expected",
    "experiment",
    "fill",
    "input",
    "layer",
    "length",
    "mask",
    "metric",
    "model",
    "part",
    "positions",
    "predicted_layer",
    "queries",
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
    "treatment",
    "true_layer",
    "variant",
    "weights",
    "word",
)


def read(paths: list[Path], columns: tuple[str, ...], *, where: list[str]) -> pd.DataFrame:
    """Rows of several files, one after the other, that meet every condition ``COLUMN=VALUE``.

    Raises:
        EmbscaleError: a file lacks a column or holds no rows, or no row is left.
    """
    conditions = [condition.partition("=")[::2] for condition in where]
    frames = [_read(path, (*columns, *(column for column, _ in conditions))) for path in paths]
    rows = pd.concat(frames, ignore_index=True)
    for column, value in conditions:
        values = sorted(rows[column].astype(str).unique())
        rows = rows[rows[column].astype(str) == value]
        if rows.empty:
            raise EmbscaleError(f"{paths[0]}: no rows of the {column} {value!r}; there are {', '.join(values)}")
    return with_unique_models(rows.reset_index(drop=True))


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
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
