"""The look that all figures share: sizes, colours, labels, and files with the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

# The report's column is 680 px wide, and an inch of SVG is 96 px.  Text of 12 pt is 16 px there, and
# still 8.5 px on a phone of 360 px.
PAGE_WIDTH = 680 / 96

INK = "#222222"
MUTED = "#6b6b6b"
FAINT = "#e4e4e4"

# Okabe and Ito's colours, distinguishable with any colour vision; yellow is too pale for lines on white.
CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

# Of what is drawn as pixels inside an SVG, which are clouds of points; finer ones would be most of the page.
RASTER_DPI = 110

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 12,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "errorbar.capsize": 0,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 11,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "embscale",
    "text.color": INK,
    "text.parse_math": False,  # names of models are words, whatever is in them
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 11,
    "xtick.minor.size": 0,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 11,
    "ytick.minor.size": 0,
}


def figure(*, height: float, width: float = PAGE_WIDTH) -> Figure:
    """An empty figure in the common style, its sizes in inches.

    The style is set for the whole process, because matplotlib looks it up whenever a part is added.
    """
    matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; an SVG holds neither time nor random names, so equal figures have equal bytes."""
    matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
    if path.suffix == ".svg":
        figure.savefig(path, metadata={"Date": None}, dpi=RASTER_DPI)
    else:
        figure.savefig(path)


def category_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, in the order given; they repeat after seven."""
    return {name: CATEGORIES[i % len(CATEGORIES)] for i, name in enumerate(names)}


def ordered_colours(count: int, *, colour_map: str = "viridis") -> list[str]:
    """Colours for things that have an order (layers, widths), dark to light; the palest are left out."""
    shades = np.linspace(0.0, 0.86, count) if count > 1 else np.array([0.35])
    return [matplotlib.colors.to_hex(colour) for colour in matplotlib.colormaps[colour_map](shades)]


def log2_ticks(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic x axis to base 2 whose ticks are the values themselves."""
    distinct = sorted(set(values))
    axes.set_xscale("log", base=2)
    axes.set_xticks(distinct, [f"{value:g}" for value in distinct])
    axes.set_xticks([], minor=True)
    # A margin in doublings, so that a single value has one too.
    axes.set_xlim(distinct[0] / 2**0.35, distinct[-1] * 2**0.35)


def end_labels(
    axes: Axes, labels: Sequence[tuple[float, float, str, str]], *, gap: float = 13.0, offset: float = 8.0
) -> list[Annotation]:
    """Names to the right of lines' ends, moved apart where they would overlap.

    Call it last, when the limits of the axes are final.

    Args:
        axes: where the lines are.
        labels: x, y, text and colour of each.
        gap: least vertical distance of two labels in points.
        offset: distance to the end of the line in points.
    """
    if not labels:
        return []
    order = np.argsort([label[1] for label in labels], kind="stable")
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    # Two passes: the layout fixes the size of the axes only once the labels are there.
    texts = [
        axes.annotate(text, (x, y), (offset, 0), textcoords="offset points", va="center", color=colour, fontsize=11)
        for x, y, text, colour in (labels[i] for i in order)
    ]
    figure.draw_without_rendering()
    points = 72 / figure.dpi
    wanted = np.array([axes.transData.transform(annotation.xy)[1] for annotation in texts]) * points
    for annotation, shift in zip(texts, spread(wanted, gap) - wanted, strict=True):
        annotation.set_position((offset, shift))
    return texts


def spread(wanted: np.ndarray, gap: float) -> np.ndarray:
    """The positions nearest to the wanted ones, in their order, that are at least `gap` apart.

    Least squares under an order: subtract the gaps, make the rest monotonous, add the gaps again.
    """
    from scipy.optimize import isotonic_regression

    steps = gap * np.arange(len(wanted))
    return isotonic_regression(wanted - steps).x + steps


MARKERS = "osD^vP*X"
