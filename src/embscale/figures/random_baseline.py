"""Score of random tables against their width: what token overlap alone gives (Corey, image1)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import tables, theme, views
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, REFERENCE_NAMES, metric_label
from embscale.rows.selection import LADDER, random_tables, references

COLUMNS = ("model", "width", "table", "treatment", "metric", "value", "ci_low", "ci_high", "runs", "n", "clusters")
LEVELS = ("overlap", "chance")


def draw(rows: pd.DataFrame) -> Figure:
    """The mean over draws with its interval, and across what counting tokens gives and what chance does."""
    random, levels = random_tables(rows), references(rows)
    figure = theme.figure(height=3.9)
    axes = figure.subplots()
    x, y = tables.line(axes, random, colour=tables.COLOURS["random"], marker="s", linestyle="--")
    labels = [(x[-1], y[-1], "random tables", tables.COLOURS["random"])]
    theme.log2_ticks(axes, random["width"].tolist())
    axes.set_xlim(right=x[-1] * 4)
    for name in LEVELS:
        if name in levels.index:
            labels.append(tables.level(axes, levels.loc[name, "value"], x[-1], REFERENCE_NAMES[name]))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("columns of the random table")
    axes.set_ylabel(metric_label(rows))
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends."""
    random, levels = random_tables(rows), references(rows)
    first, last = random.iloc[0], random.iloc[-1]
    words = [
        f"{REFERENCE_NAMES[name]} {levels.loc[name, 'value'] * PERCENT:.2f}" for name in LEVELS if name in levels.index
    ]
    return (
        f"A line of {metric_label(rows)} of random tables, means over {int(last['runs'])} draws, against their number "
        f"of columns: from {first['value'] * PERCENT:.2f} with {first['width']:.0f} columns to "
        f"{last['value'] * PERCENT:.2f} with {last['width']:.0f}. Without a table: {', '.join(words) or 'not run'}."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.scores(rows, suites=[LADDER])
