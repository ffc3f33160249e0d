"""Each suite by itself: trained, cropped, padded and random tables, beside what was reported (Corey, image2 to 7).

Filled markers with intervals are scores computed here; hollow ones are those that the first study published.
"""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from embscale.claims import published_scores
from embscale.figures import NothingToShow
from embscale.plotting import tables, theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import last_checkpoint, random_tables
from embscale.rows.treatments import INPUT

COLUMNS = (
    "suite", "model", "tokenizer", "step", "table", "treatment", "width", "task", "metric", "value", "ci_low", "ci_high"
)  # fmt: skip

TASK = "SCIDOCS"  # of all that the study published
NAMES = {"full": "trained", "crop": "cropped", "pad": "padded", "random": "random"}
TITLES = {
    "pythia": "Pythia",
    "opt": "OPT",
    "cerebras-gpt": "Cerebras-GPT",
    "bloom": "BLOOM",
    "t5-v1_1": "T5 v1.1",
}


def reported(metric: str, task: str) -> pd.DataFrame:
    """What the study published for a task, sound values only; random tables at the widths of the suite's models."""
    rows = published_scores.load()
    rows = rows[(rows["task"] == task) & (rows["metric"] == metric) & rows["valid"] & rows["suite"].isin(list(TITLES))]
    widest = rows.groupby(["suite", "model", "variant"])["variant_dims"].transform("max")
    return rows[rows["variant_dims"].isna() | (rows["variant_dims"] == widest)]


def computed(rows: pd.DataFrame) -> pd.DataFrame:
    """Last tables of the study's suites, and random tables of their widths with their tokenizers."""
    last = last_checkpoint(rows[rows["suite"].isin(list(TITLES)) & (rows["table"] == INPUT)])
    last = last.assign(variant=last["treatment"].str.split(":").str[0])
    random = random_tables(rows)[["tokenizer", "width", "value", "ci_low", "ci_high"]]
    full = last[last["variant"] == "full"].drop(columns=["value", "ci_low", "ci_high"])
    baseline = full.merge(random, on=["tokenizer", "width"]).assign(variant="random")
    return pd.concat([last, baseline], ignore_index=True)


def _both(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    ours, theirs = computed(rows), reported(str(rows["metric"].iloc[0]), TASK)
    if len(ours) and set(ours["task"]) != {TASK}:
        theirs = theirs.head(0)  # scores of two tasks do not belong on one axis
    if ours.empty and theirs.empty:
        raise NothingToShow("The first study published nothing by this metric, and no suite of it was run here.")
    return ours, theirs


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each suite, a colour for each variant."""
    ours, theirs = _both(rows)
    suites = [suite for suite in TITLES if suite in {*ours["suite"], *theirs["suite"]}]
    colours = theme.category_colours(list(NAMES))
    figure = theme.figure(height=0.7 + 2.7 * math.ceil(len(suites) / 2))
    panels = figure.subplots(math.ceil(len(suites) / 2), 2, squeeze=False).ravel()
    for axes, suite in zip(panels, suites, strict=False):
        for variant in NAMES:
            line = theirs[(theirs["suite"] == suite) & (theirs["variant"] == variant)].sort_values("dims")
            axes.plot(
                line["dims"], line["value"] * PERCENT, color=colours[variant], marker="o", markerfacecolor="white",
                linewidth=1, linestyle=":", markersize=5,
            )  # fmt: skip
            line = ours[(ours["suite"] == suite) & (ours["variant"] == variant)].sort_values("width")
            tables.line(axes, line, colour=colours[variant])
        axes.set_title(TITLES[suite])
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_ylim(bottom=0)
    for axes in panels[max(len(suites) - 2, 0) : len(suites)]:
        axes.set_xlabel("columns of the table")
    for axes in panels[: len(suites) : 2]:
        axes.set_ylabel(metric_label(rows))
    handles = [panels[0].plot([], [], color=colours[kind], label=name)[0] for kind, name in NAMES.items()]
    style = {"color": theme.INK, "marker": "o"}
    handles += panels[0].plot([], [], linestyle="-", label="computed here", **style)
    handles += panels[0].plot([], [], linestyle=":", markerfacecolor="white", label="reported by the study", **style)
    for axes in panels[len(suites) :]:
        axes.set_axis_off()
    # The page is two panels wide: an odd number leaves a place for the legend.
    if len(suites) % 2:
        panels[len(suites)].legend(handles=handles, loc="center left")
    else:
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of the trained tables' lines, reported and computed."""
    ours, theirs = _both(rows)
    parts = []
    for source, frame, width in (("reported", theirs, "dims"), ("computed here", ours, "width")):
        for suite, line in frame[frame["variant"] == "full"].groupby("suite", sort=False):
            line = line.sort_values(width)
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{TITLES[suite]} {source}: {first['value'] * PERCENT:.2f} at {first[width]:.0f} columns, "
                f"{last['value'] * PERCENT:.2f} at {last[width]:.0f}"
            )
    missing = "" if len(ours) else " None of these suites was run in this study."
    return f"Panels of {metric_label(rows)} against columns, one for each suite. {'; '.join(parts)}.{missing}"
