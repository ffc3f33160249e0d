"""Which rows of a table a text teaches: its own by way of the lookup, all of them by way of the softmax."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from embscale.plotting import theme

COLUMNS = ("id", "token", "uses", "by_input", "by_output")
NAMED = 5  # tokens with the longest gradients get their names


def draw(rows: pd.DataFrame) -> Figure:
    """A dot for each row of the table, above each other for the two ways; lengths on a logarithmic scale."""
    figure = theme.figure(height=4.4)
    top, bottom = figure.subplots(2, 1, sharex=True, sharey=True)
    colours = theme.category_colours(["by_input", "by_output"])
    floor = rows[["by_input", "by_output"]].replace(0, np.nan).min().min() / 2
    for axes, way, title in ((top, "by_input", "as an input: lookup"), (bottom, "by_output", "as an output: softmax")):
        taught = rows[rows[way] > 0]
        axes.vlines(taught["id"], floor, taught[way], color=theme.FAINT, rasterized=True)
        axes.scatter(taught["id"], taught[way], s=8, color=colours[way], linewidth=0, rasterized=True)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False))
        axes.set_ylabel("gradient")
        axes.set_title(f"{title}: {len(taught):,} of {len(rows):,} rows")
    longest = rows.sort_values("by_input", ascending=False, kind="stable").head(NAMED).sort_values("id")
    top.set_ylim(top=rows["by_input"].max() * 20)
    beside = theme.spread(longest["id"].to_numpy(float), 0.11 * len(rows))
    beside += max(0, 0.04 * len(rows) - beside[0])  # not across the axis
    for row, place in zip(longest.itertuples(), beside, strict=True):
        top.annotate(
            f"“{row.token}”",
            (row.id, row.by_input),
            (place, rows["by_input"].max() * 6),
            ha="center",
            fontsize=10,
            arrowprops={"arrowstyle": "-", "color": theme.MUTED, "linewidth": 0.7, "shrinkB": 1},
        )
    bottom.set_xlabel("row of the table (id of the token)")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: how many rows are taught on either way, and which the most."""
    longest = rows.sort_values("by_input", ascending=False, kind="stable").head(NAMED)
    names = ", ".join(
        f"“{token}” {length:.2g}" for token, length in zip(longest["token"], longest["by_input"], strict=True)
    )
    taught = {way: f"{(rows[way] > 0).sum():,}" for way in ("by_input", "by_output")}
    return (
        f"Length of the gradient of each row of a tied table of {len(rows):,} rows. By way of the lookup, "
        f"{taught['by_input']} rows have one, the longest {names}; by way of the softmax, {taught['by_output']} do."
    )
