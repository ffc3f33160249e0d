"""How many of the most frequent dimensions repeated runs have in common (Huang et al., question 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "weights", "choice", "k", "seed", "metric", "value", "ci_low", "ci_high", "n",
)  # fmt: skip

LINES = {
    "weights as they are (the study's)": ("frequent", "raw"),
    "weights of standardised dimensions": ("frequent", "standardised"),
    "random sets": ("random", ""),
}


def _shown(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The narrowest model's overlaps by kind, in order of k."""
    rows = rows[(rows["experiment"] == "stability") & (rows["width"] == rows["width"].min())]
    rows = rows.assign(weights=rows["weights"].fillna("")).sort_values("k")
    kinds = {
        name: rows[(rows["choice"] == choice) & (rows["weights"] == weights)]
        for name, (choice, weights) in LINES.items()
    }
    if all(line["value"].isna().all() for name, line in kinds.items() if name != "random sets"):
        raise NothingToShow("Overlaps need two seeds or more, and there is one: this was **not run**.")
    return kinds


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each scale of the weights, with intervals; dashed, what random sets have in common."""
    kinds = _shown(rows)
    colours = theme.category_colours(list(kinds))
    figure = theme.figure(height=4.0)
    axes = figure.subplots()
    for number, (name, line) in enumerate(kinds.items()):
        value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
        if name == "random sets":
            axes.plot(line["k"], value, color=theme.MUTED, linestyle="--", linewidth=1.4, label=name)
            continue
        # Apart, so that their intervals do not hide each other.
        places = line["k"] * 2 ** (0.06 * (2 * number - 1))
        errors = np.maximum(0, np.nan_to_num((value - low, high - value)))
        axes.errorbar(places, value, errors, color=colours[name], marker="o", label=name)
    theme.log2_ticks(axes, kinds["random sets"]["k"].tolist())
    axes.set_ylim(0, 105)
    axes.set_xlabel(f"most frequent dimensions of {int(rows['width'].min())}")
    axes.set_ylabel("in common, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=1)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the overlap of four dimensions, the study's number."""
    kinds = _shown(rows)
    k = min(4, int(kinds["random sets"]["k"].max()))
    parts = [f"{name} {line[line['k'] == k]['value'].iloc[0] * PERCENT:.0f} %" for name, line in kinds.items()]
    pairs = int(kinds["weights as they are (the study's)"]["n"].max())
    return (
        "Lines of the share of the most frequent dimensions that two runs have in common, mean over "
        f"{pairs} pairs of runs, against how many are looked at. Of {k}: {', '.join(parts)}."
    )
