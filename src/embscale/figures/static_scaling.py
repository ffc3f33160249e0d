"""Retrieval score by columns: the ladder's tables beside static embeddings of the same tokens, and random tables."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow, theme
from embscale.figures.scaling import PERCENT, metric_label, random_band
from embscale.figures.suites import LADDER, MARKERS

COLUMNS = ("suite", "model", "step", "variant", "seed", "dim", "metric", "value", "ci_low", "ci_high")

SUITES = {
    LADDER: "language model",
    "ppmi-svd": "SVD of PPMI",
    "skip-gram": "skip-gram",
    "fasttext": "fastText",
    "cbow": "CBOW",
    "glove": "GloVe",
}
PANELS = {"full": "as trained", "all_but_top": "two top components taken off"}
RANDOM = "random tables"


def lines(rows: pd.DataFrame, variant: str) -> dict[str, pd.DataFrame]:
    """Each suite's last tables by width, in one variant."""
    chosen = rows[rows["suite"].isin(list(SUITES)) & (rows["variant"] == variant)]
    last = chosen.sort_values("step", na_position="first", kind="stable").groupby(["suite", "model"]).tail(1)
    return {suite: last[last["suite"] == suite].sort_values("dim") for suite in SUITES if suite in set(last["suite"])}


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
    colours = theme.category_colours([*SUITES, RANDOM])
    figure = theme.figure(height=4.6)
    several = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (variant, found) in zip(several, panels.items(), strict=True):
        axes.fill_between(
            band.index, band["min"] * PERCENT, band["max"] * PERCENT, color=colours[RANDOM], alpha=0.15, linewidth=0
        )
        axes.plot(band.index, band["mean"] * PERCENT, color=colours[RANDOM], linestyle="--", label=RANDOM)
        for suite, line in found.items():
            value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
            marker = MARKERS[list(SUITES).index(suite)]
            axes.errorbar(
                line["dim"],
                value,
                (value - low, high - value),
                color=colours[suite],
                marker=marker,
                label=SUITES[suite],
            )
        theme.log2_ticks(axes, [dim for line in found.values() for dim in line["dim"]])
        axes.set_title(PANELS[variant])
        axes.set_xlabel("columns of the table")
    several[0].set_ylim(bottom=0)  # when all is drawn: from here on the top stays, too
    several[0].set_ylabel(metric_label(rows))
    handles, labels = several[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of every line."""
    parts = []
    for variant, found in _panels(rows).items():
        for suite, line in found.items():
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{SUITES[suite]}, {PANELS[variant]}: {first['value'] * PERCENT:.2f} at {first['dim']:.0f} columns, "
                f"{last['value'] * PERCENT:.2f} at {last['dim']:.0f}"
            )
    band = random_band(rows)
    parts.append(
        f"random tables: {band['mean'].iloc[0] * PERCENT:.2f} at {band.index[0]:.0f} columns, "
        f"{band['mean'].iloc[-1] * PERCENT:.2f} at {band.index[-1]:.0f}"
    )
    return f"Lines of {metric_label(rows)} against the columns of the table. {'; '.join(parts)}."
