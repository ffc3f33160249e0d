"""How well a linear classifier tells layers of unseen texts apart, by model and by layer (Huang et al., Fig. 5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = (
    "suite", "model", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low",
    "ci_high", "n_layers",
)  # fmt: skip
PERCENT = 100

# The run that all others stand beside, in the first of its splits.
MAIN = {"classifier": "logistic_regression", "input": "raw", "control": "none"}


def short_names(rows: pd.DataFrame) -> dict[str, str]:
    """Models in the order of the rows, with the suite's name taken off: ``w64`` for ``ladder-w64``."""
    pairs = rows[["suite", "model"]].drop_duplicates()
    return {model: model.removeprefix(f"{suite}-") for suite, model in pairs.itertuples(index=False)}


def main_split(rows: pd.DataFrame) -> str:
    """What training and test do not share in the main run: the first split of its classifier, if that was run."""
    splits = rows.loc[rows["classifier"] == MAIN["classifier"], "split"]
    return str(splits.iloc[0]) if len(splits) else "text"


def selected(rows: pd.DataFrame, **where: str) -> pd.DataFrame:
    """Rows of the main run over all seeds, or of one that differs from it in what is given."""
    for column, value in (MAIN | {"split": main_split(rows), "seed": "all"} | where).items():
        rows = rows[rows[column] == value]
    return rows


def draw(rows: pd.DataFrame) -> Figure:
    """Left: accuracy of each model with its interval, and chance.  Right: share of each layer that is recognised."""
    names = short_names(rows)
    colours = dict(zip(names, theme.ordered_colours(len(names)), strict=True))
    accuracy = selected(rows, metric="accuracy").set_index("model").loc[list(names)]
    chance = selected(rows, metric="chance").set_index("model").loc[list(names), "value"] * PERCENT
    recall = selected(rows, metric="recall")
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
    accuracy = selected(rows, metric="accuracy").set_index("model")["value"] * PERCENT
    recall = selected(rows, metric="recall").groupby("layer", sort=False)["value"].mean() * PERCENT
    models = ", ".join(f"{name} {accuracy[model]:.1f} %" for model, name in names.items())
    chance = selected(rows, metric="chance")["value"].mean() * PERCENT
    return (
        f"Two panels. Left, share of vectors whose layer a linear classifier names correctly: {models}; "
        f"chance is {chance:.0f} %. Right, the same layer by layer: on average "
        f"best for {recall.idxmax()} ({recall.max():.1f} %), worst for {recall.idxmin()} ({recall.min():.1f} %)."
    )
