"""How many of the most frequent dimensions repeated runs have in common (Huang et al., question 3)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "weights", "choice", "k", "seed", "metric", "value", "n",
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
        raise NothingToShow("Overlaps need two splits or more, and there is one: this was **not run**.")
    return kinds


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each scale of the weights; dashed, what random sets have in common."""
    kinds = _shown(rows)
    colours = theme.category_colours(list(kinds))
    figure = theme.figure(height=4.0)
    axes = figure.subplots()
    for name, line in kinds.items():
        value = line["value"].to_numpy() * PERCENT
        if name == "random sets":
            axes.plot(line["k"], value, color=theme.MUTED, linestyle="--", linewidth=1.4, label=name)
            continue
        axes.plot(line["k"], value, color=colours[name], marker="o", label=name)
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
        "Lines of the share of the most frequent dimensions that the classifiers of two splits of the same texts have "
        f"in common, mean over {pairs} pairs of splits, against how many are looked at. Of {k}: {', '.join(parts)}."
    )
