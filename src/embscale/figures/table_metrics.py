"""Geometry of tables against width: mean cosine, effective dimensions, outlier columns, norms."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.selection import is_last_checkpoint

COLUMNS = ("suite", "model", "step", "width", "stratum", "scaling", "quantity", "value", "reference")
MARKERS = "osD^vP*X"

# Quantity, scaling, name, and whether it is shown as a share of the width.
PANELS = (
    ("mean_cosine", "unit", "mean cosine of rows", False),
    ("participation_ratio", "raw", "participation ratio / width", True),
    ("effective_rank", "raw", "effective rank / width", True),
    ("variation_of_length", "raw", "spread of lengths / mean", False),
)


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Whole tables: the last of each model, and the first if it is from before training."""
    whole = rows[rows["stratum"] == "all"]
    kinds = pd.Series("between", index=whole.index).mask(whole["step"] == 0, "untrained")
    kinds = kinds.mask(is_last_checkpoint(whole), "trained")
    return whole.assign(kind=kinds)[kinds != "between"].sort_values(["suite", "width", "model"])


def _of(shown: pd.DataFrame, quantity: str, scaling: str, share: bool) -> pd.DataFrame:
    line = shown[(shown["quantity"] == quantity) & (shown["scaling"] == scaling)]
    over = line["width"] if share else 1
    return line.assign(value=line["value"] / over, reference=line["reference"] / over)


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each measure; lines of trained tables, dotted before training, dashed of Gaussian rows."""
    shown = _shown(rows)
    suites = list(dict.fromkeys(shown["suite"]))
    colours = theme.category_colours(suites)
    figure = theme.figure(height=7.2)
    for axes, (quantity, scaling, name, share) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        measures = _of(shown, quantity, scaling, share)
        for number, suite in enumerate(suites):
            shared = {"color": colours[suite], "marker": MARKERS[number % len(MARKERS)]}
            for kind, style in (("untrained", ":"), ("trained", "-")):
                line = measures[(measures["suite"] == suite) & (measures["kind"] == kind)]
                words = f"{suite}, {'trained' if kind == 'trained' else 'before training'}"
                hollow = {"markerfacecolor": "white"} if kind == "untrained" else {}
                if len(line):
                    axes.plot(line["width"], line["value"], linestyle=style, label=words, **shared, **hollow)
        reference = measures.groupby("width")["reference"].mean()
        axes.plot(reference.index, reference, color=theme.MUTED, linestyle="--", linewidth=1.2, label="Gaussian rows")
        theme.log2_ticks(axes, measures["width"].tolist())
        # Of many widths only some are named, or their names would lie on each other.
        ticks = axes.get_xticks()
        chosen = ticks[:: -(-len(ticks) // 6)]
        axes.set_xticks(chosen, [f"{tick:g}" for tick in chosen])
        if share:
            axes.set_ylim(0, 1.08)
        elif measures["value"].min() >= 0:
            axes.set_ylim(bottom=0)
        axes.set_title(name)
    for axes in figure.axes[2:]:
        axes.set_xlabel("columns of the table")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of every line of trained tables."""
    shown = _shown(rows)
    parts = []
    for quantity, scaling, name, share in PANELS:
        measures = _of(shown, quantity, scaling, share)
        for suite, line in measures[measures["kind"] == "trained"].groupby("suite", sort=False):
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{name}, {suite}: {first['value']:.3f} at {first['width']} columns, {last['value']:.3f} at "
                f"{last['width']} (Gaussian rows {last['reference']:.3f})"
            )
    return f"Lines against the width of the table, one for each suite. {'; '.join(parts)}."
