"""Texts that share much of their wording: the same docstring with a few words changed, or one that quotes another."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

WORD = re.compile(r"\w+")
END = ""  # fills up a text that is shorter than a shingle


def near_duplicates(texts: Sequence[str], *, shingle_words: int, share: float) -> sparse.coo_array:
    """Pairs of texts whose shingles overlap (containment: Broder 1997, doi:10.1109/SEQUEN.1997.666900).

    A shingle is a sequence of words in lower case, punctuation left out; a text with fewer words is a single one.

    Args:
        texts: at least one.
        shingle_words: words of a shingle.
        share: two texts are near-duplicates if at least this share of the smaller set of shingles is in the other.

    Returns:
        Boolean ``[texts, texts]``, symmetric, true where two are near-duplicates, and for each text with itself.
    """
    incidence = _incidence(texts, shingle_words)
    sizes = incidence.sum(axis=1)
    # A shingle of one text alone is in no overlap.
    common = incidence[:, incidence.sum(axis=0) > 1]
    overlaps = (common @ common.T).tocoo()
    first, second = overlaps.coords
    near = (overlaps.data >= share * np.minimum(sizes[first], sizes[second])) & (first != second)
    itself = np.arange(len(texts))
    rows, columns = np.append(first[near], itself), np.append(second[near], itself)
    return sparse.coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(len(texts), len(texts)))


def groups(near: sparse.coo_array) -> np.ndarray:
    """The group of each text, int32 ``[texts]``: texts of different groups are never near-duplicates."""
    found: np.ndarray = csgraph.connected_components(near, directed=False)[1]
    return found


def leaking(near: sparse.coo_array, *, training: np.ndarray, heldout: np.ndarray) -> float:
    """Share of the held-out texts that have a near-duplicate among those for training; 0 if none is held out.

    Args:
        near: of `near_duplicates`.
        training: which texts are for training, bool ``[texts]``.
        heldout: which are held out.
    """
    first, second = near.coords
    leaks = np.unique(first[heldout[first] & training[second]])
    return len(leaks) / max(1, int(heldout.sum()))


def _incidence(texts: Sequence[str], shingle_words: int) -> sparse.csr_array:
    """Which text holds which shingle, int32 0 or 1 ``[texts, shingles]``."""
    numbers: dict[str, int] = {END: 0}
    words, starts = [], []
    for text in texts:
        found = [numbers.setdefault(word, len(numbers)) for word in WORD.findall(text.lower())]
        found += [0] * (shingle_words - len(found))
        words.append(np.array(found, np.int64))
        starts.append(len(found) - shingle_words + 1)
    together = np.concatenate([*words, np.empty(0, np.int64)])
    ids = _numbered(together, shingle_words)
    offsets = np.cumsum([0, *(len(found) for found in words)])[:-1]
    within = np.concatenate([np.arange(o, o + n) for o, n in zip(offsets, starts, strict=True)])
    owner = np.repeat(np.arange(len(texts)), starts)
    incidence = sparse.csr_array(
        (np.ones(len(owner), np.int32), (owner, ids[within])), shape=(len(texts), int(ids.max(initial=-1)) + 1)
    )
    incidence.data[:] = 1  # a shingle may occur twice in a text
    return incidence


def _numbered(words: np.ndarray, length: int) -> np.ndarray:
    """The number of the sequence of `length` words that begins at each place, int64 ``[words - length + 1]``.

    It is made of the numbers of the sequence's halves, so that no two sequences share one, as they could with a hash.
    """
    if length == 1:
        return words
    half = length // 2
    left = _numbered(words, half)
    right = left if length == 2 * half else _numbered(words, length - half)
    right = right[half:]
    pairs = left[: len(right)] * (right.max(initial=0) + 1) + right
    numbers: np.ndarray = np.unique(pairs, return_inverse=True)[1]
    return numbers
