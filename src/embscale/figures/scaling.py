"""Retrieval score of trained tables by width, beside random and untrained ones and what needs no table."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import tables, theme, views
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, REFERENCE_NAMES, metric_label
from embscale.rows.selection import LADDER, ladder_tables, random_tables, references
from embscale.rows.treatments import FULL, INPUT

COLUMNS = (
    "suite", "model", "step", "width", "table", "treatment", "task", "metric", "value", "ci_low", "ci_high", "runs",
    "n", "clusters",
)  # fmt: skip


def _lines(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Trained, untrained and random tables of one task as they are, up to the widest model."""
    whole = rows[(rows["suite"] == LADDER) & (rows["table"] == INPUT) & (rows["treatment"] == FULL)]
    trained = ladder_tables(whole)
    random = random_tables(rows)
    return {
        "trained": trained,
        "untrained": whole[whole["step"] == 0].sort_values("width"),
        "random": random[random["width"] <= trained["width"].max()],
    }


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each task: lines with 95 % intervals for tables, levels across for what needs none."""
    tasks = list(dict.fromkeys(rows["task"]))
    figure = theme.figure(height=0.3 + 3.9 * len(tasks))
    for axes, task in zip(figure.subplots(len(tasks), 1, squeeze=False)[:, 0], tasks, strict=True):
        of_task = rows[rows["task"] == task]
        widest, labels = ladder_tables(of_task)["width"].max(), []
        for (name, line), shift in zip(_lines(of_task).items(), tables.shifts(3), strict=True):
            if line.empty:
                continue
            style = {"linestyle": "--", "marker": "s"} if name == "random" else {}
            _, y = tables.line(axes, line, colour=tables.COLOURS[name], shift=shift, **style)
            labels.append((widest * 1.15, y[-1], name, tables.COLOURS[name]))
        theme.log2_ticks(axes, sorted(set(ladder_tables(of_task)["width"])))
        axes.set_xlim(right=widest * 2.9)
        for name, row in references(of_task).iterrows():
            labels.append(tables.level(axes, row["value"], widest * 1.15, REFERENCE_NAMES[str(name)]))
        axes.set_ylim(bottom=0)
        axes.set_title(task)
        axes.set_xlabel("width of the model (columns of its table)")
        axes.set_ylabel(metric_label(rows))
        theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends."""
    parts = []
    for task, of_task in rows.groupby("task"):
        lines = _lines(of_task)
        parts.append(f"{task}, means over {tables.over(lines['trained'])}")
        for name, line in lines.items():
            if not line.empty:
                first, last = line.iloc[0], line.iloc[-1]
                parts.append(
                    f"{task}, {name}: {first['value'] * PERCENT:.2f} at width {first['width']:.0f}, "
                    f"{last['value'] * PERCENT:.2f} at width {last['width']:.0f}"
                )
        levels = references(of_task)["value"] * PERCENT
        words = [f"{REFERENCE_NAMES[name]} {levels[name]:.2f}" for name in REFERENCE_NAMES if name in levels]
        parts += [f"{task}, without a table: {', '.join(words)}"] if words else []
    return (
        f"Lines of {metric_label(rows)} against the width of the model on a logarithmic axis, a panel for each task. "
        f"{'; '.join(parts)}."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.scores(rows, suites=[LADDER])
