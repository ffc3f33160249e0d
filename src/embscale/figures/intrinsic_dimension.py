"""Intrinsic dimension of tables by training step, beside random tables of the same width."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import compared, steps, theme
from embscale.rows.selection import LADDER

COLUMNS = ("suite", "about", "table", "quantity", "width", "step", "value", "ci_low", "ci_high", "runs", "n")


def _parts(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Input tables by step, and random tables by width."""
    own = rows[(rows["suite"] == LADDER) & (rows["about"] == "dimension")]
    tables = own[own["table"] == "input"]
    if tables.empty:
        raise NothingToShow("Tables of the ladder are needed: **not run**.")
    return tables, own[own["table"] == "random"].sort_values("width")


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each width, dashed at the dimension of random tables of that width."""
    tables, random = _parts(rows)
    colours, places = compared.width_colours(tables), steps.places(tables["step"])
    figure = theme.figure(height=4.8)
    axes = figure.subplots()
    labels = compared.by_step(axes, tables, places, colours)
    for row in random.itertuples():
        across = [min(places.values()), max(places.values())]
        axes.plot(across, [row.value] * 2, color=colours[row.width], linestyle="--", linewidth=1.2)
    axes.set_yscale("log", base=2)
    values = [*tables["value"], *random["value"]]
    ticks = [tick for tick in (1, 2, 4, 8, 16, 32, 64, 128, 256) if min(values) / 2 < tick < max(values) * 2]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_ylim(0.8 * min(values), 1.25 * max(values))
    axes.set_xlabel("training step")
    axes.set_ylabel("TwoNN dimension of the rows")
    theme.end_labels(axes, [(x, y, f"width {name}", theme.INK) for x, y, name, _ in labels])
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: first and last value of each width with their intervals, and the random tables'."""
    tables, random = _parts(rows)
    of_random = random.set_index("width")["value"]
    parts = []
    for width, line in tables.sort_values("step").groupby("width"):
        first, last = line.iloc[0], line.iloc[-1]
        parts.append(
            f"width {width:.0f}: {first['value']:.1f} [{first['ci_low']:.1f}, {first['ci_high']:.1f}] at step "
            f"{first['step']:.0f}, {last['value']:.1f} [{last['ci_low']:.1f}, {last['ci_high']:.1f}] at step "
            f"{last['step']:.0f}, random tables {of_random[width]:.1f}"
        )
    return (
        f"Lines of the TwoNN dimension of tables against the training step, one for each width, and dashed that of "
        f"random tables; over {compared.over(tables)} and {int(tables['n'].max()):,} rows. {'; '.join(parts)}."
    )
