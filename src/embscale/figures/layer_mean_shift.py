"""Share of the accuracy above chance that is lost when each layer's mean is subtracted.

Huang et al. conclude from the accuracy that layers are different subspaces; a shift of their means is enough.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.layers import by_width, lines
from embscale.rows.labels import PERCENT, short_names
from embscale.rows.selection import main_run

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low",
    "ci_high",
)  # fmt: skip

CLASSIFIERS = {
    "logistic_regression": "linear (by necessity)",
    "nearest_centroid": "nearest centroid",
    "decision_tree": "tree",
}


def _series(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    conditions = {"input": "mean_removed", "metric": "mean_shift_share"}
    series = {name: main_run(rows, classifier=classifier, **conditions) for classifier, name in CLASSIFIERS.items()}
    series = {name: some for name, some in series.items() if len(some)}
    if not series:
        raise NothingToShow("No classifier was shown vectors without their layer's mean: this was **not run**.")
    return series


def draw(rows: pd.DataFrame) -> Figure:
    """A line over the models for each classifier."""
    rows = by_width(rows)
    names = short_names(rows)
    series = _series(rows)
    figure = theme.figure(height=3.6)
    axes = figure.subplots()
    lines(axes, series, theme.category_colours(list(series)), names, top=108)
    axes.set_ylabel("lost without the means, %")
    axes.set_title("accuracy above chance that the layers' means account for")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: lowest and highest model for each classifier."""
    parts = []
    for name, some in _series(rows).items():
        share = some["value"] * PERCENT
        parts.append(f"{name} {share.min():.0f} to {share.max():.0f} %")
    return (
        "Lines over the models of the share of the accuracy above chance that is lost when each layer's mean is taken "
        f"off: {'; '.join(parts)}."
    )
