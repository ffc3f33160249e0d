"""Retrieval score against width for every suite of the study, on every task (Corey, image2)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import PERCENT, SUITE_NAMES, metric_label
from embscale.rows.selection import LADDER, last_tables, random_band

COLUMNS = (
    "suite", "model", "step", "tokenizer", "variant", "seed", "dim", "task", "metric", "value", "ci_low", "ci_high"
)  # fmt: skip


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    last = last_tables(rows)
    if set(last["suite"]) <= set(SUITE_NAMES):
        raise NothingToShow(
            "No published suite is part of this study, so there is nothing to draw here: they were **not run**. "
            "The study in `studies/paper.yaml` has them; it needs a network."
        )
    return last[(last["suite"] == LADDER) | ~last["suite"].isin(list(SUITE_NAMES))]


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each task, a line for each suite; dashed, random tables with the same tokenizer."""
    last = _shown(rows)
    tasks = list(dict.fromkeys(last["task"]))
    suites = list(dict.fromkeys(last["suite"]))
    colours = theme.category_colours(suites)
    figure = theme.figure(height=0.6 + 3.6 * len(tasks))
    panels = figure.subplots(len(tasks), 1, squeeze=False, sharex=True)[:, 0]
    for axes, task in zip(panels, tasks, strict=True):
        for number, suite in enumerate(suites):
            line = last[(last["suite"] == suite) & (last["task"] == task)]
            value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
            axes.errorbar(
                line["dim"],
                value,
                (value - low, high - value),
                color=colours[suite],
                marker=MARKERS[number % len(MARKERS)],
                label=suite,
            )
            tokenizers = set(line["tokenizer"])
            random = rows[(rows["task"] == task) & rows["tokenizer"].isin(tokenizers)]
            band = random_band(random).loc[lambda table: table.index <= last["dim"].max()]
            axes.plot(band.index, band["mean"] * PERCENT, color=colours[suite], linestyle="--", linewidth=1)
        axes.set_title(task)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(metric_label(rows))
    theme.log2_ticks(panels[-1], [float(2**power) for power in _powers(last["dim"])])
    panels[-1].set_xlabel("columns of the table (dashed: random tables with the suite's tokenizer)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(suites), 4))
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
            f"{suite} on {task}: {first['value'] * PERCENT:.2f} ({first['model']}, {first['dim']} columns) to "
            f"{last['value'] * PERCENT:.2f} ({last['model']}, {last['dim']} columns)"
        )
    return f"Lines of {metric_label(rows)} against the columns of the table, one for each suite. {'; '.join(parts)}."
