"""How the rows of the ladder's tables lie, before and after training: common direction and spread (I-16)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = ("suite", "model", "step", "width", "stratum", "scaling", "quantity", "value", "reference")
PANELS = {
    "mean_cosine": ("unit", "mean cosine of two rows"),
    "effective_rank": ("raw", "effective rank / columns"),
    "partition_isotropy": ("raw", "partition isotropy"),
}
STEPS = {"first": "before training", "last": "last table"}


def _ends(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """First and last table of each model, all rows together."""
    kept = rows[(rows["stratum"] == "all")].sort_values(["width", "step"], na_position="last", kind="stable")
    group = kept.groupby(["suite", "model"])["step"]
    return {"first": kept[kept["step"] == group.transform("min")], "last": kept[kept["step"] == group.transform("max")]}


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each measure, a line for the tables before training and one for the last."""
    ends = _ends(rows)
    figure = theme.figure(height=3.9)
    panels = figure.subplots(1, len(PANELS))
    for axes, (quantity, (scaling, title)) in zip(panels, PANELS.items(), strict=True):
        for (name, frame), colour, marker in zip(ends.items(), theme.CATEGORIES, "so", strict=False):
            line = frame[(frame["quantity"] == quantity) & (frame["scaling"] == scaling)]
            value = line["value"] / line["width"] if quantity == "effective_rank" else line["value"]
            axes.plot(line["width"], value, color=colour, marker=marker, label=STEPS[name])
        theme.log2_ticks(axes, rows["width"].tolist())
        axes.tick_params(axis="x", labelsize=9)
        axes.set_title(title, fontsize=10)
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    panels[1].set_xlabel("columns of the table")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each measure of the widest model before and after training."""
    ends = _ends(rows)
    parts = []
    for quantity, (scaling, title) in PANELS.items():
        words = []
        for name, frame in ends.items():
            line = frame[(frame["quantity"] == quantity) & (frame["scaling"] == scaling)].sort_values("width")
            value = line["value"].iloc[-1] / (line["width"].iloc[-1] if quantity == "effective_rank" else 1)
            words.append(f"{value:.2f} {STEPS[name]}")
        parts.append(f"{title}, {', '.join(words)}")
    return f"Lines by width for tables before and after training. At the largest width: {'; '.join(parts)}."
