"""How figures of tables' scores look: a colour for each kind of table, lines with intervals, levels across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from embscale.plotting import theme
from embscale.rows.labels import PERCENT, runs_label

# Kinds of tables: the same colours in all figures, and dark enough for words on white.
COLOURS = {
    "trained": "#0072B2",
    "untrained": "#B34700",
    "shuffled": "#8B3A7F",
    "random": theme.MUTED,
    "reference": theme.INK,
}
SHIFT = 1 / 12  # doublings by which lines are moved apart, so that their intervals do not hide each other


def line(
    axes: Axes, rows: pd.DataFrame, *, colour: str, shift: float = 0.0, by: str = "width", **style: object
) -> tuple[np.ndarray, np.ndarray]:
    """A line through the values of rows with their intervals, times 100; rows without an interval get none.

    Args:
        axes: where to draw.
        rows: columns ``value``, ``ci_low``, ``ci_high`` and `by`.
        colour: of line and intervals.
        shift: by how many doublings of `by` the line is moved to the right.
        by: the column along the x axis.
        style: further settings of matplotlib.

    Returns:
        The x and y of the points.
    """
    x = rows[by].to_numpy(dtype=float) * 2**shift
    value, low, high = (rows[name].to_numpy(dtype=float) * PERCENT for name in ("value", "ci_low", "ci_high"))
    # Where there is no interval, none is drawn.
    errors = np.nan_to_num(np.maximum([value - low, high - value], 0))
    options: dict[str, Any] = {"marker": "o", "markersize": 5, "elinewidth": 1.4} | style
    axes.errorbar(x, value, errors, color=colour, **options)
    return x, value


def level(axes: Axes, value: float, until: float, name: str) -> tuple[float, float, str, str]:
    """A dotted line across, at a score that needs no table; call it when the left limit is final.

    Returns:
        Its label, for `embscale.plotting.theme.end_labels`.
    """
    height, colour = value * PERCENT, COLOURS["reference"]
    axes.plot([axes.get_xlim()[0], until], [height, height], color=colour, linestyle=":", linewidth=1.2)
    return until, height, name, colour


def shifts(count: int) -> Sequence[float]:
    """Shifts of several lines, centred on none."""
    return [(number - (count - 1) / 2) * SHIFT for number in range(count)]


def over(rows: pd.DataFrame) -> str:
    """What the means of trained tables and their intervals are over: ``3 runs; 2,929 queries in 498 clusters``."""
    runs = sorted({int(runs) for runs in rows["runs"]})
    words = runs_label(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]} runs"
    return f"{words}; {int(rows['n'].max()):,} queries in {int(rows['clusters'].max()):,} clusters"
