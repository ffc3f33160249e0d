"""Trained less random tables of the same width along training, by tokens seen (Corey, "tables learn early")."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.answers.crossings import crossing
from embscale.answers.words import tokens_label
from embscale.plotting import tables, theme, tokens, views
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import LADDER
from embscale.rows.treatments import FULL, RANDOM

COLUMNS = (
    "study", "suite", "model", "width", "tokens", "treatment", "against", "metric", "value", "ci_low", "ci_high",
    "runs", "n", "clusters",
)  # fmt: skip


def _lines(rows: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    shown = rows[(rows["suite"] == LADDER) & (rows["treatment"] == FULL) & (rows["against"] == RANDOM)]
    return [(int(width), line.sort_values("tokens")) for width, line in shown.groupby("width")]


def _crossing(line: pd.DataFrame) -> float:
    return float(crossing(line["tokens"].to_numpy(), line["value"].to_numpy()))


def draw(rows: pd.DataFrame) -> Figure:
    """A line with its band for each width, from the untrained table on; a ring where it passes zero for good.

    A panel for each study, that of the report first.
    """
    studies = list(dict.fromkeys(rows["study"]))
    figure = theme.figure(height=4.6)
    panels = figure.subplots(1, len(studies), sharey=True, squeeze=False)[0]
    for axes, study in zip(panels, studies, strict=True):
        _panel(axes, _lines(rows[rows["study"] == study]))
        if len(studies) > 1:
            axes.set_title(f"study {study}", fontsize=11)
    panels[0].set_ylabel(f"trained less random, {metric_label(rows)}")
    return figure


def _panel(axes: Axes, lines: list[tuple[int, pd.DataFrame]]) -> None:
    seen = sorted({float(value) for _, line in lines for value in line["tokens"]})
    first = tokens.axis(axes, seen, zero=seen[0] == 0)
    axes.axhline(0, color=theme.INK, linewidth=1)
    labels = []
    for number, (colour, (width, line)) in enumerate(zip(theme.ordered_colours(len(lines)), lines, strict=True)):
        after = line[line["tokens"] > 0]
        low, high = (after[name].to_numpy(float) * PERCENT for name in ("ci_low", "ci_high"))
        axes.fill_between(after["tokens"], low, high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(after["tokens"], after["value"] * PERCENT, color=colour, marker="o", markersize=3.5)
        before = line[line["tokens"] == 0].assign(place=tokens.place([0], first)[0])
        if len(before):
            tables.line(axes, before, colour=colour, by="place", shift=(number - (len(lines) - 1) / 2) / 8)
        if 0 < (crossed := _crossing(line)) < np.inf:
            axes.plot(crossed, 0, marker="o", markersize=9, markerfacecolor="white", color=colour, zorder=5)
        labels.append(
            (float(after["tokens"].iloc[-1]), float(after["value"].iloc[-1]) * PERCENT, f"width {width}", colour)
        )
    theme.end_labels(axes, labels)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends of each line, its lowest point and its crossing."""
    studies = list(dict.fromkeys(rows["study"]))
    panels = [_described(_lines(rows[rows["study"] == study])) for study in studies]
    over = tables.over(pd.concat([line for _, line in _lines(rows)]))
    found = (
        panels[0] if len(studies) == 1 else " ".join(f"Study {s}: {p}" for s, p in zip(studies, panels, strict=True))
    )
    return (
        f"Lines of {metric_label(rows)} of each width's table less that of random tables of its width, against the "
        f"tokens of training on a logarithmic axis, with 95 % bands; over {over}. {found}"
    )


def _described(lines: list[tuple[int, pd.DataFrame]]) -> str:
    parts = []
    for width, line in lines:
        last, lowest = line.iloc[-1], line.loc[line["value"].idxmin()]
        text = f"width {width}: "
        if line["tokens"].iloc[0] == 0:
            text += f"{line['value'].iloc[0] * PERCENT:+.2f} before training, "
        if 0 < lowest["tokens"] < last["tokens"]:
            text += f"{lowest['value'] * PERCENT:+.2f} at its lowest after {tokens_label(lowest['tokens'])} tokens, "
        text += f"{last['value'] * PERCENT:+.2f} after {tokens_label(last['tokens'])} tokens"
        parts.append(f"{text}; {_words(_crossing(line))}")
    return f"{'. '.join(parts)}."


def _words(crossed: float) -> str:
    if np.isinf(crossed):
        return "not above random tables at the end"
    return f"above random tables for good after {tokens_label(crossed)} tokens" if crossed else "above from the start"


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.differences(rows, suites=[LADDER], x="tokens")
