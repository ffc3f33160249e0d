"""How figures of compared tables look: names of what is compared, and a line with its interval for each width."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from embscale.plotting import steps, theme
from embscale.rows.labels import runs_label

MEASURES = {"cka": "CKA", "mutual_neighbours": "shared neighbours"}


def by_step(
    axes: Axes, rows: pd.DataFrame, places: dict[float, float], colours: dict[float, str], **style: object
) -> list[tuple[float, float, str, str]]:
    """A line of values by step for each width, with a band for its interval.

    Args:
        axes: where to draw.
        rows: columns ``width``, ``step``, ``value``, ``ci_low`` and ``ci_high``.
        places: of the steps, from `embscale.plotting.steps.places`.
        colours: by width.
        style: further settings of the lines.

    Returns:
        Labels of the lines' ends, for `embscale.plotting.theme.end_labels`.
    """
    labels = []
    for width, line in rows.sort_values("step").groupby("width"):
        x = line["step"].map(places)
        axes.plot(x, line["value"], color=colours[width], marker="o", markersize=4, **style)  # type: ignore[arg-type]
        axes.fill_between(x, line["ci_low"], line["ci_high"], color=colours[width], alpha=0.15, linewidth=0)
        labels.append((float(x.iloc[-1]), float(line["value"].iloc[-1]), f"{width:.0f}", colours[width]))
    steps.axis(axes, places)
    return labels


def width_colours(rows: pd.DataFrame) -> dict[float, str]:
    """A colour for each width, dark to light."""
    widths = sorted(rows["width"].unique())
    return dict(zip(widths, theme.ordered_colours(len(widths)), strict=True))


def over(rows: pd.DataFrame) -> str:
    """``3 runs of each width``, or ``1 to 3 runs``."""
    runs = sorted({int(runs) for runs in rows["runs"]})
    words = runs_label(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]} runs"
    return f"{words} of each width"
