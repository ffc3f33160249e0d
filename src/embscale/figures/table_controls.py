"""Trained tables less their controls at equal width and treatment: random, untrained and shuffled tables."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import tables, theme, views
from embscale.plotting.theme import MARKERS
from embscale.plotting.views import View
from embscale.rows.labels import PERCENT, metric_label, treatment_label
from embscale.rows.selection import LADDER, ladder_tables

COLUMNS = (
    "suite", "model", "step", "width", "treatment", "against", "metric", "value", "ci_low", "ci_high", "runs", "n",
    "clusters",
)  # fmt: skip

# Treatments that change neither the number of columns nor the number format.
KINDS = ("full", "unit", "centred", "all_but_top", "whitened", "sif", "idf")
PANELS = {
    "random": "trained less random tables",
    "untrained": "trained less the same tables before training",
    "shuffled": "trained less the same rows, given to other tokens",
}


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    kinds = rows["treatment"].str.split(":").str[0]
    last = ladder_tables(rows[kinds.isin(KINDS) & rows["against"].isin(list(PANELS))])
    if last.empty:
        raise NothingToShow("No trained table of this study has a control: **not run**.")
    return last.assign(kind=kinds[last.index])


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each control, a line for each treatment of both sides."""
    shown = _shown(rows)
    panels = [against for against in PANELS if against in set(shown["against"])]
    kinds = [kind for kind in KINDS if kind in set(shown["kind"])]
    colours = theme.category_colours(kinds)
    figure = theme.figure(height=1.0 + 2.6 * len(panels))
    for axes, against in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        axes.axhline(0, color=theme.INK, linewidth=1)
        for number, (kind, shift) in enumerate(zip(kinds, tables.shifts(len(kinds)), strict=True)):
            line = shown[(shown["against"] == against) & (shown["kind"] == kind)]
            name = treatment_label(kind)
            tables.line(
                axes, line, colour=colours[kind], shift=shift, marker=MARKERS[number], linewidth=1.2, label=name
            )
        theme.log2_ticks(axes, sorted(set(shown["width"])))
        axes.set_title(PANELS[against])
        axes.set_ylabel("difference, × 100")
    axes.set_xlabel(f"width of the model; differences of {metric_label(rows)}")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each difference at the widest model."""
    shown = _shown(rows)
    widest = shown[shown["width"] == shown["width"].max()]
    parts = []
    for against, title in PANELS.items():
        of_control = widest[widest["against"] == against].set_index("kind")["value"] * PERCENT
        words = [f"{treatment_label(kind)} {of_control[kind]:+.2f}" for kind in KINDS if kind in of_control]
        parts += [f"{title}: {', '.join(words)}"] if words else []
    return (
        f"Differences of {metric_label(rows)} by width, a panel for each control, a line for each treatment of both "
        f"tables; over {tables.over(shown)}. At width {int(widest['width'].iloc[0])}, {'; '.join(parts)}."
    )


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    shown = _shown(rows)
    return views.differences(shown, suites=[LADDER], variants=list(dict.fromkeys(shown["treatment"])), x="width")
