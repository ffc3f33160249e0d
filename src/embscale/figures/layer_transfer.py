"""Layer classifiers trained on one source of texts and tested on another (Huang et al., question 2)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = ("model", "width", "texts", "trained_on", "seed", "layer", "metric", "value", "ci_low", "ci_high")


def _tables(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Accuracy and both ends of its interval in percent, of the narrowest model; training by test."""
    rows = rows[(rows["metric"] == "accuracy") & (rows["seed"] == "all") & (rows["width"] == rows["width"].min())]
    tested = list(dict.fromkeys(rows["texts"]))
    trained = list(dict.fromkeys(rows["trained_on"]))
    value, low, high = (
        rows.pivot_table(index="trained_on", columns="texts", values=column).loc[trained, tested] * PERCENT
        for column in ("value", "ci_low", "ci_high")
    )
    return value, low, high


def draw(rows: pd.DataFrame) -> Figure:
    """A cell for each pair, with its interval."""
    value, low, high = _tables(rows)
    figure = theme.figure(height=1.4 + 0.62 * len(value))
    axes = figure.subplots()
    lowest = float(value.to_numpy().min())
    axes.imshow(value, cmap=theme.HEAT, vmin=lowest - (100 - lowest) / 2, vmax=100, aspect="auto")
    for (row, column), number in np.ndenumerate(value.to_numpy()):
        axes.text(column, row - 0.22, f"{number:.1f}", ha="center", va="center", color=theme.ON_HEAT, fontsize=12)
        between = f"{low.iloc[row, column]:.1f} to\n{high.iloc[row, column]:.1f}"
        axes.text(column, row + 0.18, between, ha="center", va="center", color=theme.ON_HEAT, fontsize=8)
    axes.set_xticks(range(value.shape[1]), list(value.columns))
    axes.set_yticks(range(len(value)), list(value.index))
    axes.set_xlabel("tested on")
    axes.set_ylabel("trained on")
    axes.set_title("correct, %, with 95 % interval")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: every pair."""
    value, *_ = _tables(rows)
    parts = [
        f"trained on {trained}: " + ", ".join(f"{number:.1f} % on {tested}" for tested, number in row.items())
        for trained, row in value.iterrows()
    ]
    return f"Table of the share of vectors whose layer is named correctly. {'; '.join(parts)}."
