"""Retrieval score against width for every suite of the study, on every task (Corey, image2)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.claims import published_scores
from embscale.figures import NothingToShow
from embscale.plotting import tables, theme, views
from embscale.plotting.theme import MARKERS
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, metric_label, trained_here
from embscale.rows.selection import LADDER, last_tables, random_tables

COLUMNS = (
    "suite", "model", "step", "tokenizer", "table", "treatment", "dim", "width", "task", "metric", "value", "ci_low",
    "ci_high",
)  # fmt: skip


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    last = last_tables(rows)
    if trained_here(last["suite"]).all():
        raise NothingToShow(
            "No published suite is part of this study, so there is nothing to draw here: they were **not run**. "
            "The study in `studies/paper.yaml` has them; it needs a network."
        )
    return last[(last["suite"] == LADDER) | ~trained_here(last["suite"])]


def _published(rows: pd.DataFrame, task: str) -> pd.DataFrame:
    """Published scores of retrieval systems of other kinds on a task."""
    others = published_scores.references()
    return others[(others["task"] == task) & (others["metric"] == rows["metric"].iloc[0])]


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each task, a line for each suite; dashed, random tables with the same tokenizer."""
    last = _shown(rows)
    tasks = list(dict.fromkeys(last["task"]))
    suites = list(dict.fromkeys(last["suite"]))
    colours = theme.category_colours(suites)
    figure = theme.figure(height=0.6 + 3.6 * len(tasks))
    panels = figure.subplots(len(tasks), 1, squeeze=False, sharex=True)[:, 0]
    levels: list[list[tuple[float, float, str, str]]] = []
    for axes, task in zip(panels, tasks, strict=True):
        for number, suite in enumerate(suites):
            line = last[(last["suite"] == suite) & (last["task"] == task)]
            marker = MARKERS[number % len(MARKERS)]
            tables.line(axes, line, colour=colours[suite], by="dim", marker=marker, label=suite)
            of_tokenizer = rows[(rows["task"] == task) & rows["tokenizer"].isin(set(line["tokenizer"]))]
            random = random_tables(of_tokenizer)
            random = random[random["width"] <= last["dim"].max()]
            axes.plot(random["width"], random["value"] * PERCENT, color=colours[suite], linestyle="--", linewidth=1)
        levels.append([])
        for row in _published(rows, task).itertuples(index=False):
            levels[-1].append(tables.level(axes, row.value, float(last["dim"].max()), f"{row.system} (published)"))
        axes.set_title(task)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(metric_label(rows))
    theme.log2_ticks(panels[-1], [float(2**power) for power in _powers(last["dim"])])
    if any(levels):
        panels[-1].set_xlim(right=float(last["dim"].max()) * 8)  # room for the names
    panels[-1].set_xlabel("columns of the table (dashed: random tables with the suite's tokenizer)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(suites), 4))
    for axes, names in zip(panels, levels, strict=True):
        theme.end_labels(axes, names)
    return figure


def _powers(dims: pd.Series) -> range:
    """Powers of two that cover the widths."""
    return range(int(dims.min()).bit_length() - 1, (int(dims.max()) - 1).bit_length() + 1)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of every line."""
    parts = []
    for (task, suite), line in _shown(rows).groupby(["task", "suite"], sort=False):
        first, last = line.iloc[0], line.iloc[-1]
        parts.append(
            f"{suite} on {task}: {first['value'] * PERCENT:.2f} ({first['model']}, {first['dim']:.0f} columns) to "
            f"{last['value'] * PERCENT:.2f} ({last['model']}, {last['dim']:.0f} columns)"
        )
    for task in dict.fromkeys(_shown(rows)["task"]):
        for row in _published(rows, task).itertuples(index=False):
            parts.append(f"published for {task}: {row.system} {row.value * PERCENT:.2f}")
    return f"Lines of {metric_label(rows)} against the columns of the table, one for each suite. {'; '.join(parts)}."


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.scores(rows, suites=list(dict.fromkeys(_shown(rows)["suite"])))
