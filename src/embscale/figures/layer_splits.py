"""Accuracy of layer classifiers by what training and test must not share, and by kind of classifier (I-34)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme
from embscale.figures.layer_accuracy import PERCENT, short_names

COLUMNS = (
    "suite", "model", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low", "ci_high"
)  # fmt: skip

# What is shown, from honest to leaky, then other classifiers with texts kept apart.
SHOWN = {
    ("logistic_regression", "token"): "linear, token types apart",
    ("logistic_regression", "text"): "linear, texts apart",
    ("logistic_regression", "vector"): "linear, vectors apart (leaky)",
    ("sgd", "vector"): "the study's own training (leaky)",
    ("lda", "text"): "discriminant analysis",
    ("nearest_centroid", "text"): "nearest centroid",
    ("decision_tree", "text"): "decision tree",
    ("norm_only", "text"): "length of the vector alone",
    ("position_only", "text"): "position alone",
    ("majority", "text"): "most frequent layer",
}


def _accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows[(rows["metric"] == "accuracy") & (rows["seed"] == "all") & (rows["input"] == "raw")]
    kept = kept[kept["control"].fillna("none") == "none"]
    return kept.set_index(["classifier", "split", "model"])


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each condition, a marker for each model; dashed, chance."""
    accuracy = _accuracy(rows)
    chance = rows.loc[rows["metric"] == "chance", "value"].mean() * PERCENT
    names = short_names(rows)
    shown = [pair for pair in SHOWN if pair in set(accuracy.index.droplevel("model"))]
    colours = dict(zip(names, theme.ordered_colours(len(names)), strict=True))
    figure = theme.figure(height=1.3 + 0.44 * len(shown))
    axes = figure.subplots()
    offsets = np.linspace(-0.22, 0.22, len(names)) if len(names) > 1 else [0.0]
    for offset, (model, name) in zip(offsets, names.items(), strict=True):
        found = [(place, pair) for place, pair in enumerate(shown) if (*pair, model) in accuracy.index]
        cells = [accuracy.loc[(*pair, model)] for _, pair in found]
        value, low, high = (np.array([cell[c] for cell in cells]) * PERCENT for c in ("value", "ci_low", "ci_high"))
        places = np.array([place for place, _ in found]) + offset
        axes.errorbar(
            value, places, xerr=(value - low, high - value), color=colours[model], marker="o", linestyle="", label=name
        )
    axes.axvline(chance, color=theme.MUTED, linestyle="--", linewidth=1.2)
    axes.set_yticks(range(len(shown)), [SHOWN[pair] for pair in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(0, 103)
    axes.set_xlabel("correct, % (dashed: chance)")
    figure.legend(loc="outside lower center", ncols=min(len(names), 5), handletextpad=0.1)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the mean over the models of each condition."""
    accuracy = _accuracy(rows)
    means = accuracy.groupby(level=["classifier", "split"])["value"].mean() * PERCENT
    parts = [f"{words} {means[pair]:.1f} %" for pair, words in SHOWN.items() if pair in means.index]
    chance = rows.loc[rows["metric"] == "chance", "value"].mean() * PERCENT
    return (
        "Dots with intervals: share of vectors whose layer is named correctly, a dot for each model. Means over the "
        f"models: {'; '.join(parts)}. Chance is {chance:.0f} %."
    )
