"""Positions as biases added to attention scores: ALiBi, and the relative bias of T5."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError


def alibi_slopes(heads: int) -> np.ndarray:
    """A slope for each head (Press et al. 2022, "Train Short, Test Long", section 3, and its code), ``[heads]``.

    For n heads, a power of two, ``2 ** (-8 / n)`` and its powers.  For other numbers, those of the next lower power of
    two, then every second one of the next higher.
    """
    lower = 2 ** math.floor(math.log2(heads))
    slopes = 2.0 ** (-8 * np.arange(1, lower + 1) / lower)
    between = 2.0 ** (-8 * np.arange(1, 2 * lower + 1, 2) / (2 * lower))
    return np.concatenate([slopes, between[: heads - lower]])


def alibi_bias(heads: int, places: int) -> np.ndarray:
    """The bias of a query's attention to keys 0, 1, 2 ... positions before it, ``[heads, places]``."""
    return alibi_slopes(heads)[:, None] * -np.arange(places)


def relative_bucket(relative: np.ndarray, *, buckets: int, max_distance: int, bidirectional: bool) -> np.ndarray:
    """The bucket of T5's learned bias for a relative position (Raffel et al. 2020, section 2.1, and its code).

    Each of the nearest positions has its own bucket; then buckets widen by a constant factor up to `max_distance`, and
    all positions beyond share the last.

    Args:
        relative: position of the key minus that of the query.
        buckets: how many there are.
        max_distance: distance from which positions share the last bucket.
        bidirectional: half of the buckets are for keys after the query; otherwise these share bucket 0.

    Returns:
        Numbers of buckets, in the shape of `relative`.
    """
    offset = np.zeros(np.shape(relative), np.int64)
    if bidirectional:
        buckets //= 2
        offset = np.where(relative > 0, buckets, 0)
        distance = np.abs(relative)
    else:
        distance = np.maximum(-relative, 0)
    exact = buckets // 2
    # In 32-bit numbers, as models compute it: a distance on the border of two buckets must fall where theirs does.
    ratio = np.maximum(distance, exact).astype(np.float32) / np.float32(exact)
    widening = np.log(ratio) / np.float32(math.log(max_distance / exact)) * np.float32(buckets - exact)
    wide = np.minimum(exact + widening.astype(np.int64), buckets - 1)
    return offset + np.where(distance < exact, distance, wide)


def bias_rows(*, heads: int, places: int, buckets: int, max_distance: int) -> pd.DataFrame:
    """Rows of both kinds of biases for the figure.

    Returns:
        A row for each number: ``scheme`` (alibi or relative), ``head`` (-1 for buckets, which all heads share),
        ``distance`` (place of the key less that of the query), ``value`` (the bias, or the number of the bucket).

    Raises:
        EmbscaleError: there is no head, or too few buckets.
    """
    if heads < 1 or buckets < 4:
        raise EmbscaleError(f"{heads} heads, {buckets} buckets: expected one head and four buckets at least")
    bias = alibi_bias(heads, places)
    head, distance = np.divmod(np.arange(bias.size), places)
    around = np.arange(1 - places, places)
    bucket = relative_bucket(around, buckets=buckets, max_distance=max_distance, bidirectional=True)
    return pd.concat(
        [
            pd.DataFrame({"scheme": "alibi", "head": head, "distance": -distance, "value": bias.ravel()}),
            pd.DataFrame({"scheme": "relative", "head": -1, "distance": around, "value": bucket.astype(float)}),
        ],
        ignore_index=True,
    )
