"""Trained less random tables of the same width at the steps where tables were saved (Corey, "tables learn early")."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import tables, theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import LADDER
from embscale.rows.treatments import FULL, RANDOM

COLUMNS = (
    "suite", "model", "step", "width", "treatment", "against", "metric", "score", "value", "ci_low", "ci_high", "runs",
    "n", "clusters",
)  # fmt: skip


def _lines(rows: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    shown = rows[(rows["suite"] == LADDER) & (rows["treatment"] == FULL) & (rows["against"] == RANDOM)]
    return [(int(width), line.sort_values("step")) for width, line in shown.groupby("width")]


def _root(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.abs(x) ** 0.5


def _square(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * x**2


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each width from its untrained to its last table; steps on a scale of square roots."""
    lines = _lines(rows)
    figure = theme.figure(height=4.3)
    axes = figure.subplots()
    axes.axhline(0, color=theme.INK, linewidth=1)
    labels = []
    steps = sorted({int(step) for _, line in lines for step in line["step"]})
    apart = steps[-1] ** 0.5 / 80  # so that intervals do not hide each other
    for number, (colour, (width, line)) in enumerate(zip(theme.ordered_colours(len(lines)), lines, strict=True)):
        root = np.sqrt(line["step"].to_numpy(dtype=float)) + (number - (len(lines) - 1) / 2) * apart
        _, y = tables.line(axes, line.assign(place=_square(root)), colour=colour, by="place")
        labels.append((float(_square(root[-1] + 2 * apart)), float(y[-1]), f"width {width}", colour))
    axes.set_xscale("function", functions=(_root, _square))
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.set_xlim(float(_square(-3 * apart)), steps[-1] * 1.6)
    axes.set_xlabel("training step")
    axes.set_ylabel(f"trained less random, {metric_label(rows)}")
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends of each line."""
    lines = _lines(rows)
    parts = [
        f"width {width}: {line['value'].iloc[0] * PERCENT:+.2f} before training, "
        f"{line['value'].iloc[-1] * PERCENT:+.2f} after step {line['step'].iloc[-1]:.0f}"
        for width, line in lines
    ]
    return (
        f"Lines of {metric_label(rows)} of each model's table less that of random tables of its width, against the "
        f"training step; over {tables.over(pd.concat([line for _, line in lines]))}. {'; '.join(parts)}."
    )
