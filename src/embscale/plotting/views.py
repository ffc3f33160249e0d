"""Views of the explorer that show what a figure shows, as the state that the explorer's address gives."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from embscale.rows.selection import MAIN_RUN, main_split
from embscale.rows.treatments import FULL

View = dict[str, str | list[str]]


def scores(rows: pd.DataFrame, *, suites: Sequence[str], variants: Sequence[str] = (FULL,)) -> View:
    """Scores of last tables by width, with intervals, random tables and methods without a table."""
    beside = {"beside": ["intervals", "random", "reference"]}
    return _tables(rows, suites, variants) | {"measure": "score", "x": "width"} | beside


def differences(rows: pd.DataFrame, *, suites: Sequence[str], variants: Sequence[str] = (FULL,), x: str) -> View:
    """Differences from random tables, by width or tokens of training."""
    return _tables(rows, suites, variants) | {"measure": "difference", "x": x}


def _tables(rows: pd.DataFrame, suites: Sequence[str], variants: Sequence[str]) -> View:
    # A figure of several tasks leads to the first that the explorer offers.
    of_one = [name for name in ("task", "metric") if name in rows and len(set(rows[name])) == 1]
    shared: View = {name: str(rows[name].iloc[0]) for name in of_one}
    return {"view": "tables"} | shared | {"suite": list(suites), "variant": list(variants)}


def classifiers(rows: pd.DataFrame) -> View:
    """What the main classifier does with the layers of a checkpoint: that of the first row."""
    return _layers(rows) | {"split": main_split(rows)} | MAIN_RUN


def reductions(rows: pd.DataFrame) -> View:
    """The picture of hidden states that the first row belongs to."""
    return _layers(rows) | {name: str(rows[name].iloc[0]) for name in ("reduction", "scaling", "layers")}


def _layers(rows: pd.DataFrame) -> View:
    """The explorer knows a checkpoint by its suite, model and step."""
    shown = rows.iloc[0]
    step = "" if pd.isna(shown["step"]) else f", step {int(shown['step'])}"
    return {"view": "layers", "model": f"{shown['suite']}/{shown['model']}{step}"}
