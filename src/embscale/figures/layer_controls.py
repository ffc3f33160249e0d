"""Layer classifiers on random vectors in place of hidden states (Huang et al., Fig. 10)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow, theme
from embscale.figures.layer_accuracy import PERCENT, selected, short_names
from embscale.figures.layer_splits import by_width, chance_line, lines

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "expected", "seed", "layer", "metric",
    "value", "ci_low", "ci_high",
)  # fmt: skip

CONTROLS = {
    "gaussian": "layer's mean, variance",
    "study_random": "the study's random",
    "scalar_norm": "layer's lengths",
}
REAL = "hidden states"
LENGTH = "length alone"


def _series(rows: pd.DataFrame, metric: str) -> dict[str, pd.DataFrame]:
    found = {REAL: selected(rows, metric=metric)}
    found |= {name: selected(rows, control=control, metric=metric) for control, name in CONTROLS.items()}
    found[LENGTH] = selected(rows, classifier="norm_only", metric=metric)
    if all(found[name].empty for name in CONTROLS.values()):
        raise NothingToShow("No random vectors are part of this study: these controls were **not run**.")
    return {name: some for name, some in found.items() if len(some)}


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each kind of vectors, with what was predicted in brackets; length alone for comparison."""
    rows = by_width(rows)
    names = short_names(rows)
    series = _series(rows, "accuracy")
    predicted = {name: _expected(some) for name, some in series.items()}
    labelled = {f"{name}{predicted[name]}": some for name, some in series.items()}
    figure = theme.figure(height=4.4)
    axes = figure.subplots()
    chance_line(axes, rows, names)
    lines(axes, labelled, theme.category_colours(list(labelled)), names)
    axes.set_title("linear classifier of (predicted outcome)")
    return figure


def _expected(rows: pd.DataFrame) -> str:
    expected = rows["expected"].dropna().astype(str)
    return f"\n({expected.iloc[0]})" if len(expected) and expected.iloc[0] else ""


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean accuracy and log loss over the models, beside the prediction."""
    parts = []
    losses = _series(rows, "log_loss")
    for name, some in _series(rows, "accuracy").items():
        expected = _expected(some).strip("\n()")
        told = f", predicted {expected}" if expected else ""
        parts.append(
            f"{name} {some['value'].mean() * PERCENT:.1f} % (log loss {losses[name]['value'].mean():.2f}{told})"
        )
    return (
        "Lines over the models of the share of vectors whose layer is named correctly, mean of the models: "
        f"{'; '.join(parts)}. Dashed: chance."
    )
