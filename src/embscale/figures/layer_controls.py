"""Classifiers of random vectors that keep something of each layer (Huang et al., Fig. 10; I-42)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme
from embscale.figures.layer_accuracy import PERCENT, short_names

COLUMNS = (
    "suite", "model", "classifier", "split", "input", "control", "expected", "seed", "layer", "metric", "value",
    "ci_low", "ci_high",
)  # fmt: skip
NAMES = {
    "none": "hidden states",
    "gaussian": "each dimension's mean\nand variance kept",
    "scalar_norm": "length kept,\nrandom direction",
    "study_random": "the study's: positive,\nlength kept",
}


def _accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows.assign(control=rows["control"].fillna("none"))
    kept = kept[(kept["metric"] == "accuracy") & (kept["seed"] == "all") & (kept["input"] == "raw")]
    return kept[(kept["classifier"] == "logistic_regression") & (kept["split"] == "text")].set_index(
        ["control", "model"]
    )


def draw(rows: pd.DataFrame) -> Figure:
    """A group of dots for each control, a dot for each model; dashed, chance."""
    accuracy, names = _accuracy(rows), short_names(rows)
    chance = rows.loc[rows["metric"] == "chance", "value"].mean() * PERCENT
    shown = [name for name in NAMES if name in accuracy.index.get_level_values("control")]
    colours = dict(zip(names, theme.ordered_colours(len(names)), strict=True))
    figure = theme.figure(height=4.2)
    axes = figure.subplots()
    offsets = np.linspace(-0.25, 0.25, len(names)) if len(names) > 1 else [0.0]
    for offset, (model, name) in zip(offsets, names.items(), strict=True):
        cells = [accuracy.loc[(control, model)] for control in shown]
        value, low, high = (np.array([cell[c] for cell in cells]) * PERCENT for c in ("value", "ci_low", "ci_high"))
        axes.errorbar(
            np.arange(len(shown)) + offset,
            value,
            (value - low, high - value),
            color=colours[model],
            marker="o",
            linestyle="",
            label=name,
        )
    axes.axhline(chance, color=theme.MUTED, linestyle="--", linewidth=1.2)
    axes.set_xticks(range(len(shown)), [NAMES[name] for name in shown])
    axes.set_ylim(0, 103)
    axes.set_ylabel("correct, % (dashed: chance)")
    figure.legend(loc="outside lower center", ncols=min(len(names), 5), handletextpad=0.1)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean accuracy of each control beside what was predicted."""
    accuracy = _accuracy(rows)
    means = accuracy.groupby(level="control")["value"].mean() * PERCENT
    expected = accuracy.groupby(level="control")["expected"].first()
    parts = []
    for name, words in NAMES.items():
        if name in means.index:
            predicted = f", predicted: {expected[name]}" if name != "none" else ""
            parts.append(f"{' '.join(words.split())} {means[name]:.1f} %{predicted}")
    return f"Dots of accuracy for each model. Means over the models: {'; '.join(parts)}."
