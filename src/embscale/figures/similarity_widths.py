"""How alike the last tables of different widths and of different seeds are."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.plotting.compared import MEASURES, over
from embscale.rows.selection import LADDER

COLUMNS = (
    "suite", "about", "relation", "table", "quantity", "width", "other_width", "step", "value", "ci_low", "ci_high",
    "raw", "chance", "runs", "n",
)  # fmt: skip

# Darker cells have white words.
DARK = 0.6


def _cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Last input tables of two widths, or of two seeds of one width, the wider first."""
    own = rows[(rows["suite"] == LADDER) & (rows["table"] == "input") & rows["relation"].isin(["seeds", "widths"])]
    own = own[own["step"] == own.groupby("width")["step"].transform("max")]
    if own.empty:
        raise NothingToShow("Tables of two runs are needed to compare them; this study has one run: **not run**.")
    pair = own[["width", "other_width"]]
    return own.assign(narrow=pair.min(axis=1), wide=pair.max(axis=1)).sort_values(["quantity", "wide", "narrow"])


def draw(rows: pd.DataFrame) -> Figure:
    """A triangle of cells for each measure; the diagonal is between seeds of one width."""
    cells = _cells(rows)
    widths = sorted({*cells["narrow"], *cells["wide"]})
    figure = theme.figure(height=4.2)
    for axes, (measure, name) in zip(figure.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        _triangle(axes, cells[cells["quantity"] == measure], widths)
        axes.set_title(name)
        axes.set_xlabel("width")
    figure.axes[0].set_ylabel("width")
    return figure


def _triangle(axes: Axes, cells: pd.DataFrame, widths: list[float]) -> None:
    grid = cells.pivot_table(index="wide", columns="narrow", values="value").reindex(index=widths, columns=widths)
    axes.imshow(grid, cmap="Blues", vmin=0, vmax=1)
    for row, of_wide in enumerate(grid.to_numpy()):
        for column, value in enumerate(of_wide):
            if pd.notna(value):
                colour = "white" if value > DARK else theme.INK
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=11)
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(range(len(widths)), [f"{width:.0f}" for width in widths])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: every cell, with its interval where it has one, and the value before calibration."""
    cells = _cells(rows)
    parts = []
    for measure, name in MEASURES.items():
        words = [_words(row) for _, row in cells[cells["quantity"] == measure].iterrows()]
        parts.append(f"{name}: {', '.join(words)}")
    return (
        f"Two triangles of cells, the similarity of last tables by their widths, from 0, chance, to 1; over "
        f"{over(cells)} and {int(cells['n'].max()):,} tokens. {'; '.join(parts)}."
    )


def _words(row: pd.Series) -> str:
    pair = f"seeds of width {row['wide']:.0f}" if row["relation"] == "seeds" else f"{row['narrow']:.0f} and "
    pair += "" if row["relation"] == "seeds" else f"{row['wide']:.0f}"
    interval = "" if pd.isna(row["ci_low"]) else f" [{row['ci_low']:.2f}, {row['ci_high']:.2f}]"
    return f"{pair} {row['value']:.2f}{interval} (raw {row['raw']:.3f}, chance {row['chance']:.3f})"
