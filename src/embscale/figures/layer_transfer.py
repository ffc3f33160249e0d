"""Classifiers trained on one source of texts and tested on another (Huang et al., question 2)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow, theme
from embscale.figures.layer_accuracy import PERCENT

COLUMNS = ("model", "texts", "trained_on", "seed", "layer", "metric", "value", "ci_low", "ci_high")


def matrix(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in percent, training by test."""
    kept = rows[(rows["metric"] == "accuracy") & (rows["seed"] == "all")]
    if kept["texts"].nunique() < 2:
        raise NothingToShow("This study has one source of texts only; transfer was **not run**.")
    table = kept.set_index(["trained_on", "texts"])["value"].unstack() * PERCENT
    return table.reindex(index=kept["trained_on"].drop_duplicates(), columns=kept["texts"].drop_duplicates())


def draw(rows: pd.DataFrame) -> Figure:
    """A square for each pair, with its accuracy."""
    table = matrix(rows)
    figure = theme.figure(height=1.6 + 0.62 * len(table))
    axes = figure.subplots()
    axes.imshow(table, cmap="Blues", vmin=0, vmax=PERCENT, aspect="auto")
    for row, column in np.ndindex(table.shape):
        value = table.iloc[row, column]
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", color="white" if value > 55 else theme.INK)
    axes.set_xticks(range(table.shape[1]), [name.replace("-", "\n", 1) for name in table.columns])
    axes.set_yticks(range(len(table)), table.index)
    axes.grid(False)
    axes.set_xlabel("tested on")
    axes.set_ylabel("trained on")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: every cell."""
    table = matrix(rows)
    cells = [f"{train} on {test} {table.loc[train, test]:.1f} %" for train in table.index for test in table.columns]
    return f"Table of accuracy by source of the training and of the test texts: {'; '.join(cells)}."
