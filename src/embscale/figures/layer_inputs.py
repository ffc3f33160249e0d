"""Training curves on vectors as they are and at length 1, and accuracy by scaling (Huang et al., Fig. 9; I-41)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme
from embscale.figures.layer_accuracy import PERCENT

# Rows of the curves and of the classifiers together: a curve's row has an epoch, a classifier's a metric.
COLUMNS = ("model", "width", "classifier", "input")
NAMES = {
    "raw": "as they are",
    "unit": "length 1",
    "z_scored": "z-scored",
    "layer_normed": "layer norm",
    "mean_removed": "layer means taken off",
}


def _accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows[(rows["classifier"] == "logistic_regression") & (rows["split"] == "text")]
    kept = kept[(kept["metric"] == "accuracy") & (kept["seed"] == "all") & (kept["control"].fillna("none") == "none")]
    return kept.set_index(["input", "model"])


def _curves(rows: pd.DataFrame) -> pd.DataFrame:
    curves = rows.dropna(subset=["epoch"])
    widest = curves["width"].max()
    return (
        curves[curves["width"] == widest]
        .groupby(["input", "epoch"], as_index=False)[["train_loss", "test_accuracy"]]
        .mean()
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Above: loss and accuracy of the study's own training by epoch.  Below: logistic regression by scaling."""
    curves, accuracy = _curves(rows), _accuracy(rows)
    models = rows.drop_duplicates("model").sort_values("width")["model"].tolist()
    colours = dict(zip(models, theme.ordered_colours(len(models)), strict=True))
    figure = theme.figure(height=6.6)
    grid = figure.add_gridspec(2, 2)
    scalings = theme.category_colours([name for name in NAMES if name in set(curves["input"])])
    for place, (column, title) in enumerate({"train_loss": "loss, nats", "test_accuracy": "correct, %"}.items()):
        axes = figure.add_subplot(grid[0, place])
        labels = []
        for name, colour in scalings.items():
            line = curves[curves["input"] == name].sort_values("epoch")
            values = line[column] * (PERCENT if column == "test_accuracy" else 1)
            axes.plot(line["epoch"], values, color=colour, label=NAMES[name])
            labels.append((float(line["epoch"].iloc[-1]), float(values.iloc[-1]), NAMES[name], colour))
        axes.set_title(f"study's training: {title}")
        axes.set_xlabel("epoch")
        if place == 0:
            axes.legend()
    axes = figure.add_subplot(grid[1, :])
    shown = [name for name in NAMES if name in accuracy.index.get_level_values("input")]
    offsets = np.linspace(-0.25, 0.25, len(models)) if len(models) > 1 else [0.0]
    for offset, model in zip(offsets, models, strict=True):
        cells = [accuracy.loc[(name, model)] for name in shown]
        value, low, high = (np.array([cell[c] for cell in cells]) * PERCENT for c in ("value", "ci_low", "ci_high"))
        axes.errorbar(
            np.arange(len(shown)) + offset,
            value,
            (value - low, high - value),
            color=colours[model],
            marker="o",
            linestyle="",
            label=model,
        )
    axes.set_xticks(range(len(shown)), [NAMES[name].replace(" taken", "\ntaken") for name in shown])
    axes.set_ylim(0, 103)
    axes.set_ylabel("correct, %")
    axes.set_title("logistic regression, texts apart")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(models), 5))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean accuracy by scaling, and where the curves end."""
    means = _accuracy(rows).groupby(level="input")["value"].mean() * PERCENT
    scaled = ", ".join(f"{NAMES[name]} {means[name]:.1f} %" for name in NAMES if name in means.index)
    last = _curves(rows).sort_values("epoch").groupby("input").tail(1).set_index("input")
    ends = ", ".join(f"{NAMES[name]} {row['test_accuracy'] * PERCENT:.1f} %" for name, row in last.iterrows())
    return (
        f"Above, loss and accuracy by epoch of the study's own training on the widest model, which ends at {ends}. "
        f"Below, accuracy of logistic regression by scaling of the vectors, means over the models: {scaled}."
    )
