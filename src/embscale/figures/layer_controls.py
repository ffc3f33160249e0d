"""Layer classifiers on random vectors in place of hidden states (Huang et al., Fig. 10)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.layers import by_width, chance_line, lines
from embscale.rows.labels import PERCENT, short_names
from embscale.rows.selection import main_run

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "expected", "seed", "layer", "metric",
    "value", "ci_low", "ci_high",
)  # fmt: skip

CONTROLS = {"gaussian": "Gaussian", "study_random": "study's random", "scalar_norm": "random directions"}
REAL = "hidden states"
LENGTH = "length alone"

# When an outcome counts as predicted (`embscale.layers.examples.EXPECTED`), where that is not chance: "high" is
# nearer to the hidden states than to chance, "norm" this near to the classifier that is given the norm.
NEAR = 0.05


def _series(rows: pd.DataFrame, metric: str) -> dict[str, pd.DataFrame]:
    series = {REAL: main_run(rows, metric=metric)}
    series |= {name: main_run(rows, control=control, metric=metric) for control, name in CONTROLS.items()}
    series[LENGTH] = main_run(rows, classifier="norm_only", metric=metric)
    if all(series[name].empty for name in CONTROLS.values()):
        raise NothingToShow("No random vectors are part of this study: these controls were **not run**.")
    return {name: some for name, some in series.items() if len(some)}


def as_predicted(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Whether each control came out as it was predicted, by model.

    The prediction "chance" concerns the log loss, which must not be below that of guessing.  Accuracy may be above
    chance, because with few vectors the weights are noise, larger for layers with larger norms.
    """
    accuracy, loss = (
        {name: some.set_index("model") for name, some in _series(rows, metric).items()}
        for metric in ("accuracy", "log_loss")
    )
    chance = main_run(rows, metric="chance").set_index("model")["value"]
    verdicts = {}
    for name in CONTROLS.values():
        if name not in accuracy:
            continue
        value, expected = accuracy[name]["value"], _expected(accuracy[name])
        if expected == "chance":
            held = loss[name]["ci_high"] >= -np.log(chance)
        elif expected == "high":
            held = value > (accuracy[REAL]["value"] + chance) / 2
        elif LENGTH in accuracy:
            held = (value - accuracy[LENGTH]["value"]).abs() <= NEAR
        else:
            continue
        verdicts[name] = held.loc[value.index]
    return verdicts


def draw(rows: pd.DataFrame) -> Figure:
    """Accuracy above, log loss less that of guessing below; a line for each kind of vectors, with the prediction."""
    rows = by_width(rows)
    names = short_names(rows)
    figure = theme.figure(height=7.0)
    above, below = figure.subplots(2, 1)
    chance_line(above, rows, names)
    series = _series(rows, "accuracy")
    labels = {name: f"{name} ({_expected(some)})".removesuffix(" ()") for name, some in series.items()}
    colours = theme.category_colours(list(labels.values()))
    lines(above, {labels[name]: some for name, some in series.items()}, colours, names)
    above.set_title("hidden states and random vectors (predicted outcome)")
    guessing = main_run(rows, metric="chance").set_index("model")["value"].map(lambda chance: -np.log(chance))
    for name, some in _series(rows, "log_loss").items():
        less = some[["value", "ci_low", "ci_high"]].sub(some["model"].map(guessing), axis=0).to_numpy()
        places = [list(names).index(model) for model in some["model"]]
        value, low, high = less.T
        errors = (value - low, high - value)
        below.errorbar(places, value, errors, color=colours[labels[name]], marker="o", markersize=5)
    below.axhline(0, color=theme.MUTED, linestyle="--", linewidth=1.2)
    below.set_xticks(range(len(names)), list(names.values()))
    below.set_xlim(above.get_xlim())
    below.set_ylabel("nats")
    below.set_title("log loss less that of guessing (dashed)")
    return figure


def _expected(rows: pd.DataFrame) -> str:
    expected = rows["expected"].dropna().astype(str)
    return expected.iloc[0] if len(expected) else ""


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean accuracy and log loss over the models, and whether it is as predicted."""
    parts = []
    losses, verdicts = _series(rows, "log_loss"), as_predicted(rows)
    for name, some in _series(rows, "accuracy").items():
        text = f"log loss {losses[name]['value'].mean():.2f}"
        if name in verdicts:
            held = verdicts[name]
            text += f", predicted {_expected(some)}, which holds for {held.sum()} of {len(held)} models"
        parts.append(f"{name} {some['value'].mean() * PERCENT:.1f} % ({text})")
    guessing = -np.log(main_run(rows, metric="chance")["value"].mean())
    return (
        "Two panels of lines over the models: above, the share of vectors whose layer is named correctly, below, the "
        f"log loss less that of guessing, which is {guessing:.2f}. Mean of the models: {'; '.join(parts)}. The "
        "prediction of chance is one about the log loss. Dashed: chance."
    )
