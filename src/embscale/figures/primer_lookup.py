"""A text on its way to vectors: one-hot vectors times the table are rows of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("matrix", "place", "token", "id", "column", "value", "rows", "dims")

TITLES = {"one_hot": "one-hot vectors", "table": "× table", "vectors": "= vectors"}


def _matrices(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    index = {"one_hot": ("place", "id"), "table": ("id", "column"), "vectors": ("place", "column")}
    return {
        name: rows[rows["matrix"] == name].pivot_table(index=row, columns=column, values="value")
        for name, (row, column) in index.items()
    }


def _tokens(rows: pd.DataFrame) -> pd.Series:
    """The token at each place."""
    return rows[rows["matrix"] == "vectors"].drop_duplicates("place").set_index("place")["token"].fillna("")


def draw(rows: pd.DataFrame) -> Figure:
    """Three heat maps: the one-hot vectors, the rows of the table that are near, the rows that come out."""
    matrices, tokens = _matrices(rows), _tokens(rows)
    used = rows[rows["matrix"] == "vectors"].drop_duplicates("place").set_index("place")["id"]
    shown = matrices["table"]
    figure = theme.figure(height=1.6 + 0.23 * max(len(shown), len(tokens)))
    hot, table, vectors = figure.subplots(1, 3, width_ratios=[len(shown), shown.shape[1], shown.shape[1]])
    limit = float(shown.abs().to_numpy().max())
    switch = ListedColormap([theme.FAINT, theme.INK])
    for axes, (name, matrix) in zip((hot, table, vectors), matrices.items(), strict=True):
        scale = (switch, 0.0, 1.0) if name == "one_hot" else ("RdBu_r", -limit, limit)
        colour_map, low, high = scale
        axes.pcolormesh(matrix.to_numpy(), cmap=colour_map, vmin=low, vmax=high, edgecolors="white", linewidth=1)
        axes.set_title(TITLES[name])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.invert_yaxis()
    labels = [f"“{token}”" for token in tokens]
    for axes in (hot, vectors):
        axes.set_yticks(np.arange(len(tokens)) + 0.5, labels)
    ids = [str(number) for number in shown.index]
    hot.set_xticks(np.arange(len(ids)) + 0.5, ids, rotation=90, fontsize=9)
    hot.set_xlabel("id")
    table.set_yticks(np.arange(len(ids)) + 0.5, ids, fontsize=9)
    for number, label in zip(shown.index, table.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if number in set(used) else "normal")
    _breaks(hot, shown.index.to_numpy(), along="x")
    _breaks(table, shown.index.to_numpy(), along="y")
    for axes in (table, vectors):
        axes.set_xticks([])
        axes.set_xlabel(f"{shown.shape[1]} of {rows['dims'].iloc[0]}\ncolumns")
    return figure


def _breaks(axes: Axes, ids: np.ndarray, *, along: str) -> None:
    """A line wherever rows of the table are left out."""
    for place in (np.flatnonzero(np.diff(ids) > 1) + 1).tolist():
        line = axes.axvline if along == "x" else axes.axhline
        line(place, color=theme.MUTED, linewidth=1, linestyle=(0, (2, 2)))


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: tokens, their ids, and the size of the table."""
    vectors = rows[rows["matrix"] == "vectors"].drop_duplicates("place")
    tokens = ", ".join(f"“{token}” {number}" for token, number in zip(_tokens(rows), vectors["id"], strict=True))
    return (
        f"Three matrices: one-hot vectors of the tokens with their ids ({tokens}), times the rows of a table of "
        f"{rows['rows'].iloc[0]:,} rows and {rows['dims'].iloc[0]} columns around these ids, gives the rows with these "
        "ids. Dashed lines stand for rows that are left out, where all one-hot vectors are zero."
    )
