"""Random tables by tokenizer and number of columns (Corey, image1), beside what was reported."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.claims import published_scores
from embscale.figures import NothingToShow
from embscale.figures.suite_variants import TASK
from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import random_tables

COLUMNS = ("tokenizer", "table", "treatment", "dim", "width", "task", "metric", "value", "ci_low", "ci_high")


def reported(metric: str) -> pd.DataFrame:
    """What the study published: mean, lowest and highest over its seeds."""
    rows = published_scores.load()
    random = rows[(rows["suite"] == "random") & (rows["metric"] == metric) & (rows["task"] == TASK) & rows["valid"]]
    bands = random.groupby(["tokenizer", "dims"])["value"].agg(mean="mean", low="min", high="max")
    return bands.reset_index().rename(columns={"dims": "dim"})


def computed(rows: pd.DataFrame) -> pd.DataFrame:
    """The same of this study, on the study's task alone, with 95 % intervals over draws and queries."""
    names = {"width": "dim", "value": "mean", "ci_low": "low", "ci_high": "high"}
    random = random_tables(rows[rows["task"] == TASK]).drop(columns="dim").rename(columns=names)
    return random[["tokenizer", *names.values()]].sort_values(["tokenizer", "dim"], ignore_index=True)


def _both(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    ours, theirs = computed(rows), reported(str(rows["metric"].iloc[0]))
    if ours.empty and theirs.empty:
        raise NothingToShow("The first study published no random tables by this metric, and none were scored here.")
    return ours, theirs


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each tokenizer with its interval; hollow and dotted, with the range of seeds, where reported only."""
    ours, theirs = _both(rows)
    tokenizers = sorted({*ours["tokenizer"], *theirs["tokenizer"]})
    colours = theme.category_colours(tokenizers)
    figure = theme.figure(height=4.6)
    axes = figure.subplots()
    labels = []
    for tokenizer in tokenizers:
        for frame, style in (
            (theirs, {"linestyle": ":", "linewidth": 1.2, "markerfacecolor": "white"}),
            (ours, {"linestyle": "-"}),
        ):
            line = frame[frame["tokenizer"] == tokenizer].sort_values("dim")
            if line.empty:
                continue
            axes.fill_between(
                line["dim"],
                line["low"] * PERCENT,
                line["high"] * PERCENT,
                color=colours[tokenizer],
                alpha=0.15,
                linewidth=0,
            )
            axes.plot(line["dim"], line["mean"] * PERCENT, color=colours[tokenizer], marker="o", markersize=5, **style)
            end = (float(line["dim"].iloc[-1]), float(line["mean"].iloc[-1]) * PERCENT, tokenizer, colours[tokenizer])
        labels.append(end)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlim(right=max(x for x, *_ in labels) * 4.5)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("columns of the random table")
    axes.set_ylabel(metric_label(rows))
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of every line."""
    ours, theirs = _both(rows)
    parts = [
        f"{tokenizer} {source}: {line['mean'].iloc[0] * PERCENT:.2f} at {line['dim'].iloc[0]} columns, "
        f"{line['mean'].iloc[-1] * PERCENT:.2f} at {line['dim'].iloc[-1]}"
        for source, frame in (("reported", theirs), ("computed here", ours))
        for tokenizer, line in frame.groupby("tokenizer")
    ]
    missing = "" if len(ours) else " None of them was computed in this study."
    return f"Lines of {metric_label(rows)} of random tables, one for each tokenizer. {'; '.join(parts)}.{missing}"
