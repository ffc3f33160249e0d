"""How far the layer classifiers' probabilities are from how often they are right (Guo et al. 2017)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import by_width, lines
from embscale.rows.labels import PERCENT, short_names
from embscale.rows.selection import main_run

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "seed", "layer", "metric", "value", "ci_low",
    "ci_high",
)  # fmt: skip

SHOWN = {
    "linear": {},
    "linear, unseen tokens": {"split": "token"},
    "study's own": {"classifier": "sgd", "split": "vector"},
    "LDA": {"classifier": "lda"},
    "random directions": {"control": "scalar_norm"},
}
METRIC = "expected_calibration_error"
ROOM = 1.15  # above the largest value


def _series(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    series = {name: main_run(rows, metric=METRIC, **where) for name, where in SHOWN.items()}
    return {name: some for name, some in series.items() if len(some)}


def draw(rows: pd.DataFrame) -> Figure:
    """A line over the models for each classifier; 0 is what a calibrated one would have."""
    rows = by_width(rows)
    series = _series(rows)
    figure = theme.figure(height=4.0)
    axes = figure.subplots()
    # The limits first: the names at the ends are set apart in them.
    lines(axes, series, theme.category_colours(list(series)), short_names(rows), top=ROOM * _highest(series))
    axes.set_ylabel("calibration error, points")
    axes.set_title("probability of the named layer, less how often it is right")
    return figure


def _highest(series: dict[str, pd.DataFrame]) -> float:
    return max(float(rows["ci_high"].fillna(rows["value"]).max()) for rows in series.values()) * PERCENT


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean over the models for each classifier."""
    parts = [f"{name} {some['value'].mean() * PERCENT:.1f}" for name, some in _series(rows).items()]
    return (
        "Lines over the models of the expected calibration error, the mean distance between the probability that a "
        f"classifier gives and how often it is right, in points, mean of the models: {', '.join(parts)}."
    )
