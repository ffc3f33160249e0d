"""How many dimensions a set of vectors fills near its points: the TwoNN estimate of Facco et al. 2017.

The ratio of a point's distances to its second and to its nearest neighbour depends on the dimension alone, as long as
the density of points hardly changes within that distance.  In many dimensions, the estimate is too low: far more points
would be needed.  So a random set of the same width and size belongs beside it.
"""

from __future__ import annotations

import numpy as np

from embscale.statistics import jackknife

# Share of points with the largest ratios that the fit leaves out, as in the paper.
LEFT_OUT = 0.1

# Nearest neighbours that are kept, so that two remain where a tenth of the points or less is left out.
KEPT = 16
FEWEST_GROUPS = 10


def two_nn(ratios: np.ndarray) -> float:
    """Dimension from the ratios of distances (Facco et al. 2017, Scientific Reports 7, 12140, eq. 5 and figure 1).

    The slope, through the origin, of -log(1 - F) against log(ratio), F being the share of points with a smaller ratio.

    Args:
        ratios: distance to the second neighbour over that to the nearest one, ``[points]``, finite.

    Returns:
        NaN if fewer than two points remain or all ratios are 1.
    """
    ratios = np.sort(ratios)
    kept = int(len(ratios) * (1 - LEFT_OUT))
    x = np.log(ratios[:kept])
    y = -np.log1p(-np.arange(1, kept + 1) / len(ratios))
    return float(x @ y / (x @ x)) if kept > 1 and x.any() else np.nan


def estimate(values: np.ndarray, *, groups: int, seed: int) -> tuple[float, float, float, int]:
    """Dimension of a set of points with its interval.

    Args:
        values: ``[points, width]``; points with an equal one are left out.
        groups: of points, for the interval (`embscale.statistics.jackknife`); at least `FEWEST_GROUPS`.
        seed: of the groups.

    Returns:
        The dimension, both ends of its 95 % interval, and the number of points that it is from.
    """
    values = np.unique(np.asarray(values, np.float64), axis=0)
    near = _nearest(values, min(KEPT, len(values) - 1))
    apart = np.linalg.norm(values[near] - values[:, None], axis=2)
    order = np.argsort(apart, axis=1)
    near, apart = np.take_along_axis(near, order, axis=1), np.take_along_axis(apart, order, axis=1)
    group = jackknife.text_groups(np.arange(len(values)), groups=groups, seed=seed)
    found = [two_nn(apart[:, 1] / apart[:, 0])]
    for left_out in range(group.max() + 1):
        stay = group != left_out
        # The first two neighbours that stay: their distances come first once others are infinite.
        two = np.sort(np.where(stay[near[stay]], apart[stay], np.inf), axis=1)[:, :2]
        found.append(two_nn(two[:, 1] / two[:, 0]))
    low, high = jackknife.interval(np.array(found))
    return found[0], float(low), float(high), len(values)


def _nearest(values: np.ndarray, count: int) -> np.ndarray:
    """Numbers of each point's nearest neighbours, in no order, ``[points, count]``."""
    centred = values - values.mean(axis=0)
    squares = np.square(centred).sum(axis=1)
    distances = squares - 2 * (centred @ centred.T)  # squared, less the point's own norm
    np.fill_diagonal(distances, np.inf)
    return np.argpartition(distances, count - 1, axis=1)[:, :count]
