"""Scores by how much of each document counts: trained and random tables, BM25 and chance."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import tables, theme
from embscale.rows.labels import PERCENT, metric_label, ordered_lengths
from embscale.rows.selection import ladder_tables, random_tables, references
from embscale.rows.treatments import FULL, INPUT

COLUMNS = (
    "suite", "model", "step", "width", "table", "treatment", "length", "metric", "value", "ci_low", "ci_high", "runs",
    "n", "clusters",
)  # fmt: skip
STYLES = {"trained": "-", "random": "--", "bm25": "-.", "chance": ":"}
NAMES = {"bm25": "BM25"}


def _lines(rows: pd.DataFrame) -> dict[int, dict[str, pd.DataFrame]]:
    """Rows by width and kind, with the place of each length in the column ``place``."""
    lengths = ordered_lengths(rows["length"])
    placed = rows.assign(place=rows["length"].map(lengths.index)).sort_values("place")
    trained = ladder_tables(placed[(placed["table"] == INPUT) & (placed["treatment"] == FULL)])
    random = random_tables(placed)
    levels = {name: placed[placed["model"] == name] for name in ("bm25", "chance")}
    return {
        int(width): {
            "trained": own.sort_values("place"),
            "random": random[random["width"] == width].sort_values("place"),
            **levels,
        }
        for width, own in trained.groupby("width")
    }


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each width; scores on a logarithmic axis, so that the floor shows."""
    panels, lengths = _lines(rows), ordered_lengths(rows["length"])
    figure = theme.figure(height=0.7 + 2.5 * math.ceil(len(panels) / 2))
    grid = figure.subplots(math.ceil(len(panels) / 2), 2, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, (width, lines) in zip(grid, panels.items(), strict=False):
        for name, line in lines.items():
            colour = tables.COLOURS.get(name, tables.COLOURS["reference"])
            tables.line(axes, line, colour=colour, by="place", linestyle=STYLES[name], label=NAMES.get(name, name))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xticks(range(len(lengths)), lengths)
        axes.set_title(f"width {width}")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[::2]:
        axes.set_ylabel(metric_label(rows))
    for axes in grid[-2:]:
        axes.set_xlabel("first tokens of a document")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: trained and random scores at each length and width, and the levels beside them."""
    parts = []
    for width, lines in _lines(rows).items():
        random = lines["random"].set_index("length")["value"] * PERCENT
        words = [
            f"{length}: trained {value * PERCENT:.2f}" + (f", random {random[length]:.2f}" if length in random else "")
            for length, value in lines["trained"].set_index("length")["value"].items()
        ]
        parts.append(f"width {width}, {'; '.join(words)}")
    for length in ordered_lengths(rows["length"]):
        found = references(rows[rows["length"] == length])["value"] * PERCENT
        words = [f"{NAMES.get(name, name)} {found[name]:.2f}" for name in ("bm25", "chance") if name in found]
        parts.append(f"no table, {length}: {', '.join(words)}")
    trained = pd.concat([lines["trained"] for lines in _lines(rows).values()])
    return (
        f"Lines of {metric_label(rows)} on a logarithmic axis against the number of first tokens of each document that "
        f"count, a panel for each width; over {tables.over(trained)}. {'. '.join(parts)}."
    )
