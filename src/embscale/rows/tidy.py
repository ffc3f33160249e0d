"""Read and write files of tidy rows, with checks of columns and optional compression."""

from __future__ import annotations

import gzip
import warnings
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from embscale.errors import EmbscaleError, words_of
from embscale.rows.selection import with_unique_models


def write(rows: pd.DataFrame, path: Path, *, float_format: str | None = None) -> None:
    """Write rows as CSV, compressed if the name ends with ``.gz``; `load` reads both."""
    text = rows.to_csv(index=False, float_format=float_format).encode()
    # Without a time and a name, so that equal rows have equal bytes.
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


# Columns that are names even where they look like numbers.
TEXT_COLUMNS = (
    "against",
    "analogue",
    "choice",
    "classifier",
    "commit",
    "control",
    "design",
    "expected",
    "experiment",
    "fill",
    "input",
    "layer",
    "layer_a",
    "layer_b",
    "length",
    "mask",
    "masked",
    "metric",
    "model",
    "models",
    "part",
    "positions",
    "predicted_layer",
    "queries",
    "revision",
    "scaling",
    "scheme",
    "seed",
    "split",
    "study",
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
    frames = [_with_columns(path, (*columns, *(column for column, _ in conditions))) for path in paths]
    rows = pd.concat(frames, ignore_index=True)
    for column, value in conditions:
        values = sorted(rows[column].astype(str).unique())
        rows = rows[rows[column].astype(str) == value]
        if rows.empty:
            raise EmbscaleError(f"{paths[0]}: no rows of the {column} {value!r}; there are {', '.join(values)}")
    return with_unique_models(rows.reset_index(drop=True))


def load(path: Path, *, names: Collection[str] = TEXT_COLUMNS) -> pd.DataFrame:
    """The rows of one file, as the package writes them; every reader of rows is this one or `load_text`.

    A word is a word, also where other programs read ``NA``, ``None`` or ``null`` as nothing: models, tasks and tokens
    are called so.  Only an empty cell is missing, and ``nan`` in a column that is not one of names.

    Args:
        path: comma-separated values, compressed if the name ends with ``.gz``.
        names: columns of text, even where all of it looks like numbers.

    Raises:
        EmbscaleError: the file is no such table.
    """
    columns = _read(path, nrows=0).columns
    missing = {column: [""] if column in names else ["", "nan"] for column in columns}
    return _read(path, dtype=dict.fromkeys(names, "str"), na_values=missing)


def load_text(path: Path, *, separator: str = ",") -> pd.DataFrame:
    """The same with every cell as it is written, so that no digit changes.

    Raises:
        EmbscaleError: the file is no table.
    """
    return _read(path, dtype="str", na_filter=False, sep=separator)


def _read(path: Path, **options: Any) -> pd.DataFrame:  # noqa: ANN401 (of pandas)
    try:
        with warnings.catch_warnings():
            # Otherwise surplus cells would be names of the rows, and all others one column further left.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, keep_default_na=False, index_col=False, **options)
    except (ValueError, OverflowError, EOFError, gzip.BadGzipFile, zlib.error, pd.errors.ParserWarning) as error:
        raise EmbscaleError(
            f"{path}: not a table of comma-separated values ({words_of(error)}); make it again"
        ) from error


def _with_columns(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    rows = load(path)
    for column in columns:
        if column not in rows.columns:
            raise EmbscaleError(
                f"{path}: no column {column!r}, which this figure needs; it has {', '.join(map(str, rows))}"
            )
    if rows.empty:
        raise EmbscaleError(f"{path}: no rows; make it again with the command that its note names")
    return rows
