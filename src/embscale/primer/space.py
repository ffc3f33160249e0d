"""Rows of a table as points: the two directions in which a few words differ most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from embscale.errors import EmbscaleError
from embscale.primer.lookup import lookup
from embscale.primer.sinusoidal import sinusoidal
from embscale.statistics.vectors import UNIT, scaled

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LEAST = 3  # words; with fewer, any picture in two dimensions would be exact


def single_token(tokenizer: Tokenizer, word: str) -> int | None:
    """Id of the token that is the whole word, preferably as it reads within a text, after a space; else None."""
    for text in (f" {word}", word):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) == 1:
            return int(ids[0])
    return None


def _single_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, int]:
    """Those words that are single tokens, with their ids."""
    ids = {word: token for word in dict.fromkeys(words) if (token := single_token(tokenizer, word)) is not None}
    if len(ids) < LEAST:
        raise EmbscaleError(
            f"of the words {', '.join(words)}, {len(ids)} are single tokens; a picture needs {LEAST} at least"
        )
    return ids


def space_rows(tokenizer: Tokenizer, table: np.ndarray, words: Sequence[str]) -> pd.DataFrame:
    """Words as points on their first two principal components.

    Args:
        tokenizer: its ids are rows of the table.
        table: ``[rows, dims]``.
        words: those of several tokens have no row, and so no point.

    Returns:
        A row for each word: ``word``, ``id`` (empty without one), ``pc1``, ``pc2``, the ``nearest`` of the other words
        by cosine in all dimensions with its ``cosine``, and the shares ``explained1`` and ``explained2`` of the words'
        variance that the picture shows.

    Raises:
        EmbscaleError: fewer than three words are single tokens, or a token has no row.
    """
    ids = _single_tokens(tokenizer, words)
    vectors = lookup(table, np.array(list(ids.values()))).astype(np.float64)
    pca = PCA(n_components=2, svd_solver="full")
    points = pca.fit_transform(vectors)
    unit = scaled(vectors, UNIT)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    names = list(ids)
    placed = pd.DataFrame(
        {
            "word": names,
            "id": list(ids.values()),
            "pc1": points[:, 0],
            "pc2": points[:, 1],
            "nearest": [names[i] for i in nearest],
            "cosine": cosines.max(axis=1),
        }
    )
    first, second = pca.explained_variance_ratio_
    asked = pd.DataFrame({"word": list(dict.fromkeys(words))})
    return (
        asked.merge(placed, on="word", how="left").assign(explained1=first, explained2=second).astype({"id": "Int64"})
    )


def offset_rows(tokenizer: Tokenizer, table: np.ndarray, words: Sequence[str], places: Sequence[int]) -> pd.DataFrame:
    """Words with sinusoidal positions of the table's scale added, in the plane that shows most of the variance.

    Args:
        tokenizer: its ids are rows of the table.
        table: ``[rows, dims]``, of an even number of columns.
        words: those of several tokens are left out.
        places: from 0.

    Returns:
        A row for each word and place: ``word``, ``place`` (-1 for the word by itself), ``x``, ``y``.

    Raises:
        EmbscaleError: fewer than three words are single tokens, a token has no row, or the width is odd.
    """
    ids = _single_tokens(tokenizer, words)
    vectors = lookup(table, np.array(list(ids.values()))).astype(np.float64)
    scale = np.sqrt(2 * np.square(table, dtype=np.float64).mean())
    moved = scale * sinusoidal(max(places) + 1, table.shape[1])[list(places)]
    moved = np.concatenate([np.zeros((1, table.shape[1])), moved])
    points = (vectors + moved[:, None]).reshape(-1, table.shape[1])
    x, y = PCA(n_components=2, svd_solver="full").fit_transform(points).T
    return pd.DataFrame({"word": list(ids) * len(moved), "place": np.repeat([-1, *places], len(ids)), "x": x, "y": y})
