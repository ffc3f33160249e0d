"""Confusion matrix of the layers of the widest model."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme, views
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT
from embscale.rows.selection import MAIN_RUN, main_split

COLUMNS = (
    "suite", "model", "step", "width", "classifier", "split", "input", "control", "true_layer", "predicted_layer",
    "count",
)  # fmt: skip

WRITTEN = 13  # layers up to which numbers stand in the cells


def _widest(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["width"] == rows["width"].max()]


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    """Percent of each true layer's vectors by predicted layer, all seeds together."""
    for column, value in (MAIN_RUN | {"split": main_split(rows)}).items():
        rows = rows[rows[column] == value]
    rows = _widest(rows)
    layers = list(dict.fromkeys(rows["true_layer"]))
    counts = rows.pivot_table(index="true_layer", columns="predicted_layer", values="count", aggfunc="sum")
    counts = counts.loc[layers, layers]
    return counts.div(counts.sum(axis=1), axis=0) * PERCENT


def draw(rows: pd.DataFrame) -> Figure:
    """A cell for each pair of layers."""
    table = _table(rows)
    size = len(table)
    figure = theme.figure(height=min(6.5, 1.6 + 0.55 * size))
    axes = figure.subplots()
    image = axes.imshow(table, cmap=theme.HEAT, vmin=0, vmax=100, aspect="auto")
    if size <= WRITTEN:
        for (row, column), number in np.ndenumerate(table.to_numpy()):
            axes.text(column, row, f"{number:.1f}", ha="center", va="center", color=theme.ON_HEAT)
    step = max(1, size // WRITTEN)
    names = [layer.replace("embedding", "table").replace("block ", "") for layer in table.index][::step]
    axes.set_xticks(range(0, size, step), names)
    axes.set_yticks(range(0, size, step), names)
    axes.set_xlabel("taken for (output of block)")
    axes.set_ylabel("layer")
    axes.set_title("% of the layer's vectors")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if size > WRITTEN:
        figure.colorbar(image, ax=axes)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the diagonal and the most frequent mistake."""
    table = _table(rows)
    values = table.to_numpy()
    wrong = np.where(np.eye(len(table), dtype=bool), -1, values)
    row, column = np.unravel_index(wrong.argmax(), wrong.shape)
    right = ", ".join(f"{layer} {values[i, i]:.1f} %" for i, layer in enumerate(table.index))
    return (
        f"Table of the layers that a linear classifier names, by true layer. Named correctly: {right}. The most "
        f"frequent mistake: {wrong.max():.1f} % of {table.index[row]} are taken for {table.columns[column]}."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.classifiers(_widest(rows))
