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
    "suite", "model", "step", "width", "layer", "layer_number", "metric", "quantity", "against", "value", "ci_low",
    "ci_high", "runs", "n", "clusters",
)  # fmt: skip
APART = 0.04  # layers between the lines of two models
LEVELS = {"bm25": "BM25", "chance": "chance"}


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Scores of every layer at each model's last step."""
    scores = rows[(rows["quantity"] == "score") & rows["layer_number"].notna()]
    if scores.empty:
        raise NothingToShow("No layer was scored (`scores.layers.suites` in the study's parameters): **not run**.")
    return last_checkpoint(scores).sort_values(["width", "model", "layer_number"], kind="stable")


def _random(rows: pd.DataFrame) -> pd.DataFrame:
    """Scores of random tables, by width."""
    return rows[(rows["suite"] == "random") & (rows["quantity"] == "score")].set_index("width")


def _panel(axes: Axes, models: list[pd.DataFrame], rows: pd.DataFrame) -> None:
    """Lines of the models of a suite, random tables left of them."""
    deepest = max(models, key=len)
    same = all(list(line["layer"]) == list(deepest["layer"]) for line in models)
    last, random, labels, grey = len(deepest) - 1, _random(rows), [], tables.COLOURS["random"]
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
    levels = references(rows.assign(table=rows["suite"]))["value"]
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
        of_suite = shown[shown["suite"] == suite]
        _panel(axes, [line for _, line in of_suite.groupby(["width", "model"], sort=True)], rows)
        if len(suites) > 1:
            axes.set_title(suite)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: at each width the scores of random tables, the table, and the last layers."""
    shown, random, parts = _shown(rows), _random(rows), []
    for model, line in shown.groupby("model", sort=False):
        width = line["width"].iloc[0]
        before = f"random tables {interval(random.loc[width])}, " if width in random.index else ""
        words = [f"{layer_name(row['layer'], long=True)} {interval(row)}" for _, row in line.iterrows()]
        parts.append(f"{model}: {before}{', '.join(words)}")
    levels = references(rows.assign(table=rows["suite"]))["value"] * PERCENT
    words = [f"{name} {levels[key]:.2f}" for key, name in LEVELS.items() if key in levels.index]
    return (
        f"Lines of {metric_label(rows)} on an axis of square roots by layer: of random tables, the model's table, each "
        f"block and after the final norm; over {tables.over(shown)}. {'; '.join(parts)}. "
        f"Without a model: {', '.join(words)}."
    )
