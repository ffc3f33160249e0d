"""Scores of queries whose documents were trained on, and of those whose documents were held out."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import tables, theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import ladder_tables
from embscale.rows.treatments import FULL, RANDOM

COLUMNS = (
    "suite", "model", "step", "width", "treatment", "against", "queries", "metric", "score", "control_score", "value",
    "ci_low", "ci_high", "runs", "n", "clusters",
)  # fmt: skip
HELDOUT, SEEN = "heldout", "trained on"
NAMES = {SEEN: "documents trained on", HELDOUT: "documents held out"}
COLOURS = {SEEN: tables.COLOURS["trained"], HELDOUT: tables.COLOURS["untrained"]}


def _lines(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    last = ladder_tables(rows[(rows["treatment"] == FULL) & (rows["against"] == RANDOM)])
    lines = {queries: last[last["queries"] == queries] for queries in NAMES}
    if any(line.empty for line in lines.values()):
        raise NothingToShow("No query of this study is of held-out documents alone: **not run**.")
    return lines


def draw(rows: pd.DataFrame) -> Figure:
    """Above, the scores of trained and random tables; below, trained less random, with 95 % intervals."""
    lines = _lines(rows)
    figure = theme.figure(height=5.6)
    above, below = figure.subplots(2, 1, sharex=True)
    below.axhline(0, color=theme.INK, linewidth=1)
    for (queries, line), shift in zip(lines.items(), tables.shifts(len(lines)), strict=True):
        colour = COLOURS[queries]
        for column, name, style in (("score", "trained", "-"), ("control_score", "random", "--")):
            scores = pd.to_numeric(line[column]) * PERCENT
            above.plot(
                line["width"], scores, color=colour, linestyle=style, marker="o", label=f"{NAMES[queries]}, {name}"
            )
        tables.line(below, line, colour=colour, shift=shift)
    theme.log2_ticks(below, sorted(set(line["width"])))
    above.set_ylim(bottom=0)
    above.set_title("score")
    above.set_ylabel(metric_label(rows))
    below.set_title("trained less random")
    below.set_ylabel("difference, × 100")
    below.set_xlabel("width of the model")
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends."""
    parts = []
    for queries, line in _lines(rows).items():
        ends = [
            f"{row['score'] * PERCENT:.2f} at width {row['width']:.0f}, {row['value'] * PERCENT:+.2f} against random"
            for _, row in line.iloc[[0, -1]].iterrows()
        ]
        parts.append(f"{NAMES[queries]} ({tables.over(line)}): {'; '.join(ends)}")
    return (
        f"Lines of {metric_label(rows)} by width for queries by whether their documents were trained on; above scores, "
        f"below trained less random tables. {'. '.join(parts)}."
    )
