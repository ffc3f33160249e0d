"""Scores of single queries, read by commands that compare tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import pandas as pd


def read_per_query(paths: Sequence[Path], where: Sequence[str]) -> pd.DataFrame:
    """Scores of single queries that meet every condition ``COLUMN=VALUE``.

    Raises:
        EmbscaleError: a file lacks a column, or no row is left.
    """
    import pandas as pd

    from embscale.scoring import scores

    frames = []
    for path in paths:
        rows = scores.read_parquet(path)
        for column in ("query", "cluster"):
            if column not in rows.columns:
                raise EmbscaleError(
                    f"{path}: no column {column!r}; expected the score of every query, from embscale score"
                )
        for condition in where:
            column, _, value = condition.partition("=")
            if column not in rows.columns:
                raise EmbscaleError(f"{path}: no column {column!r}; it has {', '.join(map(str, rows.columns))}")
            # A name is a category, compared at once for all rows.
            cells = rows[column] if isinstance(rows[column].dtype, pd.CategoricalDtype) else rows[column].astype(str)
            rows = rows[cells == value]
        frames.append(rows)
    found = pd.concat([rows for rows in frames if len(rows)] or frames[:1], ignore_index=True)
    if found.empty:
        raise EmbscaleError(f"{paths[0]}: no rows with {' and '.join(where)}; check --where")
    return found
