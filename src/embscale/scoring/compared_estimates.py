"""Comparisons of tables averaged over training runs, with intervals.

A pair of tables is of two runs, and pairs that share a run are not independent.  So an interval comes from leaving out
one run at a time with all of its pairs, with Student's t for the few runs (`embscale.statistics.jackknife`); for what
is measured of each run alone, that is the interval of a mean.  Two runs of which pairs are made have no interval.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from embscale.statistics import jackknife

SIMILARITY, DIMENSION, UNDERTRAINED = "similarity", "dimension", "undertrained"

# What tells estimates apart; empty where it does not apply.
KEYS = ["about", "relation", "table", "other_table", "indicator", "quantity", "width", "other_width", "step"]
COLUMNS = [*KEYS, "value", "ci_low", "ci_high", "raw", "chance", "chosen", "tied", "runs", "n"]


def estimates(similarity: pd.DataFrame, dimension: pd.DataFrame, undertrained: pd.DataFrame) -> pd.DataFrame:
    """Means over runs, or over pairs of runs.

    Args:
        similarity: from `embscale.scoring.compared_tables.similarities`.
        dimension: from its `dimensions`.
        undertrained: from its `undertrained_tokens`.

    Returns:
        Columns `COLUMNS`.  Of similarities the ``value`` is calibrated and ``raw`` is not, and ``chance`` is the mean
        of the permuted ones.  The interval of a dimension is that over rows of the table, averaged over runs.  ``n``
        is the number of rows or tokens.
    """
    parts = [
        similarity.assign(about=SIMILARITY, raw=similarity["value"], value=similarity["calibrated"]).rename(
            columns={"measure": "quantity", "null": "chance"}
        ),
        dimension.assign(about=DIMENSION, quantity=DIMENSION, raw=dimension["value"]),
        undertrained.assign(about=UNDERTRAINED, raw=undertrained["value"]).rename(columns={"metric": "quantity"}),
    ]
    found = []
    for part in parts:
        for keys, rows in part.reindex(columns=[*part, *(key for key in KEYS if key not in part)]).groupby(
            KEYS, dropna=False, sort=False
        ):
            found.append(dict(zip(KEYS, keys, strict=True)) | _mean(rows))
    return pd.DataFrame(found, columns=COLUMNS)


def _mean(rows: pd.DataFrame) -> dict[str, object]:
    low, high = rows[["ci_low", "ci_high"]].mean() if "ci_low" in rows else _interval(rows)
    same = {name: rows[name].iloc[0] for name in ("chosen", "tied", "n") if name in rows}
    means = {name: rows[name].mean() for name in ("value", "raw", "chance") if name in rows}
    return means | same | {"ci_low": low, "ci_high": high, "runs": len(_runs(rows))}


def _runs(rows: pd.DataFrame) -> list[int]:
    return sorted({*rows["run"], *rows.get("other_run", [])})


def _interval(rows: pd.DataFrame) -> tuple[float, float]:
    """95 % interval of the mean, from leaving out one run at a time; NaN where nothing would be left."""
    runs = _runs(rows)
    other = rows.get("other_run", rows["run"])
    without = [rows.loc[(rows["run"] != run) & (other != run), "value"] for run in runs]
    if len(runs) < jackknife.LEAST_GROUPS or any(kept.empty for kept in without):
        return math.nan, math.nan
    low, high = jackknife.interval(np.array([rows["value"].mean(), *(kept.mean() for kept in without)]))
    return float(low), float(high)
