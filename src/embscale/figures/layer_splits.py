"""Accuracy of layer classifiers when the test vectors are known, half known and unknown; and of other classifiers.

Huang et al., Fig. 5, divide single vectors, so that texts and tokens of the test were seen in training (I-34).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow, theme
from embscale.figures.layer_accuracy import PERCENT, main_split, selected, short_names

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low",
    "ci_high",
)  # fmt: skip

SPLITS = {"vector": "seen texts", "text": "unseen texts", "token": "unseen tokens"}
CLASSIFIERS = {
    "logistic_regression": "linear",
    "lda": "LDA",
    "decision_tree": "tree",
    "nearest_centroid": "centroid",
    "norm_only": "length alone",
    "position_only": "position alone",
}


def lines(
    axes: Axes,
    rows: Mapping[str, pd.DataFrame],
    colours: Mapping[str, str],
    names: Mapping[str, str],
    *,
    top: float = 103,
) -> None:
    """A line of accuracies over the models for each label, named at its end; one piece for each suite.

    Args:
        axes: where to draw.
        rows: label -> rows with one value for each model.
        colours: label -> colour.
        names: model -> its short name, in the order of the axis.
        top: where the axis ends, in percent.
    """
    places = {model: i for i, model in enumerate(names)}
    labels = []
    for label, line in rows.items():
        for _, piece in line.groupby("suite", sort=False):
            x = piece["model"].map(places).to_numpy()
            value, low, high = (piece[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
            axes.errorbar(x, value, (value - low, high - value), color=colours[label], marker="o", markersize=5)
        last = line.iloc[line["model"].map(places).to_numpy().argmax()]
        labels.append((float(places[last["model"]]), float(last["value"]) * PERCENT, label, colours[label]))
    axes.set_xticks(range(len(names)), list(names.values()))
    axes.set_xlim(-0.3, len(names) - 0.4)
    axes.set_ylim(0, top)
    axes.set_ylabel("correct, %")
    theme.end_labels(axes, labels)


def by_width(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the models of each suite in order of their width."""
    return rows.sort_values(["suite", "width"], kind="stable")


def chance_line(axes: Axes, rows: pd.DataFrame, names: Mapping[str, str]) -> None:
    """Dashed, what guessing would give for each model."""
    chance = selected(rows, metric="chance").drop_duplicates("model").set_index("model")["value"]
    values = np.array([chance[model] for model in names]) * PERCENT
    axes.plot(range(len(names)), values, color=theme.MUTED, linestyle="--", linewidth=1.2)


def _series(rows: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    splits = {name: selected(rows, split=split, metric="accuracy") for split, name in SPLITS.items()}
    classifiers = {
        name: selected(rows, classifier=classifier, metric="accuracy") for classifier, name in CLASSIFIERS.items()
    }
    found = [{name: some for name, some in series.items() if len(some)} for series in (splits, classifiers)]
    if not found[0]:
        raise NothingToShow("No logistic regression on raw vectors is part of this study: it was **not run**.")
    return found[0], found[1]


def draw(rows: pd.DataFrame) -> Figure:
    """Above, one classifier in three splits; below, several classifiers on unseen texts."""
    rows = by_width(rows)
    names = short_names(rows)
    splits, classifiers = _series(rows)
    figure = theme.figure(height=6.6)
    above, below = figure.subplots(2, 1, height_ratios=[1, 1.25])
    chance_line(above, rows, names)
    lines(above, splits, theme.category_colours(list(splits)), names)
    above.set_title("linear classifier, tested on")
    chance_line(below, rows, names)
    lines(below, classifiers, theme.category_colours(list(classifiers)), names)
    below.set_title(f"tested on {SPLITS[main_split(rows)]} (dashed: chance)")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each line's mean over the models."""
    rows = by_width(rows)
    splits, classifiers = _series(rows)
    above, below = (
        ", ".join(f"{name} {some['value'].mean() * PERCENT:.1f} %" for name, some in series.items())
        for series in (splits, classifiers)
    )
    chance, tested = selected(rows, metric="chance")["value"].mean() * PERCENT, SPLITS[main_split(rows)]
    return (
        f"Two panels of lines over the models. Above, share of vectors whose layer a linear classifier names correctly "
        f"by what it is tested on, mean of the models: {above}. Below, by classifier on {tested}: {below}; chance "
        f"is {chance:.0f} %."
    )
