"""Accuracy of layer classifiers by place in the text, with the first position and without it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import layer_count
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "choice", "positions", "layer", "seed", "metric", "value", "ci_low", "ci_high", "n",
)  # fmt: skip

# A classifier, with the choice of its rows by place and of that over all places.
CLASSIFIERS = {
    "without the first position": ("bucket", "without_first"),
    "with the first position": ("bucket_with_first", "with_first"),
}


def _shown(rows: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The narrowest model's accuracies by classifier, all places last; and the names of the places in order."""
    rows = rows[(rows["experiment"] == "position") & (rows["seed"] == "all") & (rows["metric"] == "accuracy")]
    rows = rows[(rows["width"] == rows["width"].min()) & rows["value"].notna()]
    rows = rows.assign(positions=rows["positions"].fillna("all"))
    kinds = {name: rows[rows["choice"].isin(choices)] for name, choices in CLASSIFIERS.items()}
    lines = {name: line for name, line in kinds.items() if len(line)}
    places = sorted(set(rows["positions"]) - {"all"}, key=lambda name: int(name.split()[0]))
    return lines, [*places, "all"]


def draw(rows: pd.DataFrame) -> Figure:
    """A dot for each place and classifier; dashed, chance."""
    found, places = _shown(rows)
    colours = theme.category_colours(list(found))
    figure = theme.figure(height=3.8)
    axes = figure.subplots()
    for number, (name, line) in enumerate(found.items()):
        value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
        x = [places.index(place) + 0.16 * (number - (len(found) - 1) / 2) for place in line["positions"]]
        errors = np.maximum(0, (value - low, high - value))
        axes.errorbar(x, value, errors, color=colours[name], marker="o", linestyle="", label=name)
    axes.axhline(PERCENT / layer_count(rows), color=theme.MUTED, linestyle="--", linewidth=1.2, label="chance")
    axes.axvline(len(places) - 1.5, color=theme.FAINT, linewidth=6, zorder=0)
    axes.set_xticks(range(len(places)), places)
    axes.set_ylim(0, 103)
    axes.set_xlabel("position in the text")
    axes.set_ylabel("correct, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: every place."""
    found, _ = _shown(rows)
    parts = []
    for name, line in found.items():
        accuracies = ", ".join(
            f"{place} {value * PERCENT:.1f} %" for place, value in zip(line["positions"], line["value"], strict=True)
        )
        parts.append(f"trained and tested {name}: {accuracies}")
    return (
        f"Dots of the share of vectors whose layer is named correctly by position in the text. {'; '.join(parts)}; by "
        f"chance {PERCENT / layer_count(rows):.0f} %."
    )
