"""How near a word's two forms are by how often they occur: what tables know about rare words."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import SUITE_NAMES, ordered_suites
from embscale.rows.selection import widest_tables
from embscale.scoring.words import BANDS, TWO_FORMS

COLUMNS = (
    "suite", "model", "step", "variant", "dim", "probe", "set", "section", "form", "metric", "value", "ci_low",
    "ci_high", "n", "random_low", "random_high", "chance",
)  # fmt: skip


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Percentiles by band of frequency, of the widest last table of each suite."""
    asked = rows[(rows["set"] == TWO_FORMS) & (rows["metric"] == "percentile") & rows["section"].isin(BANDS)]
    shown = widest_tables(asked[(asked["variant"] == "full") & (asked["n"] > 0)])
    if shown.empty:
        raise NothingToShow(
            "No word is one token in both forms in this study's tokenizers, so there is nothing to draw."
        )
    return shown


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each suite over three bands of frequency; in grey, chance and random tables."""
    shown = _shown(rows)
    suites = ordered_suites(shown)
    colours = theme.category_colours(suites)
    bands = [band for band in BANDS if band in set(shown["section"])]
    figure = theme.figure(height=4.6)
    axes = figure.subplots()
    by_band = shown.groupby("section")
    low, high = by_band["random_low"].min()[bands], by_band["random_high"].max()[bands]
    places = np.arange(len(bands))
    axes.fill_between(places, low, high, color=theme.MUTED, alpha=0.25, linewidth=0, label="random tables")
    axes.axhline(shown["chance"].iloc[0], color=theme.MUTED, linewidth=1.2)
    for number, suite in enumerate(suites):
        line = shown[shown["suite"] == suite].set_index("section").loc[bands]
        value, below, above = (line[name].to_numpy() for name in ("value", "ci_low", "ci_high"))
        axes.errorbar(
            places + 0.05 * (number - (len(suites) - 1) / 2),
            value,
            (np.maximum(value - below, 0), np.maximum(above - value, 0)),
            color=colours[suite],
            marker=MARKERS[number % len(MARKERS)],
            label=SUITE_NAMES.get(suite, suite),
        )
    counts = by_band["n"].max()[bands]
    axes.set_xticks(places, [f"{band} ({count})" for band, count in zip(bands, counts, strict=True)])
    axes.set_xlabel("words by how often the rarer form occurs (pairs)")
    axes.set_ylabel("share of other words that are farther")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _interval(row: pd.Series) -> str:
    return f"{row['ci_low']:.2f} to {row['ci_high']:.2f}" if pd.notna(row["ci_low"]) else "no interval"


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: rare and frequent words for every suite."""
    shown = _shown(rows)
    parts = []
    for suite in ordered_suites(shown):
        line = shown[shown["suite"] == suite].set_index("section")
        values = ", ".join(
            f"{band} {line['value'][band]:.2f} ({_interval(line.loc[band])})" for band in BANDS if band in line.index
        )
        parts.append(f"{SUITE_NAMES.get(suite, suite)}: {values}")
    return (
        "Lines over three bands of frequency for each suite's widest last table: the share of other words that are "
        "farther from a word than its other form, with or without a space before it; 0.50 by chance. With 95 % "
        f"intervals. {'; '.join(parts)}."
    )
