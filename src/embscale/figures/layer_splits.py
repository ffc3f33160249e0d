"""Accuracy of layer classifiers on seen and unseen texts and tokens, and of other classifiers.

Huang et al., Fig. 5, split by vector, so texts and tokens of the test set were also seen in training.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme, views
from embscale.plotting.layers import by_width, chance_line, lines
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, short_names
from embscale.rows.selection import main_run, main_split

COLUMNS = (
    "suite", "model", "step", "width", "classifier", "split", "input", "control", "seed", "layer", "metric", "value",
    "ci_low", "ci_high",
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


def _series(rows: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    splits = {name: main_run(rows, split=split, metric="accuracy") for split, name in SPLITS.items()}
    classifiers = {
        name: main_run(rows, classifier=classifier, metric="accuracy") for classifier, name in CLASSIFIERS.items()
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
    chance, tested = main_run(rows, metric="chance")["value"].mean() * PERCENT, SPLITS[main_split(rows)]
    return (
        f"Two panels of lines over the models. Above, share of vectors whose layer a linear classifier names correctly "
        f"by what it is tested on, mean of the models: {above}. Below, by classifier on {tested}: {below}; chance "
        f"is {chance:.0f} %."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.classifiers(rows[rows["model"] == list(short_names(rows))[-1]]) | {"quality": "accuracy"}
