"""Retrieval score of every layer of the ladder's models at several steps of training, beside random tables."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import tables, theme
from embscale.plotting.layers import layer_name, name_layers, root_scale
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import LADDER, references
from embscale.rows.spread import evenly

COLUMNS = (
    "suite", "model", "tokenizer", "step", "width", "layer", "layer_number", "metric", "quantity", "against", "value",
    "ci_low", "ci_high", "runs", "n", "clusters",
)  # fmt: skip
STEPS = 6  # that are drawn, spread evenly over those that were scored
APART = 0.06  # layers between the lines of two steps
LEVELS = {"bm25": "-.", "chance": ":"}
NAMES = {"bm25": "BM25", "chance": "chance"}
RANDOM = "random tables"
LEGEND = (RANDOM, *NAMES.values())


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Scores of every layer of the ladder at the steps that are drawn."""
    scores = rows[(rows["quantity"] == "score") & rows["layer_number"].notna() & (rows["suite"] == LADDER)]
    steps = sorted(scores["step"].dropna().unique())
    if len(steps) < 2:
        raise NothingToShow("Layers of the ladder were scored at no more than one step of training: **not run**.")
    return scores[scores["step"].isin(evenly(steps, STEPS))].sort_values(
        ["width", "step", "layer_number"], kind="stable"
    )


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each width, a line for each step, the latest lightest; scores on an axis of square roots."""
    shown = _shown(rows)
    rows = rows[rows["tokenizer"] == shown["tokenizer"].iloc[0]]
    widths, steps = sorted(shown["width"].unique()), sorted(shown["step"].unique())
    colours = dict(zip(steps, theme.ordered_colours(len(steps)), strict=True))
    random = rows[(rows["suite"] == "random") & (rows["quantity"] == "score")].set_index("width")["value"]
    levels = references(rows.assign(table=rows["suite"]))["value"]
    lines = math.ceil(len(widths) / 2)
    figure = theme.figure(height=0.9 + 2.7 * lines)
    grid = figure.subplots(lines, 2, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, width in zip(grid, widths, strict=False):
        of_width = shown[shown["width"] == width]
        for step, line in of_width.groupby("step", sort=True):
            # Moved apart, so that intervals do not hide each other.
            apart = APART * (steps.index(step) - (len(steps) - 1) / 2)
            placed = line.assign(place=line["layer_number"] + apart)
            tables.line(axes, placed, colour=colours[step], by="place", label=f"step {step:.0f}")
        if width in random.index:
            height, colour = random[width] * PERCENT, tables.COLOURS["random"]
            axes.axhline(height, color=colour, linestyle="--", linewidth=1.6, label=RANDOM)
        for name, style in LEVELS.items():
            if name in levels.index:
                height = levels[name] * PERCENT
                axes.axhline(height, color=theme.INK, linestyle=style, linewidth=1.2, label=NAMES[name])
        layers = of_width.drop_duplicates("layer_number")
        name_layers(axes, layers["layer_number"].to_numpy(), list(layers["layer"]))
        axes.set_xlabel("")
        axes.set_title(f"width {width:.0f}")
    root_scale(grid[0])
    for axes in grid[len(widths) :]:
        axes.set_axis_off()
    for axes in grid[::2]:
        axes.set_ylabel(metric_label(rows))
    for axes in grid[max(0, len(widths) - 2) : len(widths)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("layer (number of the block)")
    # Steps first, in their order, then the levels.
    named = {name: handle for axes in grid for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    # Steps first, in their order, then the levels.
    names = [f"step {step:.0f}" for step in steps] + [name for name in LEGEND if name in named]
    figure.legend([named[name] for name in names], names, loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: scores of the table and of the last layer at each step and width."""
    shown, parts = _shown(rows), []
    for width, of_width in shown.groupby("width", sort=True):
        words = []
        for step, line in of_width.groupby("step", sort=True):
            ends = [
                f"{layer_name(row.layer, long=True)} {row.value * PERCENT:.2f}"
                for row in (line.iloc[0], line.iloc[-1])
            ]  # fmt: skip
            words.append(f"step {step:.0f}, {' and '.join(ends)}")
        parts.append(f"width {width:.0f}: {'; '.join(words)}")
    return (
        f"Lines of {metric_label(rows)} on an axis of square roots by layer, a panel for each width, a line for each "
        f"step of training; over {tables.over(shown)}. {'. '.join(parts)}."
    )
