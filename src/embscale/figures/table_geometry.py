"""Scores of tables with corrected geometry, beside random tables treated alike and token overlap alone."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import tables, theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import PERCENT, REFERENCE_NAMES, metric_label, treatment_label
from embscale.rows.selection import ladder_tables, references
from embscale.rows.treatments import INPUT, RANDOM

COLUMNS = (
    "suite", "model", "step", "width", "table", "treatment", "metric", "value", "ci_low", "ci_high", "runs", "n",
    "clusters",
)  # fmt: skip

# Treatments that change the geometry of a table or the weight of its rows.
KINDS = ("full", "unit", "centred", "all_but_top", "whitened", "sif", "idf")


def _lines(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Trained and random tables of the ladder's widths, with the kind of their treatment."""
    rows = rows.assign(kind=rows["treatment"].str.split(":").str[0])
    rows = rows[rows["kind"].isin(KINDS)]
    trained = ladder_tables(rows[rows["table"] == INPUT])
    if set(trained["kind"]) <= {"full"}:
        raise NothingToShow("No variant of this kind is among `scores.variants` of this study: **not run**.")
    random = rows[(rows["table"] == RANDOM) & rows["width"].isin(set(trained["width"]))]
    return {"trained": trained, "random": random.sort_values("width")}


def draw(rows: pd.DataFrame) -> Figure:
    """Left, trained tables by treatment and width; middle, random ones; right, what needs no table."""
    lines, levels = _lines(rows), references(rows)
    levels = levels.loc[[name for name in REFERENCE_NAMES if name in levels.index]]
    figure = theme.figure(height=6.2)
    *panels, last = figure.subplots(1, 3, sharey=True, width_ratios=[3, 3, 1.6])
    kinds = [kind for kind in KINDS if kind in set(lines["trained"]["kind"])]
    colours = theme.category_colours(kinds)
    for axes, (name, of_tables) in zip(panels, lines.items(), strict=True):
        style = "--" if name == "random" else "-"
        for number, (kind, shift) in enumerate(zip(kinds, tables.shifts(len(kinds)), strict=True)):
            line, words = of_tables[of_tables["kind"] == kind], treatment_label(kind)
            tables.line(
                axes, line, colour=colours[kind], shift=shift, marker=MARKERS[number], linewidth=1.2, linestyle=style,
                label=words,
            )  # fmt: skip
        theme.log2_ticks(axes, sorted(set(lines["trained"]["width"])))
        axes.set_title(f"{name} tables")
        axes.set_xlabel("width")
    panels[0].set_ylabel(metric_label(rows))
    places = levels.assign(place=range(len(levels)))
    tables.line(last, places, colour=theme.INK, by="place", marker="D", linestyle="none")
    last.set_xticks(range(len(levels)), [REFERENCE_NAMES[str(name)] for name in levels.index], rotation=90)
    last.set_ylim(bottom=0)  # of all panels, so after all are drawn
    last.set_xlim(-0.6, max(len(levels) - 0.4, 0.6))
    last.set_title("no table")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each treatment at the widest model, and what needs no table."""
    lines, levels = _lines(rows), references(rows)["value"] * PERCENT
    width = lines["trained"]["width"].max()
    parts = []
    for name, of_tables in lines.items():
        widest = of_tables[of_tables["width"] == width].set_index("kind")["value"] * PERCENT
        parts.append(
            f"{name}: " + ", ".join(f"{treatment_label(kind)} {widest[kind]:.2f}" for kind in KINDS if kind in widest)
        )
    others = ", ".join(f"{name} {levels[key]:.2f}" for key, name in REFERENCE_NAMES.items() if key in levels)
    return (
        f"Left and middle, lines of {metric_label(rows)} against width, one for each treatment, of trained and of "
        f"random tables; over {tables.over(lines['trained'])}. At width {width:.0f}, {'; '.join(parts)}. Right, without"
        f" any table: {others or 'not run'}."
    )
