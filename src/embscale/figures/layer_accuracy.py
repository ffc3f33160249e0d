"""Accuracy of a linear layer classifier on unseen texts, by model and by layer (Huang et al., Fig. 5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme, views
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, short_names
from embscale.rows.selection import main_run

COLUMNS = (
    "suite", "model", "step", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low",
    "ci_high", "n_layers",
)  # fmt: skip


def draw(rows: pd.DataFrame) -> Figure:
    """Left: accuracy of each model with its interval, and chance.  Right: share of each layer that is recognised."""
    names = short_names(rows)
    colours = dict(zip(names, theme.ordered_colours(len(names)), strict=True))
    accuracy = main_run(rows, metric="accuracy").set_index("model").loc[list(names)]
    chance = main_run(rows, metric="chance").set_index("model").loc[list(names), "value"] * PERCENT
    recall = main_run(rows, metric="recall")
    figure = theme.figure(height=4.2)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1.35])
    places = np.arange(len(names))
    value, low, high = (accuracy[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
    left.errorbar(places, value, (value - low, high - value), color=theme.INK, marker="o")
    left.plot(places, chance, color=theme.MUTED, linestyle="--", linewidth=1.2)
    left.annotate("chance", (places[-1], chance.iloc[-1]), (0, -5), textcoords="offset points", ha="right", va="top")
    left.set_xticks(places, list(names.values()))
    left.set_xlim(-0.4, len(names) - 0.6)
    left.set_ylim(0, 103)
    left.set_ylabel("correct, %")
    left.set_title("all layers")
    labels = []
    for model, name in names.items():
        line = recall[recall["model"] == model]
        positions = np.arange(len(line))
        right.plot(positions, line["value"] * PERCENT, color=colours[model], marker="o")
        labels.append((positions[-1], line["value"].iloc[-1] * PERCENT, name, colours[model]))
    layers = recall["layer"].drop_duplicates().tolist()
    right.set_xticks(
        range(len(layers)), [layer.replace("embedding", "table").replace("block ", "") for layer in layers]
    )
    right.set_xlim(-0.3, len(layers) - 0.25)
    right.set_xlabel("layer (output of block)")
    right.set_title("by layer")
    theme.end_labels(right, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the accuracy of every model."""
    names = short_names(rows)
    accuracy = main_run(rows, metric="accuracy").set_index("model")["value"] * PERCENT
    recall = main_run(rows, metric="recall").groupby("layer", sort=False)["value"].mean() * PERCENT
    models = ", ".join(f"{name} {accuracy[model]:.1f} %" for model, name in names.items())
    chance = main_run(rows, metric="chance")["value"].mean() * PERCENT
    return (
        f"Two panels. Left, share of vectors whose layer a linear classifier names correctly: {models}; "
        f"chance is {chance:.0f} %. Right, the same layer by layer: on average "
        f"best for {recall.idxmax()} ({recall.max():.1f} %), worst for {recall.idxmin()} ({recall.min():.1f} %)."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.classifiers(rows[rows["model"] == list(short_names(rows))[-1]]) | {"quality": "accuracy"}
