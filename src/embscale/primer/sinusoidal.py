"""Sinusoidal positions (Vaswani et al. 2017, "Attention Is All You Need", section 3.5)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError

BASE = 10_000.0  # the paper's


def frequencies(width: int, base: float = BASE) -> np.ndarray:
    """Radians for each place and pair of columns, from 1 down to almost ``1 / base``: ``[width / 2]``.

    Pair i has ``base ** (-2 i / width)``; i counts pairs, from 0 to ``width / 2 - 1``.

    Raises:
        EmbscaleError: the width is odd.
    """
    if width % 2:
        raise EmbscaleError(f"width {width}: columns come in pairs, so it must be even")
    return base ** (-np.arange(0, width, 2) / width)


def sinusoidal(places: int, width: int) -> np.ndarray:
    """The position vectors of the first places, ``[places, width]``: sines in even columns, cosines in odd ones.

    The product of two is the sum over pairs of ``cos((p - q) frequency)``: it depends only on their distance.
    """
    angles = np.arange(places)[:, None] * frequencies(width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(places, width)


def shift(distance: float, width: int) -> np.ndarray:
    """The matrix that takes the vector of every place p to that of ``p + distance``, ``[width, width]``.

    Each pair of columns is rotated by its own angle, so the matrix is a rotation: ``shift(a) @ shift(b)`` is ``shift(a
    + b)``, and the transpose shifts back.
    """
    angles = distance * frequencies(width)
    matrix = np.zeros((width, width))
    sines, cosines = np.arange(0, width, 2), np.arange(1, width, 2)
    matrix[sines, sines] = matrix[cosines, cosines] = np.cos(angles)
    matrix[sines, cosines] = np.sin(angles)
    matrix[cosines, sines] = -np.sin(angles)
    return matrix


def sinusoidal_rows(*, places: int, width: int) -> pd.DataFrame:
    """The vectors and their products for the figure.

    Returns:
        A row for each number: ``statistic`` (vector, or product divided by its value at distance 0), ``place`` or
        distance, ``column`` (-1 for products), ``value``.
    """
    vectors = sinusoidal(places, width)
    place, column = np.divmod(np.arange(vectors.size), width)
    products = vectors @ vectors[0] / (width / 2)
    return pd.concat(
        [
            pd.DataFrame({"statistic": "vector", "place": place, "column": column, "value": vectors.ravel()}),
            pd.DataFrame({"statistic": "product", "place": np.arange(places), "column": -1, "value": products}),
        ],
        ignore_index=True,
    )
