"""Scaling laws of the ladder: held-out loss by tokens and by width, score less random tables by width."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.answers.fits import LOSS, NOT_SUPPORTED, SCORE
from embscale.plotting import theme, tokens
from embscale.rows.labels import PERCENT

COLUMNS = (
    "quantity", "by", "suite", "width", "law", "verdict", "x", "used", "value", "ci_low", "ci_high", "fitted",
    "band_low", "band_high", "predicted_low", "predicted_high",
)  # fmt: skip
NAMES = {LOSS: "held-out loss, nats", SCORE: "less random × 100"}


def draw(rows: pd.DataFrame) -> Figure:
    """Points that the law saw (full) and did not see (hollow), the law with its band, a bar for what it predicts."""
    figure = theme.figure(height=7.2)
    panels = figure.subplot_mosaic([["tokens", "tokens"], ["loss", "score"]], height_ratios=[1.25, 1])
    by_tokens = rows[rows["by"] == "tokens"]
    widths = sorted(set(by_tokens["width"]))
    labels = []
    for colour, width in zip(theme.ordered_colours(len(widths)), widths, strict=True):
        some = by_tokens[by_tokens["width"] == width].sort_values("x")
        _law(panels["tokens"], some, colour)
        labels.append((float(some["x"].iloc[-1]), float(some["value"].iloc[-1]), f"width {width:.0f}", colour))
    tokens.axis(panels["tokens"], list(by_tokens["x"]), zero=False, room=1.8)
    panels["tokens"].set_ylabel(NAMES[LOSS])
    for name, quantity in (("loss", LOSS), ("score", SCORE)):
        some = rows[(rows["by"] == "width") & (rows["quantity"] == quantity)].sort_values("x")
        _law(panels[name], some, theme.CATEGORIES[0])
        theme.log2_ticks(panels[name], list(some["x"]))
        panels[name].set_xlabel("width")
        panels[name].set_ylabel(NAMES[quantity])
    panels["score"].axhline(0, color=theme.INK, linewidth=1)
    theme.end_labels(panels["tokens"], labels)
    return figure


def _law(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
    scale = PERCENT if rows["quantity"].iloc[0] == SCORE else 1
    x, values = rows["x"].to_numpy(float), rows["value"].to_numpy(float) * scale
    low, high, fitted, below, above, least, most = (
        rows[name].to_numpy(float) * scale
        for name in ("ci_low", "ci_high", "fitted", "band_low", "band_high", "predicted_low", "predicted_high")
    )
    used = rows["used"].astype(bool).to_numpy()
    errors = np.nan_to_num(np.maximum([values - low, high - values], 0))
    axes.errorbar(x, values, errors, color=colour, linestyle="none", elinewidth=1.2)
    axes.plot(x[used], values[used], color=colour, marker="o", markersize=5, linestyle="none")
    axes.plot(x[~used], values[~used], color=colour, marker="o", markersize=5, linestyle="none", mfc="white")
    axes.plot(x, fitted, color=colour, linewidth=1.4)
    axes.fill_between(x, below, above, color=colour, alpha=0.16, linewidth=0)
    axes.vlines(x * 1.06, least, most, color=theme.MUTED, linewidth=4, alpha=0.6)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with what each law predicts and what was observed."""
    parts = []
    for (quantity, by, width), some in rows.groupby(["quantity", "by", "width"], sort=False, dropna=False):
        last = some.sort_values("x").iloc[-1]
        scale = PERCENT if quantity == SCORE else 1
        name = f"{quantity} by {by}" + (f", width {width:.0f}" if by == "tokens" else "")
        if last["verdict"] == NOT_SUPPORTED:
            parts.append(f"{name}: no law is supported")
            continue
        parts.append(
            f"{name}, {last['law']}: observed {last['value'] * scale:.2f} at the last point, predicted "
            f"{last['fitted'] * scale:.2f} "
            f"({last['predicted_low'] * scale:.2f} to {last['predicted_high'] * scale:.2f})"
        )
    return (
        "Three panels: held-out loss against tokens of training for each width, held-out loss and score less random "
        "tables against width. Full points were fitted, hollow ones held out; lines with 95 % bands over training runs "
        f"are the laws, grey bars what they predict of the last point. {'; '.join(parts)}."
    )
