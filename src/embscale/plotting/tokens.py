"""An axis of tokens of training: logarithmic, with the untrained table apart at its left end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from embscale.plotting import theme

APART = 3.0  # how many times the first tokens are to the right of none
TICK = 0.6  # inches for the name of a tick
LEFT, RIGHT = 1.5, 3.2  # room beside the ends, as factors


def place(tokens: Sequence[float] | np.ndarray, first: float) -> np.ndarray:
    """Where numbers of tokens are drawn: none at all has no logarithm, and lies to the left of the `first`."""
    values = np.asarray(tokens, float)
    return np.where(values > 0, values, first / APART)


def label(tokens: float) -> str:
    """``100 k`` or ``3 M``."""
    return f"{tokens / 1e6:g} M" if tokens >= 1e6 else f"{tokens / 1e3:g} k"


def _inches(axes: Axes) -> float:
    """How wide the axes are, before the layout gives labels their room."""
    return float(axes.get_position().width * axes.get_figure(root=True).get_figwidth())  # type: ignore[union-attr]


def axis(axes: Axes, tokens: Sequence[float], *, zero: bool, room: float = RIGHT) -> float:
    """Make the x axis one of tokens.

    Args:
        axes: whose.
        tokens: that are shown; there is at least one above 0.
        zero: whether to show 0, too.
        room: to the right, for labels, as a factor.

    Returns:
        The first tokens above 0, for `place`.
    """
    positive = sorted({float(value) for value in tokens if value > 0})
    first, last = positive[0], positive[-1]
    axes.set_xscale("log")
    powers = range(int(np.floor(np.log10(first))), int(np.ceil(np.log10(last))) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 3)]
    ticks = [tick for tick in ticks if first * 0.95 <= tick <= last * 1.05]
    left, right = (first / APART if zero else first) / LEFT, last * room
    if _inches(axes) * np.log10(3) / np.log10(right / left) < TICK:
        decades = [tick for tick in ticks if f"{tick:.0f}"[0] == "1"]
        ticks = decades if len(decades) > 1 else [*dict.fromkeys([*ticks[:1], *ticks[-1:]])]
    ticks = ticks or [first]
    none = [first / APART] if zero else []
    axes.set_xticks(none + ticks, ["0"] * len(none) + [label(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(left, right)
    if zero:  # the axis is broken between none and the first
        middle = first / APART**0.5
        axes.annotate("//", (middle, 0), xycoords=("data", "axes fraction"), ha="center", va="center", fontsize=10,
                      color=theme.MUTED, annotation_clip=False)  # fmt: skip
    axes.set_xlabel("tokens of training")
    return first
