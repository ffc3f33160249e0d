"""Retrieval score by columns: the ladder's tables beside static embeddings of the same tokens, and random tables."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import PERCENT, SUITE_NAMES, metric_label
from embscale.rows.selection import LADDER, last_checkpoint, random_band

COLUMNS = ("suite", "model", "step", "variant", "seed", "dim", "metric", "value", "ci_low", "ci_high")

PANELS = {"full": "as trained", "all_but_top": "two top components taken off"}
RANDOM = "random tables"


def lines(rows: pd.DataFrame, variant: str) -> dict[str, pd.DataFrame]:
    """Each suite's last tables by width, in one variant."""
    last = last_checkpoint(rows[rows["suite"].isin(list(SUITE_NAMES)) & (rows["variant"] == variant)])
    return {
        suite: last[last["suite"] == suite].sort_values("dim") for suite in SUITE_NAMES if suite in set(last["suite"])
    }


def _panels(rows: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
    panels = {variant: found for variant in PANELS if (found := lines(rows, variant))}
    if set(panels.get("full", {})) <= {LADDER}:
        raise NothingToShow("No static embeddings are part of this study: **not run**.")
    return panels


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each geometry, a line for each way to make a table, and the band of the random tables."""
    panels = _panels(rows)
    widest = max(int(line["dim"].max()) for found in panels.values() for line in found.values())
    band = random_band(rows).loc[lambda table: table.index <= widest]
    colours = theme.category_colours([*SUITE_NAMES, RANDOM])
    figure = theme.figure(height=4.6)
    axes_row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (variant, found) in zip(axes_row, panels.items(), strict=True):
        axes.fill_between(
            band.index, band["min"] * PERCENT, band["max"] * PERCENT, color=colours[RANDOM], alpha=0.15, linewidth=0
        )
        axes.plot(band.index, band["mean"] * PERCENT, color=colours[RANDOM], linestyle="--", label=RANDOM)
        for suite, line in found.items():
            value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
            marker = MARKERS[list(SUITE_NAMES).index(suite)]
            axes.errorbar(
                line["dim"],
                value,
                (value - low, high - value),
                color=colours[suite],
                marker=marker,
                label=SUITE_NAMES[suite],
            )
        theme.log2_ticks(axes, [dim for line in found.values() for dim in line["dim"]])
        axes.set_title(PANELS[variant])
        axes.set_xlabel("columns of the table")
    axes_row[0].set_ylim(bottom=0)  # when all is drawn: from here on the top stays, too
    axes_row[0].set_ylabel(metric_label(rows))
    handles, labels = axes_row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of every line."""
    parts = []
    for variant, found in _panels(rows).items():
        for suite, line in found.items():
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{SUITE_NAMES[suite]}, {PANELS[variant]}: {first['value'] * PERCENT:.2f} at {first['dim']:.0f} "
                f"columns, {last['value'] * PERCENT:.2f} at {last['dim']:.0f}"
            )
    band = random_band(rows)
    parts.append(
        f"random tables: {band['mean'].iloc[0] * PERCENT:.2f} at {band.index[0]:.0f} columns, "
        f"{band['mean'].iloc[-1] * PERCENT:.2f} at {band.index[-1]:.0f}"
    )
    return f"Lines of {metric_label(rows)} against the columns of the table. {'; '.join(parts)}."
