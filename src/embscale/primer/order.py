"""Does the order of tokens matter?  Mean pooling, attention with and without a causal mask, and positions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import softmax

from embscale.errors import EmbscaleError
from embscale.primer.lookup import encode, lookup
from embscale.primer.sinusoidal import sinusoidal

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Relative differences below this come only from the order of additions.
ROUNDING = 1e-12


def mean_pool(vectors: np.ndarray) -> np.ndarray:
    """The mean of a text's vectors, ``[dims]``; that of any order of them is the same."""
    return vectors.mean(axis=0)


def add_positions(vectors: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Row t of a table of learned positions added to the vector at place t.

    Args:
        vectors: ``[tokens, dims]``.
        positions: ``[places, dims]``.

    Raises:
        EmbscaleError: there are more tokens than places.
    """
    if len(vectors) > len(positions):
        raise EmbscaleError(f"{len(vectors)} tokens: there are {len(positions)} learned positions")
    return vectors + positions[: len(vectors)]


def attention(states: np.ndarray, weights: np.ndarray, *, causal: bool) -> np.ndarray:
    """One layer of single-head self-attention with a residual connection, on normalised vectors.

    It has no position information, except that a causal mask restricts each token to earlier ones.

    Args:
        states: ``[tokens, dims]``.
        weights: query, key and value matrices, ``[3, dims, dims]``.
        causal: whether there is a mask.

    Returns:
        ``[tokens, dims]``.
    """
    normed = states / np.sqrt(np.square(states).mean(axis=1, keepdims=True)).clip(min=1e-12)
    queries, keys, values = normed @ weights
    scores = queries @ keys.T / np.sqrt(states.shape[1])
    if causal:
        scores = np.where(np.tri(len(states), dtype=bool), scores, -np.inf)
    return states + softmax(scores, axis=1) @ values


def order_rows(
    tokenizer: Tokenizer, table: np.ndarray, texts: Sequence[str], *, layers: int, seed: int
) -> pd.DataFrame:
    """Differences between texts with the same tokens in other orders, at every depth of a random model.

    Args:
        tokenizer: its ids are rows of the table.
        table: ``[rows, dims]``; brought to a root mean square of 1, so that positions weigh about as much.
        texts: the first is compared with each of the others.
        layers: of attention, with random weights.
        seed: of the weights.

    Returns:
        A row for each ``mask`` (none or causal), ``positions`` (none or sinusoidal), number of ``layers`` from 0 and
        ``vector`` (pooled, the mean over tokens; last, the last token's): the largest relative difference to the first
        text as ``value``, and the number of texts compared as ``n``.  Differences from rounding only are set to 0.

    Raises:
        EmbscaleError: there is one text alone, one has other tokens than the first, or ends with another.
    """
    ids = [encode(tokenizer, text)[0] for text in texts]
    for text, other in zip(texts, ids, strict=True):
        if sorted(other) != sorted(ids[0]) or other[-1] != ids[0][-1]:
            raise EmbscaleError(
                f"text {text!r}: expected the tokens of {texts[0]!r} in another order, but the last one"
            )
    if len(texts) < 2:
        raise EmbscaleError("one text: expected two or more orders of the same tokens")
    rows = lookup(table.astype(np.float64), np.stack(ids))
    rows /= np.sqrt(np.square(rows).mean())
    dims = table.shape[1]
    places = sinusoidal(len(ids[0]), dims)
    drawn = np.random.default_rng(seed).standard_normal((layers, 3, dims, dims)) / np.sqrt(dims)
    found = []
    for mask, positions in itertools.product(("none", "causal"), ("none", "sinusoidal")):
        states = [add_positions(text, places) if positions == "sinusoidal" else text for text in rows]
        for depth in range(layers + 1):
            if depth:
                states = [attention(text, drawn[depth - 1], causal=mask == "causal") for text in states]
            for vector, summary in (("pooled", mean_pool), ("last", lambda text: text[-1])):
                first, *others = (summary(text) for text in states)
                differences = [np.linalg.norm(other - first) / np.linalg.norm(first) for other in others]
                value = max(differences) if max(differences) > ROUNDING else 0.0
                found.append((mask, positions, depth, vector, value, len(others)))
    return pd.DataFrame(found, columns=["mask", "positions", "layers", "vector", "value", "n"])
