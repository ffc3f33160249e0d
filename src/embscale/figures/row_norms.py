"""Norm of a table's rows after training by how often their tokens occur, relative to the norm before."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.selection import is_last_checkpoint

COLUMNS = ("suite", "model", "step", "width", "frequency", "low", "quantity", "value", "n")


def _ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean norm of each class of frequency in each model's last table over that before training."""
    norms = rows[(rows["quantity"] == "mean_length") & (rows["frequency"] != "all")]
    keys = ["suite", "model", "frequency"]
    before = norms[norms["step"] == 0].set_index(keys)["value"]
    last = norms[is_last_checkpoint(norms) & (norms["step"] != 0)].set_index(keys)
    ratios = last.assign(ratio=last["value"] / before.reindex(last.index)).dropna(subset=["ratio"]).reset_index()
    if ratios.empty:
        raise NothingToShow("Rows by frequency before and after training are needed: **not run**.")
    return ratios.sort_values(["width", "low"])


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each width against the frequency of the token."""
    ratios = _ratios(rows)
    figure = theme.figure(height=4.3)
    axes = figure.subplots()
    lows = sorted(ratios["low"].unique())
    places = {low: place for place, low in enumerate(lows)}
    widths = sorted(ratios["width"].unique())
    ends = []
    axes.axhline(1, color=theme.MUTED, linewidth=1.2)
    for width, colour in zip(widths, theme.ordered_colours(len(widths)), strict=True):
        line = ratios[ratios["width"] == width]
        axes.plot(line["low"].map(places), line["ratio"], color=colour, marker="o")
        ends.append((places[line["low"].iloc[-1]], line["ratio"].iloc[-1], f"width {width:.0f}", theme.INK))
    names = ratios.drop_duplicates("low").sort_values("low")["frequency"]
    axes.set_xticks(
        range(len(lows)),
        [name.replace(" or more", "+").replace(" to ", "–") for name in names],
        rotation=30,
        ha="right",
    )
    axes.set_xlim(-0.3, len(lows) + 0.4)
    axes.set_xlabel("occurrences of the token in the task's texts")
    axes.set_ylabel("norm after / before training")
    theme.end_labels(axes, ends)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of every line."""
    parts = [
        f"width {width:.0f}: {line['ratio'].iloc[0]:.2f} for the rarest tokens, {line['ratio'].iloc[-1]:.2f} for the "
        "most frequent"
        for width, line in _ratios(rows).groupby("width")
    ]
    return (
        "Lines of the mean norm of a table's rows after training, divided by that before, against the frequency of "
        f"their tokens. {'; '.join(parts)}."
    )
