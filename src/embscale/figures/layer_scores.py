"""Retrieval score of every layer of each model, from random tables and the model's own table to the last layer."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import tables, theme
from embscale.plotting.layers import layer_name, name_layers, root_scale
from embscale.rows.labels import PERCENT, interval, metric_label, ordered_suites
from embscale.rows.selection import last_checkpoint, references

COLUMNS = (
    "suite", "model", "tokenizer", "step", "width", "layer", "layer_number", "metric", "quantity", "against", "value",
    "ci_low", "ci_high", "runs", "n", "clusters",
)  # fmt: skip
APART = 0.04  # layers between the lines of two models
LEVELS = {"bm25": "BM25", "chance": "chance"}


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Scores of every layer at each model's last step."""
    scores = rows[(rows["quantity"] == "score") & rows["layer_number"].notna()]
    if scores.empty:
        raise NothingToShow("No layer was scored (`scores.layers.suites` in the study's parameters): **not run**.")
    return last_checkpoint(scores).sort_values(["width", "model", "layer_number"], kind="stable")


def _beside(rows: pd.DataFrame, models: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """What stands beside models of one tokenizer: scores of random tables by width, and of what needs no table."""
    own = rows[(rows["quantity"] == "score") & (rows["tokenizer"] == models["tokenizer"].iloc[0])]
    return own[own["suite"] == "random"].set_index("width"), references(own.assign(table=own["suite"]))["value"]


def _panel(axes: Axes, of_suite: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Lines of the models of a suite, random tables left of them."""
    models = [line for _, line in of_suite.groupby(["width", "model"], sort=True)]
    random, levels = _beside(rows, of_suite)
    deepest = max(models, key=len)
    same = all(list(line["layer"]) == list(deepest["layer"]) for line in models)
    last, labels, grey = len(deepest) - 1, [], tables.COLOURS["random"]
    end = last + APART * len(models) / 2
    for number, (colour, line) in enumerate(zip(theme.ordered_colours(len(models)), models, strict=True)):
        width = line["width"].iloc[0]
        # Models of other depths are stretched: their tables and last layers stand above each other.
        # They are also moved apart, so that intervals do not hide each other.
        apart = APART * (number - (len(models) - 1) / 2)
        placed = line.assign(place=line["layer_number"] * (last / max(1, len(line) - 1)) + apart)
        _, y = tables.line(axes, placed, colour=colour, by="place")
        labels.append((end, float(y[-1]), f"width {width:.0f}", theme.INK))
        if width in random.index:
            control = random.loc[[width]].assign(place=apart - 1)
            tables.line(axes, control, colour=grey, by="place", marker="D", markerfacecolor="white")
            beside = [random.loc[width, "value"] * PERCENT, y[0]]
            axes.plot([apart - 1, apart], beside, color=grey, linestyle="--", linewidth=1.2, zorder=1)
    axes.set_xlim(-1.4, end + APART)
    labels += [tables.level(axes, levels[name], end, words) for name, words in LEVELS.items() if name in levels.index]
    if same:
        name_layers(axes, deepest["layer_number"].to_numpy(), list(deepest["layer"]))
        places, names = list(axes.get_xticks()), [text.get_text() for text in axes.get_xticklabels()]
    else:
        places, names = [0, last], ["table", "last layer"]
    axes.set_xticks([-1, *places], ["random\ntable", *names])
    axes.set_ylabel(metric_label(rows))
    root_scale(axes)
    theme.end_labels(axes, labels)


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each suite, with a line for each model over its layers; scores on an axis of square roots."""
    shown = _shown(rows)
    suites = ordered_suites(shown)
    figure = theme.figure(height=0.6 + 4.0 * len(suites))
    for axes, suite in zip(figure.subplots(len(suites), 1, squeeze=False)[:, 0], suites, strict=True):
        _panel(axes, shown[shown["suite"] == suite], rows)
        if len(suites) > 1:
            axes.set_title(suite)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: at how many models the table is best, and the scores of random tables and all layers."""
    shown, parts = _shown(rows), []
    best = shown.loc[shown.groupby("model")["value"].idxmax(), "layer_number"]
    for model, line in shown.groupby("model", sort=False):
        random, _ = _beside(rows, line)
        width = line["width"].iloc[0]
        before = f"random tables {interval(random.loc[width])}, " if width in random.index else ""
        words = [f"{layer_name(row['layer'], long=True)} {interval(row)}" for _, row in line.iterrows()]
        parts.append(f"{model}: {before}{', '.join(words)}")
    _, levels = _beside(rows, shown)
    words = [f"{name} {levels[key] * PERCENT:.2f}" for key, name in LEVELS.items() if key in levels.index]
    return (
        f"The table scores highest of all layers in {int((best == 0).sum())} of {len(best)} models. Lines of "
        f"{metric_label(rows)} on an axis of square roots by layer: of random tables, the model's table, each block "
        f"and after the final norm; over {tables.over(shown)}. {'; '.join(parts)}. Without a model: {', '.join(words)}."
    )
