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

    conditions = [(column, value) for column, _, value in (condition.partition("=") for condition in where)]
    frames = [scores.read_parquet(path, conditions) for path in paths]
    for path, rows in zip(paths, frames, strict=True):
        if missing := {"query", "cluster"} - set(rows.columns):
            raise EmbscaleError(
                f"{path}: no column {min(missing)!r}; expected the score of every query, from embscale score"
            )
    found = pd.concat([rows for rows in frames if len(rows)] or frames[:1], ignore_index=True)
    if found.empty:
        raise EmbscaleError(f"{paths[0]}: no rows with {' and '.join(where)}; check --where")
    return found
