"""Axes and lines of figures about layers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from embscale.plotting import theme
from embscale.rows.labels import PERCENT
from embscale.rows.selection import main_run

TICKS = 9  # layers that are named below an axis
SCORE_TICKS = (0, 1, 5, 10, 20, 40, 60, 80, 100)


def layer_name(layer: str, *, long: bool = False) -> str:
    """What a figure calls a layer: ``table``, ``input``, the number of a block, ``norm``."""
    words = {"embedding": "table", "block input": "input", "final norm": "after the final norm" if long else "norm"}
    return words.get(layer, layer if long else re.sub(r"^block ", "", layer))


def name_layers(axes: Axes, places: np.ndarray, layers: list[str]) -> None:
    """Ticks of an x axis; of many layers only some, the first and the last always."""
    step = -(-len(layers) // TICKS)
    shown = sorted(
        {*range(0, len(layers), step), len(layers) - 1} - {len(layers) - 1 - i for i in range(1, step + (step > 1))}
    )
    axes.set_xticks(np.asarray(places)[shown], [layer_name(layers[i]) for i in shown])
    axes.set_xlabel("layer (number of the block)")


def root_scale(axes: Axes) -> None:
    """Scores in percent on an axis of square roots: low scores have room, and intervals may end at 0.

    Call it when all is drawn.
    """
    top = axes.get_ylim()[1]
    axes.set_yscale("function", functions=(_root, np.square))
    axes.set_yticks([tick for tick in SCORE_TICKS if tick <= top], minor=False)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, top)


def _root(x: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(x, 0))


def layer_count(rows: pd.DataFrame) -> int:
    """How many layers the rows name."""
    return int(rows["layer"].nunique())


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
    chance = main_run(rows, metric="chance").drop_duplicates("model").set_index("model")["value"]
    values = np.array([chance[model] for model in names]) * PERCENT
    axes.plot(range(len(names)), values, color=theme.MUTED, linestyle="--", linewidth=1.2)
