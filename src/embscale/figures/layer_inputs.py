"""Layer classifiers of vectors at unit length, normed, or without their layer's mean (Huang et al., Fig. 9)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import by_width
from embscale.rows.labels import PERCENT, short_names
from embscale.rows.selection import main_run

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low",
    "ci_high",
)  # fmt: skip

INPUTS = {
    "raw": "as they are",
    "unit": "unit length",
    "layer_normed": "layer-normed",
    "mean_removed": "without\nlayer's mean",
}
PANELS = {
    "logistic_regression": "linear classifier",
    "nearest_centroid": "nearest centroid",
    "decision_tree": "tree",
}


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each classifier, a group for each input, a dot for each model."""
    rows = by_width(rows)
    names = short_names(rows)
    colours = dict(zip(names, theme.ordered_colours(len(names)), strict=True))
    figure = theme.figure(height=5.6)
    panels = figure.subplots(len(PANELS), 1, sharex=True, sharey=True)
    offsets = dict(zip(names, np.linspace(-0.26, 0.26, len(names)) if len(names) > 1 else [0.0], strict=True))
    for axes, (classifier, title) in zip(panels, PANELS.items(), strict=True):
        for place, shown in enumerate(INPUTS):
            accuracies = main_run(rows, classifier=classifier, input=shown, metric="accuracy").set_index("model")
            for model, row in accuracies.iterrows():
                value, low, high = (row[c] * PERCENT for c in ("value", "ci_low", "ci_high"))
                x, colour = place + offsets[model], colours[model]
                axes.errorbar([x], [value], ([value - low], [high - value]), color=colour, marker="o", markersize=5)
        chance = main_run(rows, metric="chance")["value"].mean() * PERCENT
        axes.axhline(chance, color=theme.MUTED, linestyle="--", linewidth=1.2)
        axes.set_title(title)
        axes.set_ylabel("correct, %")
    panels[-1].set_ylim(0, 103)
    panels[-1].set_xticks(range(len(INPUTS)), list(INPUTS.values()))
    handles = [
        panels[0].plot([], [], color=colours[m], marker="o", linestyle="", label=name)[0] for m, name in names.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(names), 6), handletextpad=0.1)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean over the models for each classifier and input."""
    parts = []
    for classifier, title in PANELS.items():
        accuracies_text = []
        for shown, name in INPUTS.items():
            accuracies = main_run(rows, classifier=classifier, input=shown, metric="accuracy")
            if len(accuracies):
                accuracies_text.append(f"{' '.join(name.split())} {accuracies['value'].mean() * PERCENT:.1f} %")
        if accuracies_text:
            parts.append(f"{title}: {', '.join(accuracies_text)}")
    return (
        "Dots of the share of vectors whose layer is named correctly, by classifier and by what is done to vectors "
        f"first, mean of the models: {'; '.join(parts)}."
    )
