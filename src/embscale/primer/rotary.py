"""Rotary positions (Su et al. 2021, "RoFormer", section 3.2): queries and keys are rotated by their position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.primer.sinusoidal import frequencies, sinusoidal

# Which columns form a pair.  The paper pairs neighbours (its equation 34); most libraries pair column i with column
# i + width / 2, for which the weights before it only need their columns in another order.
Layout = Literal["interleaved", "halves"]


def rotate(vectors: np.ndarray, places: np.ndarray, *, base: float, layout: Layout) -> np.ndarray:
    """Rotate each pair of columns by position times the pair's frequency.

    The product of a query at place m and a key at place n then depends on ``n - m``, as ``R(m)' R(n) = R(n - m)``; the
    length of each vector stays.

    Args:
        vectors: ``[..., tokens, width]``.
        places: ``[tokens]``.
        base: of the frequencies; 10,000 in the paper, more in models of long contexts.
        layout: which columns form a pair.

    Returns:
        ``[..., tokens, width]``.
    """
    width = vectors.shape[-1]
    angles = places[:, None] * frequencies(width, base)
    first, second = pairs(width, layout)
    x, y = vectors[..., first], vectors[..., second]
    turned = np.empty_like(vectors)
    turned[..., first] = x * np.cos(angles) - y * np.sin(angles)
    turned[..., second] = x * np.sin(angles) + y * np.cos(angles)
    return turned


def pairs(width: int, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """First and second column of each pair, ``[width / 2]`` each."""
    if layout == "interleaved":
        return np.arange(0, width, 2), np.arange(1, width, 2)
    return np.arange(width // 2), np.arange(width // 2, width)


def rotary_rows(
    *, width: int, base: float, first_places: Sequence[int], distances: int, pair: int, seed: int
) -> pd.DataFrame:
    """One query and one key at several positions: rotated, and with sinusoidal positions added instead.

    Args:
        width: of the query and of the key, which are random.
        base: of the frequencies.
        first_places: those of the query.
        distances: number of distances of the key from the query, counted from 0.
        pair: the pair of columns that is shown as arrows.
        seed: of the two vectors.

    Returns:
        A row for each number: ``scheme`` (rotary or added), ``statistic`` (product; or query and key, the arrow's
        ``x`` and ``y`` at distance 2), ``first_place``, ``distance``, ``value``.

    Raises:
        EmbscaleError: there is no such pair, or fewer than three distances.
    """
    if not 0 <= pair < width // 2 or distances < 3:
        raise EmbscaleError(f"pair {pair}, {distances} distances: expected a pair below {width // 2}, 3 distances")
    query, key = np.random.default_rng(seed).standard_normal((2, width))
    frames = []
    for place in first_places:
        apart = np.arange(distances)
        turned_query = rotate(query[None], np.array([place]), base=base, layout="interleaved")
        turned_keys = rotate(np.tile(key, (distances, 1)), place + apart, base=base, layout="interleaved")
        added = sinusoidal(place + distances, width)
        products = {
            "rotary": turned_keys @ turned_query[0],
            "added": (key + added[place:]) @ (query + added[place]),
        }
        for scheme, values in products.items():
            frames.append(
                pd.DataFrame({"scheme": scheme, "statistic": "product", "distance": apart, "value": values}).assign(
                    first_place=place
                )
            )
        columns = [2 * pair, 2 * pair + 1]
        for name, distance, vector in (("query", 0, turned_query[0]), ("key", 2, turned_keys[2])):
            x, y = vector[columns]
            frames.append(
                pd.DataFrame(
                    {
                        "scheme": "rotary",
                        "statistic": name,
                        "first_place": [place],
                        "distance": distance,
                        "x": x,
                        "y": y,
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)
