"""Score of random tables against their width: what token overlap alone gives (Corey, image1)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import random_band

COLUMNS = ("variant", "seed", "dim", "metric", "value", "ci_low", "ci_high")


def draw(rows: pd.DataFrame) -> Figure:
    """A dot for each seed, a line for their mean."""
    random = rows[rows["variant"] == "random"]
    band = random_band(rows)
    figure = theme.figure(height=3.9)
    axes = figure.subplots()
    colour = theme.CATEGORIES[0]
    axes.plot(band.index, band["mean"] * PERCENT, color=colour)
    axes.scatter(random["dim"], random["value"] * PERCENT, color=colour, s=18, alpha=0.6, linewidth=0, zorder=3)
    theme.log2_ticks(axes, random["dim"].tolist())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("columns of the random table")
    axes.set_ylabel(metric_label(rows))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends."""
    band = random_band(rows)
    return (
        f"Dots for {int(band['count'].max())} seeds and a line for their mean: {metric_label(rows)} of random tables "
        f"against their number of columns, from {band['mean'].iloc[0] * PERCENT:.2f} with {band.index[0]} columns "
        f"to {band['mean'].iloc[-1] * PERCENT:.2f} with {band.index[-1]}."
    )
