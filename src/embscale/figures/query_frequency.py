"""Trained minus random score by how frequent the tokens of a query are."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import LADDER

COLUMNS = (
    "suite", "model", "width", "variant", "metric", "quarter", "frequency_low", "frequency_high", "table", "value",
    "ci_low", "ci_high", "runs",
)  # fmt: skip

NAMES = {"full": "as trained", "unit": "rows of norm 1", "idf": "weighted by idf"}


def _differences(rows: pd.DataFrame) -> pd.DataFrame:
    """Differences of the ladder's models by quarter, in points."""
    own = rows[(rows["suite"] == LADDER) & (rows["table"] == "difference") & (rows["quarter"].astype(str) != "all")]
    own = own[own["variant"].isin(list(NAMES))]
    if own.empty:
        raise NothingToShow("No model of the ladder has random tables of its width beside it: **not run**.")
    points = {name: own[name] * PERCENT for name in ("value", "ci_low", "ci_high")}
    return own.assign(**points, quarter=own["quarter"].astype(int)).sort_values(["width", "quarter"])


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each treatment with a line for each width over the quarters."""
    shown = _differences(rows)
    kinds = [kind for kind in NAMES if kind in set(shown["variant"])]
    widths = sorted(shown["width"].unique())
    figure = theme.figure(height=4.6)
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        axes.axhline(0, color=theme.MUTED, linewidth=1.2)
        ends = []
        for number, (width, colour) in enumerate(zip(widths, theme.ordered_colours(len(widths)), strict=True)):
            line = shown[(shown["variant"] == kind) & (shown["width"] == width)]
            if line.empty:
                continue
            value, low, high = (line[name].to_numpy() for name in ("value", "ci_low", "ci_high"))
            places = line["quarter"].to_numpy() + 0.07 * (number - (len(widths) - 1) / 2)
            axes.errorbar(places, value, (value - low, high - value), color=colour, marker="o", linewidth=1.6)
            ends.append((places[-1], value[-1], f"{width:.0f}", theme.INK))
        axes.set_xticks(range(1, 5))
        axes.set_xlim(0.6, 5.1)
        axes.set_title(NAMES[kind])
        axes.set_xlabel("quarter of queries")
        theme.end_labels(axes, ends)
    panels[0].set_ylabel(f"trained − random, {metric_label(shown)}")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: rarest and most frequent quarter at each width and treatment."""
    shown = _differences(rows)
    bounds = shown.drop_duplicates("quarter").sort_values("quarter")
    frequencies = ", ".join(f"{row.frequency_low:.0f} to {row.frequency_high:.0f}" for row in bounds.itertuples())
    parts = []
    kinds = [kind for kind in NAMES if kind in set(shown["variant"])]
    for kind, width in itertools.product(kinds, shown["width"].unique()):
        line = shown[(shown["variant"] == kind) & (shown["width"] == width)]
        if line.empty:
            continue
        ends = [
            f"{row.value:.2f} ({row.ci_low:.2f} to {row.ci_high:.2f})"
            if np.isfinite(row.ci_low)
            else f"{row.value:.2f}"
            for row in (line.iloc[0], line.iloc[-1])
        ]
        parts.append(f"{NAMES[kind]}, width {width:.0f}: {ends[0]} and {ends[1]}")
    return (
        f"Lines of the difference in {metric_label(shown)} between trained and random tables over quarters of the "
        f"queries, whose tokens have a geometric mean document frequency of {frequencies}. In the quarter with the "
        f"rarest and in that with the most frequent tokens: {'; '.join(parts)}."
    )
