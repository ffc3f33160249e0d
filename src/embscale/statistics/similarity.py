"""How alike two sets of vectors of the same things are, and how alike they would be by chance.

Two measures, of which one looks at the whole and one at what is near: linear CKA, and the share of nearest neighbours
that both sets have in common.  Neither needs equal widths, and neither changes when a set is rotated or scaled.

Chance differs with width and number of vectors, so each value is calibrated against the values that remain when the
vectors of one set are dealt to the things at random (Gröger, Wen and Brbić 2026, arXiv:2602.14486, algorithm 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from embscale.statistics.vectors import UNIT, rescaled, scaled

CKA, NEIGHBOURS = "cka", "mutual_neighbours"

# A value counts as more than chance if it is above all but this share of those that chance gives.
LEVEL = 0.05

# The unbiased estimate of HSIC divides by n - 3.
FEWEST = 4


@dataclass(frozen=True)
class Calibrated:
    """A similarity, and what chance gives.

    Attributes:
        value: at most 1.
        null: mean of the permuted values.
        threshold: the value that chance exceeds with probability `LEVEL`.
        p: share of values, the real one among them, that are at least as high.
    """

    value: float
    null: float
    threshold: float
    p: float

    @property
    def calibrated(self) -> float:
        """From 0, no more alike than chance allows, to 1: how far the value is from the threshold to 1."""
        return max(0.0, (self.value - self.threshold) / max(1 - self.threshold, np.finfo(float).eps))


def calibrate(value: float, null: np.ndarray) -> Calibrated:
    """A value beside the permuted ones.

    Args:
        value: of the two sets as they are.
        null: ``[permutations]``, the same with the vectors of one set in random order.
    """
    values = np.sort([value, *null])
    place = math.ceil(round((1 - LEVEL) * len(values), 9)) - 1
    p = float((1 + np.sum(null >= value)) / len(values))
    return Calibrated(float(value), float(np.mean(null)), float(values[place]), p)


class Vectors:
    """A set of vectors, and what comparisons with others need of it.

    Args:
        values: ``[vectors, width]``, at least `FEWEST`.
        neighbours: nearest neighbours of each vector by cosine, fewer than there are other vectors.
    """

    def __init__(self, values: np.ndarray, *, neighbours: int) -> None:
        if len(values) < FEWEST or not 1 <= neighbours < len(values):
            raise ValueError(f"{len(values)} vectors, {neighbours} neighbours")
        self.values = rescaled(np.asarray(values, np.float64))  # CKA takes their eighth powers
        self.neighbours = neighbours

    @cached_property
    def centred(self) -> np.ndarray:
        """The vectors less their mean, ``[vectors, width]``."""
        return self.values - self.values.mean(axis=0)

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared norms of the centred vectors, ``[vectors]``."""
        return np.square(self.centred).sum(axis=1)

    @cached_property
    def own_hsic(self) -> float:
        """The unbiased HSIC of the set with itself."""
        return _hsic(self.centred, self.squares, self.centred, self.squares)

    @cached_property
    def nearest(self) -> np.ndarray:
        """Numbers of each vector's nearest neighbours, in no order, ``[vectors, neighbours]``."""
        unit = scaled(self.values, UNIT).astype(np.float32)  # as tables are stored; half the time of float64
        nearness = unit @ -unit.T
        np.fill_diagonal(nearness, np.inf)
        return np.argpartition(nearness, self.neighbours - 1, axis=1)[:, : self.neighbours]

    @cached_property
    def is_near(self) -> np.ndarray:
        """Whether the second vector is a nearest neighbour of the first, ``[vectors, vectors]``."""
        near = np.zeros((len(self.values),) * 2, bool)
        np.put_along_axis(near, self.nearest, True, axis=1)
        return near


def _hsic(x: np.ndarray, x_squares: np.ndarray, y: np.ndarray, y_squares: np.ndarray) -> float:
    """Unbiased HSIC of linear kernels, from centred vectors instead of all pairs of them.

    Song et al. 2012, JMLR 13, eq. 5, times n (n - 3), which cancels in CKA.  With K = X X' less its diagonal, and the
    columns of X centred, the row sums of K are minus the squared norms of the vectors.
    """
    n = len(x)
    shared = float(x_squares @ y_squares)
    totals = float(x_squares.sum() * y_squares.sum())
    return float(np.square(x.T @ y).sum()) - shared * n / (n - 2) + totals / ((n - 1) * (n - 2))


def cka(a: Vectors, b: Vectors, order: np.ndarray | None = None) -> float:
    """Linear CKA with unbiased HSIC (Kornblith et al. 2019, eq. 4; Murphy et al. 2024): 0 on average by chance.

    Args:
        a: one set.
        b: another one of as many vectors.
        order: of the vectors of `b`; by default as they are.

    Returns:
        At most about 1; NaN if the vectors of a set do not differ.
    """
    y, squares = (b.centred, b.squares) if order is None else (b.centred[order], b.squares[order])
    own = a.own_hsic * b.own_hsic
    return _hsic(a.centred, a.squares, y, squares) / math.sqrt(own) if own > 0 else math.nan


def mutual_neighbours(a: Vectors, b: Vectors, order: np.ndarray | None = None) -> float:
    """Mean share of a vector's nearest neighbours that are the same in both sets (Huh et al. 2024, section 2.1).

    Args:
        a: one set.
        b: another one of as many vectors, with as many neighbours.
        order: of the vectors of `b`; by default as they are.

    Returns:
        From 0 to 1; by chance, the number of neighbours over that of other vectors.
    """
    rows = np.arange(len(a.nearest))[:, None]
    found = b.is_near[rows, a.nearest] if order is None else b.is_near[order[rows], order[a.nearest]]
    return float(found.mean())


def compare(a: Vectors, b: Vectors, *, permutations: int, seed: int) -> dict[str, Calibrated]:
    """Both measures of two sets of vectors of the same things in the same order, with what chance gives.

    Args:
        a: one set.
        b: another one.
        permutations: random orders of the vectors of `b`.
        seed: of these orders.
    """
    orders = [np.random.default_rng([seed, number]).permutation(len(b.values)) for number in range(permutations)]
    return {
        name: calibrate(measure(a, b), np.array([measure(a, b, order) for order in orders]))
        for name, measure in ((CKA, cka), (NEIGHBOURS, mutual_neighbours))
    }
