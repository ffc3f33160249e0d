"""Retrieval score by columns: the ladder's tables beside static embeddings of the same tokens, and random tables."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme, views
from embscale.plotting.theme import MARKERS
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, SUITE_NAMES, metric_label
from embscale.rows.selection import LADDER, last_checkpoint
from embscale.rows.treatments import FULL, INPUT, RANDOM, REFERENCE

COLUMNS = (
    *("suite", "model", "step", "table", "treatment", "width", "queries"),
    *("metric", "value", "ci_low", "ci_high", "runs", "n"),
)

PANELS = {FULL: "as trained", "idf": "rows weighted by idf"}
RANDOM_NAME = "random tables"
CHANCE = "chance"
GREY = "#6b6b6b"


def lines(rows: pd.DataFrame, treatment: str) -> dict[str, pd.DataFrame]:
    """Each suite's last tables by width, in one treatment; random tables, in the same, under `RANDOM_NAME`."""
    same = rows[rows["treatment"] == treatment]
    last = last_checkpoint(same[(same["table"] == INPUT) & same["suite"].isin(list(SUITE_NAMES))])
    found = {suite: last[last["suite"] == suite].sort_values("width") for suite in SUITE_NAMES}
    found = {suite: line for suite, line in found.items() if len(line)}
    widest = max((line["width"].max() for line in found.values()), default=0)
    random = same[(same["table"] == RANDOM) & (same["width"] <= widest)].sort_values("width")
    return found | ({RANDOM_NAME: random} if len(random) else {})


def _panels(rows: pd.DataFrame) -> dict[str, dict[str, pd.DataFrame]]:
    rows = rows[rows["queries"] == "all"]
    panels = {treatment: lines(rows, treatment) for treatment in PANELS}
    if set(panels[FULL]) <= {LADDER, RANDOM_NAME}:
        raise NothingToShow("No static embeddings are part of this study: **not run**.")
    return {treatment: found for treatment, found in panels.items() if set(found) - {RANDOM_NAME}}


def chance(rows: pd.DataFrame) -> float:
    """The expected score of a random ranking, or NaN if the rows do not have it."""
    found = rows[(rows["table"] == REFERENCE) & (rows["treatment"] == CHANCE) & (rows["queries"] == "all")]
    return float(found["value"].iloc[0]) if len(found) else float("nan")


def name_of(suite: str) -> str:
    """A suite, or the random tables, for readers."""
    return SUITE_NAMES.get(suite, suite)


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each treatment, a line for each way to make a table, random tables in the same treatment, chance."""
    panels = _panels(rows)
    colours = theme.category_colours(list(SUITE_NAMES)) | {RANDOM_NAME: GREY}
    figure = theme.figure(height=4.6)
    axes_row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (treatment, found) in zip(axes_row, panels.items(), strict=True):
        for suite, line in found.items():
            value, low, high = (line[c].to_numpy(float) * PERCENT for c in ("value", "ci_low", "ci_high"))
            if suite == RANDOM_NAME:
                axes.fill_between(line["width"].to_numpy(float), low, high, color=GREY, alpha=0.15, linewidth=0)
                axes.plot(line["width"], value, color=GREY, linestyle="--", label=suite)
                continue
            # Intervals side by side: lines of one width would hide each other.
            shift = 1.03 ** (list(SUITE_NAMES).index(suite) - len(SUITE_NAMES) / 2)
            axes.errorbar(
                line["width"].to_numpy(float) * shift,
                value,
                (value - low, high - value),
                color=colours[suite],
                marker=MARKERS[list(SUITE_NAMES).index(suite)],
                linewidth=1.5,
                label=name_of(suite),
            )
        axes.axhline(chance(rows) * PERCENT, color=theme.INK, linestyle=":", linewidth=1.2, label=CHANCE)
        theme.log2_ticks(axes, [width for line in found.values() for width in line["width"]])
        axes.set_title(PANELS[treatment])
        axes.set_xlabel("columns of the table")
    axes_row[0].set_ylim(bottom=0)  # when all is drawn: from here on the top stays, too
    axes_row[0].set_ylabel(metric_label(rows))
    handles, labels = axes_row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: how many static tables lie above random ones, then the ends of every line."""
    panels = _panels(rows)
    parts = [_verdict(panels[FULL])]
    for treatment, found in panels.items():
        for suite, line in found.items():
            ends = [line.iloc[0], line.iloc[-1]] if len(line) > 1 else [line.iloc[0]]
            values = ", ".join(f"{end['value'] * PERCENT:.2f} at {end['width']:.0f} columns" for end in ends)
            parts.append(f"{name_of(suite)}, {PANELS[treatment]}: {values}.")
    parts.append(f"Chance: {chance(rows) * PERCENT:.2f}.")
    return " ".join([*parts[:1], f"{metric_label(rows)} against the columns of the table.", *parts[1:]])


def _verdict(found: dict[str, pd.DataFrame]) -> str:
    """How many static tables, as trained, have their whole interval above the random tables of their width."""
    random = found.get(RANDOM_NAME)
    static = pd.concat([line for suite, line in found.items() if suite not in (LADDER, RANDOM_NAME)])
    if random is None:
        return f"{len(static)} static tables."
    means = static["width"].map(random.set_index("width")["value"])
    above, below = int((static["ci_low"] > means).sum()), int((static["ci_high"] < means).sum())
    return (
        f"Of {len(static)} static tables, {above} score above the random tables of their width and {below} below, "
        "by their 95 % intervals."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.scores(rows, suites=[suite for suite in _panels(rows)[FULL] if suite != RANDOM_NAME])
