"""Accuracy of layer classifiers that see only some dimensions: the first ones, or random ones.

Huang et al. plan to ask how the dimensions are used, as in Matryoshka embeddings, whose first dimensions say most.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import layer_count
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "choice", "k", "layer", "seed", "metric", "value", "ci_low", "ci_high",
)  # fmt: skip

CHOICES = {"first": "the first dimensions", "random": "random dimensions"}


def _shown(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The narrowest model's accuracies over all seeds, in order of k."""
    rows = rows[(rows["experiment"] == "prefix") & (rows["seed"] == "all") & (rows["metric"] == "accuracy")]
    rows = rows[rows["width"] == rows["width"].min()].sort_values("k")
    return {name: rows[rows["choice"] == choice] for choice, name in CHOICES.items()}


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each choice; dashed, chance."""
    kinds = _shown(rows)
    colours = theme.category_colours(list(kinds))
    figure = theme.figure(height=3.8)
    axes = figure.subplots()
    for number, (name, line) in enumerate(kinds.items()):
        value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
        places = line["k"] * 2 ** (0.06 * (2 * number - 1))
        errors = np.maximum(0, (value - low, high - value))
        axes.errorbar(places, value, errors, color=colours[name], marker="o", label=name)
    axes.axhline(PERCENT / layer_count(rows), color=theme.MUTED, linestyle="--", linewidth=1.2, label="chance")
    theme.log2_ticks(axes, kinds["random dimensions"]["k"].tolist())
    axes.set_ylim(0, 103)
    axes.set_xlabel(f"dimensions of {int(rows['width'].min())} that the classifier sees")
    axes.set_ylabel("correct, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: every number of dimensions."""
    parts = []
    for name, line in _shown(rows).items():
        accuracies = ", ".join(
            f"{k:.0f}: {value * PERCENT:.1f}" for k, value in zip(line["k"], line["value"], strict=True)
        )
        parts.append(f"{name}, {accuracies}")
    return (
        "Lines of the share of vectors whose layer is named correctly against the number of dimensions that the "
        f"classifier sees, in percent: {'; '.join(parts)}; by chance {PERCENT / layer_count(rows):.0f}."
    )
