"""How many tokens of training it takes until trained tables stay above random ones, by width."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.answers.crossings import ALL_RUNS, CROSSED, NOT_BEFORE
from embscale.answers.words import crossing_label, tokens_label, variation
from embscale.figures import NothingToShow
from embscale.plotting import tables, theme, tokens
from embscale.rows.selection import LADDER
from embscale.rows.treatments import RANDOM

COLUMNS = (
    "suite", "width", "run", "status", "tokens", "ci_low", "ci_high", "median", "crossed_runs", "runs", "n", "clusters",
    "last_tokens", "against",
)  # fmt: skip
STYLES = (("-", "o"), ("--", "s"), (":", "D"), ("-.", "^"))


def _suites(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The ladder, and variations of more than one width."""
    rows = rows[rows["against"] == RANDOM]
    if not (rows.loc[rows["run"] == ALL_RUNS, "status"] == CROSSED).any():
        last = tokens_label(rows["last_tokens"].max())
        raise NothingToShow(
            f"In {last} tokens of training, no mean curve of this study crosses that of random tables for good."
        )
    found = {str(suite): group for suite, group in rows.groupby("suite", sort=False)}
    return {suite: group for suite, group in found.items() if suite == LADDER or len(set(group["width"])) > 1}


def draw(rows: pd.DataFrame) -> Figure:
    """A point with its interval for each width and its runs beside it; an arrow where there is no upper end."""
    suites = _suites(rows)
    figure = theme.figure(height=4.2)
    axes = figure.subplots()
    axes.set_yscale("log")
    colours = theme.category_colours(list(suites))
    for number, (suite, group) in enumerate(suites.items()):
        style = STYLES[number % len(STYLES)]
        _suite(axes, group, colours[suite], style, shift=2 ** ((number - (len(suites) - 1) / 2) / 6), name=suite)
    theme.log2_ticks(axes, sorted(set(rows["width"])))
    low, high = axes.get_ylim()
    ticks = [factor * 10.0**power for power in range(2, 12) for factor in (1, 3)]
    ticks = [tick for tick in ticks if low <= tick <= high] or [float(rows["last_tokens"].max())]
    axes.set_yticks(ticks, [tokens.label(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_xlabel("width of the model (columns of its table)")
    axes.set_ylabel("tokens until above random tables")
    if len(suites) > 1:
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(suites))
    return figure


def _suite(axes: Axes, group: pd.DataFrame, colour: str, style: tuple[str, str], *, shift: float, name: str) -> None:
    whole = group[group["run"] == ALL_RUNS].sort_values("width")
    x, y = whole["width"].to_numpy(float) * shift, whole["tokens"].to_numpy(float)
    low, high = (whole[end].to_numpy(float) for end in ("ci_low", "ci_high"))
    last = whole["last_tokens"].to_numpy(float)
    known = (whole["status"] != NOT_BEFORE).to_numpy()
    label = "ladder" if name == LADDER else variation(name)
    axes.plot(x[known], y[known], color=colour, linestyle=style[0], marker=style[1], markersize=7, label=label)
    axes.plot(x[~known], y[~known], color=colour, linestyle="none", marker=style[1], markersize=7, mfc="white")
    if not known.any():
        axes.plot([], [], color=colour, linestyle=style[0], marker=style[1], markersize=7, mfc="white", label=label)
    open_ended = ~np.isfinite(high) & np.isfinite(low)
    top = np.where(open_ended, last, high)
    bottom = np.where(low > 0, low, y / 4)  # an end at 0 has no place on the axis
    shown = np.isfinite(low)
    axes.vlines(x[shown], bottom[shown], np.maximum(top, y)[shown], color=colour, linewidth=1.4)
    for place in np.flatnonzero(open_ended):
        axes.annotate("", (x[place], last[place] * 1.5), (x[place], last[place]),
                      arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.4})  # fmt: skip
    axes.plot(x[open_ended], last[open_ended] * 1.6, alpha=0)  # room for the arrows
    of_runs = group[(group["run"] != ALL_RUNS) & (group["status"] == CROSSED)]
    axes.plot(of_runs["width"] * shift * 1.07, of_runs["tokens"], color=colour, marker=".", linestyle="none")


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with every number."""
    parts = []
    for suite, group in _suites(rows).items():
        for row in group[group["run"] == ALL_RUNS].sort_values("width").to_dict("records"):
            name = "ladder" if suite == LADDER else variation(suite)
            parts.append(
                f"{name}, width {row['width']}: {crossing_label(row)}, {row['crossed_runs']} of {row['runs']} runs"
            )
    over = tables.over(rows[rows["run"] == ALL_RUNS])
    return (
        "Tokens of training until trained tables stay above random ones, on a logarithmic axis against the width, with "
        f"95 % intervals; an arrow where there is no upper end, small dots for single runs; {over}. {'; '.join(parts)}."
    )
