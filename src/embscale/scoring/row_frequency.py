"""Rows of a table by how often their tokens occur: their norm, and how far training has moved them.

Tokens are grouped by their number of occurrences in classes that widen by a factor of four.  All rows of a table are
measured, not a sample, so values have no interval; another training run would give others.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

from embscale.scoring.table_geometry import BLOCK_BYTES
from embscale.statistics.vectors import UNIT, chunks, scaled
from embscale.tables.table_files import Stored

# Fewest occurrences of each class.
LOWEST = (0, 1, 4, 16, 64, 256, 1024)
ALL = "all"

COLUMNS = ["rows", "width", "frequency", "low", "quantity", "value", "n", "reference"]


def class_names() -> list[str]:
    """The classes in words, the rarest first."""
    names = [f"{low} to {high - 1}" if high - low > 1 else f"{low}" for low, high in itertools.pairwise(LOWEST)]
    return [*names, f"{LOWEST[-1]} or more"]


def classes(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Masks ``[rows]`` of the tokens of each class, `ALL` first; classes without tokens are left out.

    Args:
        counts: occurrences of each row's token in a set of texts, ``[rows]``.
    """
    number = np.searchsorted(LOWEST, counts, side="right") - 1
    masks = {ALL: np.ones(len(counts), bool)}
    return masks | {name: number == i for i, name in enumerate(class_names()) if (number == i).any()}


def measure(table: Stored, counts: np.ndarray, *, first: Stored | None, last: Stored | None) -> pd.DataFrame:
    """Measure the rows of one checkpoint's table by the frequency of their tokens.

    - ``mean_length``: mean norm.
    - ``cosine_with_first`` and ``cosine_with_last``: mean cosine of a row with the same token's row in the table before
      training and in the last one; rows of zeros have none.  The ``reference`` is the mean cosine with the rows of all
      other tokens in that table, which a direction that all rows share raises.

    Args:
        table: on disk.
        counts: occurrences of each row's token, ``[rows]``.
        first: the table of the same model before training, if there is one.
        last: its last table, if this is one of several.

    Returns:
        Columns `COLUMNS`: the class of ``frequency`` and its ``low``est number of occurrences (empty for `ALL`), and
        the number of rows ``n`` that the mean is over.
    """
    masks = classes(counts)
    shared = {"rows": table.shape[0], "width": table.shape[1]}
    norms = np.concatenate([np.linalg.norm(np.asarray(table[part], np.float64), axis=1) for part in _parts(table)])
    rows: list[dict[str, Any]] = [
        _keys(name) | {"quantity": "mean_length", "value": norms[mask].mean(), "n": int(mask.sum())}
        for name, mask in masks.items()
    ]
    for quantity, other in (("cosine_with_first", first), ("cosine_with_last", last)):
        if other is not None:
            rows += _cosines(table, other, masks, quantity)
    return pd.DataFrame([shared | row for row in rows], columns=COLUMNS)


def _parts(table: Stored) -> list[slice]:
    return list(chunks(len(table), max(1, BLOCK_BYTES // (8 * table.shape[1]))))


def _keys(name: str) -> dict[str, Any]:
    return {"frequency": name, "low": np.nan if name == ALL else LOWEST[class_names().index(name)]}


def _cosines(table: Stored, other: Stored, masks: dict[str, np.ndarray], quantity: str) -> list[dict[str, Any]]:
    own = np.full(len(table), np.nan)
    total = np.zeros(table.shape[1])
    sums = {name: np.zeros(table.shape[1]) for name in masks}
    directed = 0
    for part in _parts(table):
        mine, others = scaled(table[part], UNIT), scaled(other[part], UNIT)
        known = mine.any(axis=1) & others.any(axis=1)
        own[part] = np.where(known, (mine * others).sum(axis=1), np.nan)
        total += others[known].sum(axis=0)
        directed += int(known.sum())
        for name, mask in masks.items():
            sums[name] += mine[mask[part] & known].sum(axis=0)
    rows = []
    for name, mask in masks.items():
        cosines = own[mask & ~np.isnan(own)]
        n = len(cosines)
        apart = (sums[name] @ total - cosines.sum()) / (n * (directed - 1)) if n and directed > 1 else np.nan
        value = cosines.mean() if n else np.nan
        rows.append(_keys(name) | {"quantity": quantity, "value": value, "n": n, "reference": apart})
    return rows
