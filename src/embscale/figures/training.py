"""Score of each model's table at the steps where it was saved (Corey, "tables learn early")."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label

COLUMNS = ("model", "step", "variant", "dim", "metric", "value", "ci_low", "ci_high")


def _lines(rows: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    trained = rows[(rows["variant"] == "full") & rows["step"].notna()]
    return [(int(dim), line.sort_values("step")) for dim, line in trained.groupby("dim")]


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each model from its untrained to its last table; steps on a scale of square roots."""
    lines = _lines(rows)
    figure = theme.figure(height=4.3)
    axes = figure.subplots()
    labels = []
    for colour, (dim, line) in zip(theme.ordered_colours(len(lines)), lines, strict=True):
        value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
        axes.errorbar(line["step"], value, (value - low, high - value), color=colour, marker="o")
        labels.append((line["step"].iloc[-1], value[-1], f"width {dim}", colour))
    steps = sorted({int(step) for _, line in lines for step in line["step"]})
    axes.set_xscale("function", functions=(lambda x: np.sign(x) * np.abs(x) ** 0.5, lambda x: np.sign(x) * x**2))
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.set_xlim(-0.002 * steps[-1], steps[-1] * 1.6)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("training step")
    axes.set_ylabel(metric_label(rows))
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends of each line."""
    parts = [
        f"width {dim}: {line['value'].iloc[0] * PERCENT:.2f} before training, "
        f"{line['value'].iloc[-1] * PERCENT:.2f} after step {line['step'].iloc[-1]:.0f}"
        for dim, line in _lines(rows)
    ]
    return f"Lines of {metric_label(rows)} of each model's table against the training step. {'; '.join(parts)}."
