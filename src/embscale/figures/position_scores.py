"""Retrieval score of a table with its learned positions added, beside the table alone and random positions."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.primer.position_scores import ALONE, LEARNED, RANDOM, RANDOM_TABLE
from embscale.rows.labels import PERCENT, metric_label

COLUMNS = ("suite", "model", "kind", "seed", "quantity", "metric", "value", "ci_low", "ci_high", "n")

KINDS = (ALONE, LEARNED, RANDOM, RANDOM_TABLE)


def _points(axes: Axes, rows: pd.DataFrame, kinds: list[str]) -> None:
    """A point with its interval for each row, seeds of one kind beside each other."""
    colours = theme.category_colours(KINDS)
    for place, kind in enumerate(kinds):
        of_kind = rows[rows["kind"] == kind]
        value, low, high = (of_kind[name].to_numpy() * PERCENT for name in ("value", "ci_low", "ci_high"))
        shift = 0.16 * (np.arange(len(of_kind)) - (len(of_kind) - 1) / 2)
        axes.errorbar(value, place + shift, xerr=(value - low, high - value), color=colours[kind], marker="o",
                      linestyle="none")  # fmt: skip
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def draw(rows: pd.DataFrame) -> Figure:
    """Above, scores; below, what positions change, in pairs; random kinds have a point for each seed."""
    scores, changes = (rows[rows["quantity"] == quantity] for quantity in ("score", "change"))
    figure = theme.figure(height=4.4)
    above, below = figure.subplots(2, 1, height_ratios=[4, 2])
    _points(above, scores, list(KINDS))
    above.set_xlim(left=0)
    above.set_xlabel(metric_label(rows))
    below.axvline(0, color=theme.MUTED, linewidth=1)
    _points(below, changes, [LEARNED, RANDOM])
    below.set_xlabel("change against the table alone")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: every score and change with its interval."""
    parts = []
    for quantity, some in rows.groupby("quantity", sort=False):
        for kind, of_kind in some.groupby("kind", sort=False):
            values = ", ".join(
                f"{row.value * PERCENT:{'+' if quantity == 'change' else ''}.2f} "
                f"({row.ci_low * PERCENT:.2f} to {row.ci_high * PERCENT:.2f})"
                for row in of_kind.itertuples()
            )
            parts.append(f"{quantity}, {kind}: {values}")
    return (
        f"Two panels of points with 95 % intervals over {rows['n'].iloc[0]:,} queries: {metric_label(rows)} of "
        f"{rows['model'].iloc[0]}'s table alone, with its learned positions added and with random ones, and of random "
        f"tables; and the changes against the table alone. {'; '.join(parts)}."
    )
