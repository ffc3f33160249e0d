"""Tuning with equal effort: development scores by the value tried, and test scores of the chosen tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import PERCENT, SUITE_NAMES, metric_label
from embscale.rows.selection import LADDER
from embscale.rows.treatments import FULL, RANDOM, REFERENCE

# Of the rows of the tuning; those of the estimates, for the controls, have these and others.
COLUMNS = ("suite", "dim", "queries", "metric", "value", "ci_low", "ci_high", "n")

DEV, TEST = "dev", "test"
GREY = "#6b6b6b"
SETTINGS = {"learning_rate": "learning rate", "x_max": "x max"}


def _parts(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, float]:
    """Development scores, test scores, random tables of the same width (of all test queries), and chance."""
    if "tried" not in rows or rows["tried"].isna().all():
        raise NothingToShow("No method was tuned in this study: **not run**.")
    dev, test = rows[rows["queries"] == DEV], rows[rows["queries"] == TEST]
    all_queries = rows[rows["queries"] == "all"]
    random = all_queries.iloc[:0]
    level = float("nan")
    if "table" in rows:
        same = (all_queries["treatment"] == FULL) & (all_queries["dim"] == test["dim"].iloc[0])
        random = all_queries[(all_queries["table"] == RANDOM) & same]
        reference = all_queries[(all_queries["table"] == REFERENCE) & (all_queries["treatment"] == "chance")]
        level = float(reference["value"].iloc[0]) if len(reference) else level
    return dev, test, random, level


def _suites(dev: pd.DataFrame) -> list[str]:
    return [suite for suite in SUITE_NAMES if suite in set(dev["suite"])]


def _setting(dev: pd.DataFrame, suite: str) -> str:
    name = str(dev.loc[dev["suite"] == suite, "setting"].iloc[0])
    return SETTINGS.get(name, name.replace("_", " "))


def _grid(axes: Axes, tried: pd.DataFrame, colour: str, marker: str) -> None:
    """The scores of one method: a marker for each value, filled where chosen, a cross where training diverged."""
    tried = tried.sort_values("tried", ignore_index=True)
    values = tried["value"].to_numpy(float) * PERCENT
    axes.plot(tried.index, values, color=colour)
    for place, (value, chosen) in enumerate(zip(values, tried["chosen"].astype(str) == "True", strict=True)):
        if np.isnan(value):
            axes.plot([place], [0], color=colour, marker="x", linestyle="none")
        else:
            face = colour if chosen else "white"
            axes.plot([place], [value], color=colour, marker=marker, markerfacecolor=face, linestyle="none")
    axes.set_xticks(tried.index, [f"{value:g}" for value in tried["tried"]], fontsize=9)
    axes.set_xlim(-0.5, len(tried) - 0.5)


def _interval(value: float, low: float, high: float) -> str:
    """A score times 100, with its interval if it has one."""
    shown = f"{value * PERCENT:.2f}"
    return shown if np.isnan(low) else f"{shown} ({low * PERCENT:.2f} to {high * PERCENT:.2f})"


def draw(rows: pd.DataFrame) -> Figure:
    """Left, the grid of each method; right, the chosen tables on the test queries, with random tables and chance."""
    dev, test, random, level = _parts(rows)
    suites = _suites(dev)
    colours = theme.category_colours(list(SUITE_NAMES))
    figure = theme.figure(height=5.2)
    left, right = figure.subfigures(1, 2, width_ratios=[1.3, 1], squeeze=False)[0]
    columns = 2
    grid = left.subplots(-(-len(suites) // columns), columns, sharey=True, squeeze=False)
    for axes, suite in zip(grid.flat, suites, strict=False):
        _grid(axes, dev[dev["suite"] == suite], colours[suite], MARKERS[list(SUITE_NAMES).index(suite)])
        axes.set_title(SUITE_NAMES[suite], fontsize=11, pad=4)
        axes.set_xlabel(_setting(dev, suite), fontsize=10)
    for axes in list(grid.flat)[len(suites) :]:
        axes.set_visible(False)
    grid[0, 0].set_ylim(bottom=min(0, -0.04 * dev["value"].max() * PERCENT))
    left.supylabel(f"{metric_label(rows)}, development queries", fontsize=11)
    axes = right.subplots()
    ordered = test.set_index("suite").loc[suites].sort_values("value")
    for place, (suite, row) in enumerate(ordered.iterrows()):
        value, low, high = (row[name] * PERCENT for name in ("value", "ci_low", "ci_high"))
        marker = MARKERS[list(SUITE_NAMES).index(str(suite))]
        axes.errorbar([value], [place], xerr=([value - low], [high - value]), color=colours[str(suite)], marker=marker)
    if len(random):
        low, high = (float(random[name].iloc[0]) * PERCENT for name in ("ci_low", "ci_high"))
        axes.axvspan(low, high, color=GREY, alpha=0.15, linewidth=0)
        mean = float(random["value"].iloc[0]) * PERCENT
        axes.axvline(mean, color=GREY, linestyle="--", label="random tables")
    if not np.isnan(level):
        axes.axvline(level * PERCENT, color=theme.INK, linestyle=":", linewidth=1.2, label="chance")
    axes.set_yticks(range(len(ordered)), [SUITE_NAMES[str(suite)] for suite in ordered.index])
    axes.set_xlim(left=0)
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_xlabel(f"{metric_label(rows)},\ntest queries", fontsize=11)
    if axes.get_legend_handles_labels()[0]:
        right.legend(*axes.get_legend_handles_labels(), loc="outside upper center")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the order of the tuned methods, then each one's choice, scores, tokens and passes."""
    dev, test, random, level = _parts(rows)
    ordered = test.sort_values("value", ascending=False)
    best, worst = ordered.iloc[0], ordered.iloc[-1]
    parts = [
        f"After equal tuning, {SUITE_NAMES[best['suite']]} scores highest, {best['value'] * PERCENT:.2f}, and "
        f"{SUITE_NAMES[worst['suite']]} lowest, {worst['value'] * PERCENT:.2f} ({metric_label(rows)}, "
        f"{int(best['n']):,} test queries, tables of {int(best['dim'])} columns, one training each)."
    ]
    if len(random):
        parts.append(f"Random tables of that width: {random['value'].iloc[0] * PERCENT:.2f}.")
    if not np.isnan(level):
        parts.append(f"Chance: {level * PERCENT:.2f}.")
    for row in ordered.itertuples(index=False):
        tried = dev[dev["suite"] == row.suite].sort_values("tried")
        scores = ", ".join(
            f"{one.tried:g}: " + ("diverged" if np.isnan(one.value) else f"{one.value * PERCENT:.2f}")
            for one in tried.itertuples(index=False)
        )
        parts.append(
            f"{SUITE_NAMES[row.suite]}: {_setting(dev, row.suite)} {row.tried:g} chosen ({scores} on development "
            f"queries), test score {_interval(row.value, row.ci_low, row.ci_high)}; "
            f"{int(row.tokens_seen):,} tokens, {row.epochs:g} {'pass' if row.epochs == 1 else 'passes'}."
        )
        if row.suite == LADDER:
            losses = ", ".join(f"{one.tried:g}: {one.heldout_loss:.2f}" for one in tried.itertuples(index=False))
            parts.append(f"Held-out loss of the language model in nats by learning rate: {losses}.")
    return " ".join(parts)
