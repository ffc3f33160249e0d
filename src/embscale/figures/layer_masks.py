"""Accuracy with dimensions masked, beside random masks and with a new fit (Huang et al., question 1; I-40)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = (
    "model",
    "experiment",
    "weights",
    "choice",
    "k",
    "fill",
    "refit",
    "seed",
    "metric",
    "value",
    "ci_low",
    "ci_high",
)
PERCENT = 100
TITLES = {False: "set to zero, same classifier", True: "left out, fitted again"}
LINES = {
    ("frequent", "raw"): ("in most layers' top eight", theme.CATEGORIES[1], "o"),
    ("outlier", ""): ("of largest variance", theme.CATEGORIES[2], "s"),
    ("random", ""): ("random", theme.CATEGORIES[0], "D"),
}


def _masks(rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows[(rows["experiment"] == "mask") & (rows["metric"] == "accuracy") & (rows["seed"] == "all")]
    kept = kept.assign(refit=kept["refit"].astype(str) == "True", weights=kept["weights"].fillna(""))
    return kept[(kept["fill"].fillna("zero") == "zero")]


def draw(rows: pd.DataFrame) -> Figure:
    """Left without, right with a new fit; a line for each way to choose the masked dimensions."""
    masks = _masks(rows)
    none = masks.loc[masks["choice"] == "none", "value"].mean() * PERCENT
    figure = theme.figure(height=4.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (refit, title) in zip(panels, TITLES.items(), strict=True):
        axes.axhline(none, color=theme.MUTED, linestyle="--", linewidth=1.2)
        for (choice, weights), (words, colour, marker) in LINES.items():
            line = masks[(masks["choice"] == choice) & (masks["weights"] == weights) & (masks["refit"] == refit)]
            line = line.sort_values("k")
            value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
            axes.errorbar(line["k"], value, (value - low, high - value), color=colour, marker=marker, label=words)
        theme.log2_ticks(axes, masks.loc[masks["k"] > 0, "k"].tolist())
        axes.set_title(title)
        axes.set_xlabel("masked dimensions")
    panels[0].set_ylabel("correct, % (dashed: none masked)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: accuracy with four dimensions masked, and with the most."""
    masks = _masks(rows)
    none = masks.loc[masks["choice"] == "none", "value"].mean() * PERCENT
    parts = []
    for refit, title in TITLES.items():
        for (choice, weights), (words, _, _) in LINES.items():
            line = masks[(masks["choice"] == choice) & (masks["weights"] == weights) & (masks["refit"] == refit)]
            value = line.set_index("k")["value"] * PERCENT
            some = f"{value[4]:.1f} % with 4, " if 4 in value.index else ""
            parts.append(f"{words}, {title}: {some}{value.loc[value.index.max()]:.1f} % with {value.index.max():.0f}")
    return f"Lines of accuracy by number of masked dimensions; without a mask {none:.1f} %. {'; '.join(parts)}."
