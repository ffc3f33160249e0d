"""What each suite's widest table knows about words: nearness of what belongs together, and the geometry of degrees."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import SUITE_NAMES, ordered_suites
from embscale.rows.selection import widest_tables
from embscale.scoring.words import OWN
from embscale.statistics.shared_units import FEWEST

COLUMNS = (
    "suite", "model", "step", "variant", "dim", "probe", "set", "section", "form", "metric", "value", "ci_low",
    "ci_high", "n", "units", "unit", "random_low", "random_high", "chance",
)  # fmt: skip

FORM = "space"  # the form in which most words stand in a text
DEGREES = {
    "collinearity": "cosine of the two steps",
    "in_order": "comparative in the middle",
    "lengths_rise": "lengths rise",
    "addition_gain": "gain by an offset",
    "multiplication_gain": "gain by a factor",
}
PROBES = {"analogy": "analogy", "relation": "pair"}


def _shown(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the widest last table of each suite: percentiles, and degrees, with a label each."""
    own = rows[(rows["set"] == OWN) & (rows["form"] == FORM) & (rows["variant"] == "full") & (rows["n"] > 0)]
    shown = widest_tables(own)
    near = shown[(shown["metric"] == "percentile") & shown["probe"].isin(list(PROBES)) & (shown["section"] != "all")]
    near = near.assign(label=near["probe"].map(PROBES) + ": " + near["section"])
    degrees = shown[(shown["probe"] == "degree") & shown["metric"].isin(list(DEGREES)) & shown["value"].notna()]
    degrees = degrees.assign(label=degrees["metric"].map(DEGREES))
    if near.empty:
        raise NothingToShow(
            "No word of the probes is one token in this study's tokenizer, so there is nothing to draw."
        )
    return near, degrees


def _labels(rows: pd.DataFrame) -> list[str]:
    """In the order of the rows, with the number of units of the first table that has them."""
    return [f"{row.label} ({row.units})" for row in rows.drop_duplicates("label").itertuples()]


def _panel(axes: Axes, rows: pd.DataFrame, suites: list[str]) -> None:
    colours = theme.category_colours(suites)
    order = {label: place for place, label in enumerate(rows["label"].drop_duplicates())}
    first = rows.drop_duplicates("label")
    for row in first.itertuples():
        place = order[row.label]
        same = rows[rows["label"] == row.label]
        low, high = same["random_low"].min(), same["random_high"].max()
        axes.barh(place, high - low, left=low, height=0.8, color=theme.MUTED, alpha=0.25, linewidth=0)
        axes.plot([row.chance] * 2, [place - 0.4, place + 0.4], color=theme.MUTED, linewidth=1.2)
    for number, suite in enumerate(suites):
        of_suite = rows[rows["suite"] == suite]
        shift = 0.7 * ((number + 0.5) / len(suites) - 0.5)
        value, low, high = (of_suite[name].to_numpy() for name in ("value", "ci_low", "ci_high"))
        axes.errorbar(
            value,
            of_suite["label"].map(order) + shift,
            xerr=(np.maximum(value - low, 0), np.maximum(high - value, 0)),
            color=colours[suite],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4.5,
            linestyle="none",
            linewidth=1.1,
            label=SUITE_NAMES.get(suite, suite),
        )
    axes.set_yticks(range(len(order)), _labels(rows))
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def draw(rows: pd.DataFrame) -> Figure:
    """Above, the share of other words that are farther; below, degrees; in grey, chance and random tables."""
    near, degrees = _shown(rows)
    suites = ordered_suites(near)
    counts = [near["label"].nunique(), max(degrees["label"].nunique(), 1)]
    figure = theme.figure(height=1.9 + 0.42 * sum(counts))
    if degrees.empty:
        panels = [figure.subplots()]
    else:
        panels = list(figure.subplots(2, 1, height_ratios=counts))
        _panel(panels[1], degrees, suites)
        panels[1].set_xlabel("cosine, difference of cosines, or share")
        panels[1].set_title("a word and its two degrees")
        panels[1].locator_params(axis="x", nbins=6)
    _panel(panels[0], near, suites)
    panels[0].set_xlim(left=0, right=1.01)
    panels[0].set_xlabel("share of other words that are farther")
    panels[0].set_title("analogies and related pairs")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: means of analogies and pairs for every suite, and the degrees' collinearity."""
    near, degrees = _shown(rows)
    parts = []
    for suite in ordered_suites(near):
        of = near[near["suite"] == suite].groupby("probe")["value"].mean()
        text = f"{SUITE_NAMES.get(suite, suite)}: " + ", ".join(
            f"{PROBES[probe]} {value:.2f}" for probe, value in of.items()
        )
        steps = degrees[(degrees["suite"] == suite) & (degrees["metric"] == "collinearity")]["value"]
        parts.append(text + (f", cosine of the steps of degrees {steps.iloc[0]:.2f}" if len(steps) else ""))
    return (
        "Points with 95 % intervals over the pairs or triples of words, whose number is in brackets, for each probe "
        f"and suite, where there are {FEWEST} or more; beside chance and the range of random tables. Mean share "
        f"of other words that are farther than the one expected, 0.50 by chance. {'; '.join(parts)}."
    )
