"""Scores of tables on two tasks against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label

COLUMNS = (
    "population", "suite", "model", "run", "seed", "width", "task", "metric", "quantity", "value", "ci_low", "ci_high",
    "p", "smallest_p", "tables",
)  # fmt: skip

# Populations in the left panel, with marker and colour; the right panel has what is left above random tables.
NAMES = {
    "random": ("random tables", "D", theme.MUTED),
    "static": ("static embeddings", "s", theme.CATEGORIES[1]),
    "ladder": ("language models, each run", "o", theme.CATEGORIES[0]),
}
ABOVE = "ladder above random"
LEAST_P, SIGNIFICANT = 0.001, 0.05


def _points(rows: pd.DataFrame, population: str) -> tuple[pd.DataFrame, list[str]]:
    """A row for each table with its scores on both tasks in points, and the names of the tasks."""
    own = rows[(rows["population"] == population) & (rows["quantity"] == "score")]
    tasks = sorted(rows.loc[rows["quantity"] == "score", "task"].unique())
    if len(tasks) != 2:
        raise NothingToShow("Tables were not scored on two tasks: **not run**.")
    keys = own[["suite", "model", "run", "seed", "width"]].fillna(-1)
    table = keys.groupby(list(keys), sort=False).ngroup()
    wide = own.assign(table=table).pivot(index="table", columns="task", values="value") * PERCENT
    widths = own.assign(table=table).drop_duplicates("table").set_index("table")["width"]
    return wide.assign(width=widths), tasks


def draw(rows: pd.DataFrame) -> Figure:
    """Left, a point for each table; right, the language models above random tables of their width."""
    figure = theme.figure(height=4.6)
    left, right = figure.subplots(1, 2)
    for population, (name, marker, colour) in NAMES.items():
        points, tasks = _points(rows, population)
        if len(points):
            _scatter(left, points, tasks, label=name, marker=marker, color=colour)
    models, _ = _points(rows, "ladder")
    _name_widths(left, models, tasks)
    above, _ = _points(rows, ABOVE)
    _, marker, colour = NAMES["ladder"]
    for line in (right.axhline, right.axvline):
        line(0, color=theme.MUTED, linewidth=1.2)
    _scatter(right, above, tasks, marker=marker, color=colour)
    _name_widths(right, above, tasks)
    left.set_title("tables as they are")
    right.set_title("minus random tables")
    for axes in (left, right):
        axes.set_xlabel(tasks[0])
        axes.margins(0.12)
    left.set_ylabel(f"{tasks[1]}, {metric_label(rows)}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _scatter(axes: Axes, points: pd.DataFrame, tasks: list[str], **style: Any) -> None:  # noqa: ANN401 (of a plot)
    axes.plot(points[tasks[0]], points[tasks[1]], linestyle="none", markersize=5.5, alpha=0.75, **style)


def _name_widths(axes: Axes, points: pd.DataFrame, tasks: list[str]) -> None:
    """The runs of a width joined in their mean, beside which the width stands."""
    for width, own in points.groupby("width"):
        x, y = own[tasks[0]], own[tasks[1]]
        for run_x, run_y in zip(x, y, strict=True):
            axes.plot([x.mean(), run_x], [y.mean(), run_y], color=theme.CATEGORIES[0], linewidth=0.8, alpha=0.6)
        axes.annotate(
            f"{width:.0f}", (x.mean(), y.mean()), (7, -9), textcoords="offset points", va="center", color=theme.INK
        )


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: Kendall's correlation of each population."""
    _, tasks = _points(rows, "ladder")
    parts = []
    for row in rows[rows["quantity"] == "kendall"].itertuples():
        interval = f" ({row.ci_low:.2f} to {row.ci_high:.2f})" if np.isfinite(row.ci_low) else ""
        p = "below 0.001" if row.p < LEAST_P else f"{row.p:.3f}"
        few = f", as many tables reach no p below {row.smallest_p:.2f}" if row.smallest_p > SIGNIFICANT else ""
        parts.append(f"{row.population}: {row.value:.2f}{interval} over {row.tables} tables, p {p}{few}")
    return (
        f"Points of {metric_label(rows)} on {tasks[0]} and {tasks[1]}, one for each table; right, with the mean of "
        "random tables of the same width subtracted. Kendall's rank correlation with 95 % interval over queries and p "
        "over permutations of tables: "
        f"{'; '.join(parts)}."
    )
