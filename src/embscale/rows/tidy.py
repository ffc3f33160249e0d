"""Tidy rows as files, packed where there are many."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd


def write(rows: pd.DataFrame, path: Path, *, float_format: str | None = None) -> None:
    """Write rows as CSV, packed where the name ends with ``.gz``; `pandas.read_csv` reads both by their names."""
    text = rows.to_csv(index=False, float_format=float_format).encode()
    # Without a time and a name, so that equal rows have equal bytes.
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
