"""The look that all figures share: sizes, colours, labels, and files with the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.typing import ColorType

from embscale.plotting.phone import PhoneFigure

# The report's column is 680 px wide, and an inch of SVG is 96 px: text of 12 pt is 16 px there.
PAGE_WIDTH = 680 / 96

INK = "#222222"
MUTED = "#6b6b6b"
FAINT = "#e4e4e4"

# Okabe and Ito's colours, distinguishable with any colour vision; orange and sky blue are darker here, for lines on
# white (VISIBLE), and yellow is too pale.
CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#C68900", "#4B9DCB", "#000000")

# Of heat maps: the smallest value has the colour of the page, also in the dark, where lightness is turned round.  They
# end at a middle blue, so that words on any cell can be read in both.
HEAT = ListedColormap(matplotlib.colormaps["Blues"](np.linspace(0, 0.5, 256)), name="heat")
ON_HEAT = "#000000"

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
    "font.family": "sans-serif",
    # The first comes with matplotlib, so sizes are the same everywhere; where a reader lacks it, the next is used.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
    "font.size": 11,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 200,
    "svg.fonttype": "none",  # words stay words, which can be selected and found
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


_for_phones: ContextVar[bool] = ContextVar("_for_phones", default=False)


@contextmanager
def for_phones() -> Iterator[None]:
    """Within it, `figure` gives figures for a phone."""
    token = _for_phones.set(True)
    try:
        yield
    finally:
        _for_phones.reset(token)


def figure(*, height: float) -> Figure:
    """An empty figure in the common style, its height in inches; as wide as the report's column, or a phone's.

    The style is set for the whole process, because matplotlib looks it up whenever a part is added.
    """
    matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
    return PhoneFigure(height) if _for_phones.get() else Figure(figsize=(PAGE_WIDTH, height), layout="constrained")


def save(figure: Figure, path: Path, *, salt: str = "embscale") -> None:
    """Write a figure; an SVG holds neither time nor random names, so equal figures have equal bytes.

    Args:
        figure: what to write.
        path: where; the ending says in which format.
        salt: goes into the names of an SVG's parts, so that drawings with different salts can share a page.
    """
    matplotlib.rcParams.update(STYLE | {"svg.hashsalt": salt})  # type: ignore[arg-type]
    if isinstance(figure, PhoneFigure):
        figure.fit()
    if path.suffix == ".svg":
        figure.savefig(path, metadata={"Date": None}, dpi=RASTER_DPI)
        path.write_text(plain_svg(path.read_text("utf-8")), "utf-8")
    else:
        figure.savefig(path)


DECIMALS = 2  # of a coordinate in an SVG, in points
COORDINATES = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
FRACTION = re.compile(r"\d+\.\d{3,}")
FAMILY = re.compile(r" ?font-family: ([^;]*);")
# Of matplotlib's SVG, what says nothing in a page: prologue, metadata, style sheet, rotations by nothing.
NEEDLESS = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>"
    r'| transform="rotate\(-?0 [^)]*\)"',
    re.DOTALL,
)


def plain_svg(text: str) -> str:
    """An SVG of matplotlib made fit to stand in a page with others: its words are text, and no name is without use."""
    text = NEEDLESS.sub("", text)
    family = FAMILY.search(text)
    root = f' font-family="{family[1]}"' if family else ""
    text = FAMILY.sub("", text).replace("<svg ", f'<svg{root} stroke-linejoin="round" stroke-linecap="butt" ', 1)
    used = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text)
    text = COORDINATES.sub(lambda match: FRACTION.sub(_rounded, " ".join(match[0].split("\n"))), text)
    return re.sub(r"\n\s*", "\n", text).strip() + "\n"


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.{DECIMALS}f}".rstrip("0").rstrip(".")


# Contrast of words and of lines on white, by the accessibility guidelines (WCAG 2.2, 1.4.3 and 1.4.11).
LEGIBLE, VISIBLE = 4.5, 3.0
LINEAR = np.array([0.2126, 0.7152, 0.0722])  # luminance of red, green and blue


def luminance(colour: ColorType) -> float:
    """Relative luminance of a colour (WCAG 2.2)."""
    parts = np.array(matplotlib.colors.to_rgb(colour))
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ LINEAR)


def contrast(one: ColorType, other: ColorType) -> float:
    """Contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink(colour: ColorType, least: float = LEGIBLE) -> str:
    """The colour itself, or its lightest shade with at least this contrast on white; by default that of words."""
    parts = np.array(matplotlib.colors.to_rgb(colour))
    shades = (matplotlib.colors.to_hex(parts * share) for share in np.linspace(1, 0, 101))
    return next(shade for shade in shades if contrast(shade, "white") >= least)


def category_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, in the order given; they repeat after seven."""
    return {name: CATEGORIES[i % len(CATEGORIES)] for i, name in enumerate(names)}


def ordered_colours(count: int, *, colour_map: str = "viridis") -> list[str]:
    """Colours for things that have an order (layers, widths), dark to light; the palest are left out."""
    shades = np.linspace(0.0, 0.86, count) if count > 1 else np.array([0.35])
    return [ink(colour, VISIBLE) for colour in matplotlib.colormaps[colour_map](shades)]


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
        axes.annotate(
            text, (x, y), (offset, 0), textcoords="offset points", va="center", color=ink(colour), fontsize=11
        )
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
