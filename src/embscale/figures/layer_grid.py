"""Accuracy by length of the window and number of texts, as published and with the training matched (Fig. 6, I-33)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme
from embscale.figures.layer_accuracy import PERCENT

COLUMNS = (
    "model", "classifier", "design", "tokens", "texts_count", "seed", "layer", "metric", "value", "ci_low", "ci_high",
    "n_train",
)  # fmt: skip
DESIGNS = {"as_published": "all vectors of the window", "matched": "as many vectors in all windows"}
CLASSIFIERS = {"logistic_regression": "logistic regression", "sgd": "the study's own training"}


def _accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["metric"] == "accuracy") & (rows["seed"] == "all")].sort_values(["tokens", "texts_count"])


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for each classifier, a panel for each design, a line for each number of texts."""
    accuracy = _accuracy(rows)
    classifiers = [name for name in CLASSIFIERS if name in set(accuracy["classifier"])]
    counts = sorted(set(accuracy["texts_count"]))
    colours = dict(zip(counts, theme.ordered_colours(len(counts)), strict=True))
    figure = theme.figure(height=0.6 + 3.4 * len(classifiers))
    panels = figure.subplots(len(classifiers), len(DESIGNS), squeeze=False, sharex=True, sharey="row")
    for row, classifier in zip(panels, classifiers, strict=True):
        for axes, (design, words) in zip(row, DESIGNS.items(), strict=True):
            labels = []
            for count in counts:
                line = accuracy[
                    (accuracy["classifier"] == classifier)
                    & (accuracy["design"] == design)
                    & (accuracy["texts_count"] == count)
                ]
                if line.empty:
                    continue
                value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
                axes.errorbar(line["tokens"], value, (value - low, high - value), color=colours[count], marker="o")
                labels.append((float(line["tokens"].iloc[-1]), float(value[-1]), f"{count} texts", colours[count]))
            axes.set_title(words if len(classifiers) == 1 else f"{CLASSIFIERS[classifier]}: {words}")
            axes.set_xticks(sorted(set(accuracy["tokens"])))
            axes.margins(x=0.1)
            if axes is row[-1]:
                theme.end_labels(axes, labels)
        row[0].set_ylabel("correct, %")
    for axes in panels[-1]:
        axes.set_xlabel("first tokens of each text")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the change from the shortest to the longest window in both designs."""
    accuracy = _accuracy(rows)
    parts = []
    for (classifier, design), group in accuracy.groupby(["classifier", "design"], sort=False):
        most = group[group["texts_count"] == group["texts_count"].max()]
        first, last = most.iloc[0], most.iloc[-1]
        parts.append(
            f"{CLASSIFIERS[classifier]}, {DESIGNS[design]}: {first['value'] * PERCENT:.1f} % "
            f"with {first['tokens']} tokens, {last['value'] * PERCENT:.1f} % with {last['tokens']}"
        )
    return (
        f"Lines of accuracy by window, one for each number of texts; for the most texts: {'; '.join(parts)}. "
        f"Model: {', '.join(accuracy['model'].unique())}."
    )
