"""Accuracy that a layer classifier loses to masked dimensions, beside random masks (Huang et al., question 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "weights", "choice", "k", "fill", "refit", "seed", "metric", "value", "ci_low",
    "ci_high",
)  # fmt: skip

PANELS = {
    "set to zero (the study's way)": ("zero", False),
    "set to their mean": ("mean", False),
    "fitted again without them (another scale)": (None, True),
}
CHOICES = {
    "frequent": "frequent in the top 8",
    "important": "largest loss when exchanged",
    "outlier": "largest variance",
    "random": "random",
}


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The narrowest model's changes of accuracy over all seeds, frequent dimensions by standardised weights."""
    rows = rows[(rows["experiment"] == "mask") & (rows["seed"] == "all") & (rows["metric"] == "accuracy_change")]
    rows = rows[(rows["width"] == rows["width"].min()) & (rows["weights"] != "raw")]
    return rows.assign(refit=rows["refit"].astype(str) == "True")


def _of(rows: pd.DataFrame, fill: str | None, refit: bool, choice: str) -> pd.DataFrame:
    line = rows[(rows["refit"] == refit) & (rows["choice"] == choice)]
    return (line if fill is None else line[line["fill"] == fill]).sort_values("k")


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each way to mask, a line for each choice of dimensions."""
    rows = _shown(rows)
    colours = theme.category_colours(list(CHOICES))
    figure = theme.figure(height=7.2)
    panels = figure.subplots(len(PANELS), 1, sharex=True)
    for axes, (title, (fill, refit)) in zip(panels, PANELS.items(), strict=True):
        for choice, name in CHOICES.items():
            line = _of(rows, fill, refit, choice)
            value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
            axes.errorbar(
                line["k"], value, np.maximum(0, (value - low, high - value)), color=colours[choice], marker="o",
                markersize=5, label=name,
            )  # fmt: skip
        axes.axhline(0, color=theme.MUTED, linewidth=1)
        axes.set_title(title)
        axes.set_ylabel("change, points")
    theme.log2_ticks(panels[-1], rows[rows["k"] > 0]["k"].tolist())
    panels[-1].set_xlabel(f"masked dimensions of {int(rows['width'].iloc[0])}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: four masked dimensions, the study's number, in every way."""
    rows = _shown(rows)
    k = min(4, int(rows["k"].max()))
    parts = []
    for title, (fill, refit) in PANELS.items():
        changes = []
        for choice, name in CHOICES.items():
            line = _of(rows, fill, refit, choice)
            changes.append(f"{name} {line[line['k'] == k]['value'].iloc[0] * PERCENT:+.1f}")
        parts.append(f"{title}: {', '.join(changes)}")
    return (
        f"Lines of the change in accuracy against the number of masked dimensions. With {k} masked, in points: "
        f"{'; '.join(parts)}."
    )
