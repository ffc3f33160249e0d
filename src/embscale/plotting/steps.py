"""Training steps along the x axis: logarithmic, with the untrained table, step 0, apart from the others."""

from __future__ import annotations

import math
from collections.abc import Iterable

from matplotlib.axes import Axes

# Share of the axis that a step's name needs.
ROOM = 0.11


def places(steps: Iterable[float]) -> dict[float, float]:
    """Where each step lies: its logarithm; 0 lies left of the others, by a fifth of their spread."""
    distinct = sorted(set(steps))
    found = {step: math.log10(step) for step in distinct if step > 0}
    if 0 in distinct:
        spread = max(found.values()) - min(found.values()) if found else 0
        found[0] = min(found.values(), default=0) - max(spread / 5, 0.3)
    return {step: found[step] for step in distinct}


def axis(axes: Axes, of: dict[float, float], *, room: float = ROOM) -> None:
    """Name the steps on the x axis, as many as fit; the first and the last are always named.

    Args:
        axes: the axes whose x are places.
        of: from `places`.
        room: share of the axis that a step's name needs.
    """
    steps = list(of)
    left, right = of[steps[0]], of[steps[-1]]
    apart = room * max(right - left, 1e-9)
    named = [steps[0]]
    for step in steps[1:-1]:
        if of[step] - of[named[-1]] >= apart and right - of[step] >= apart:
            named.append(step)
    named += [steps[-1]] if len(steps) > 1 else []
    axes.set_xticks([of[step] for step in named], [f"{step:g}" for step in named])
    margin = 0.04 * max(right - left, 1)
    axes.set_xlim(left - margin, right + margin)
