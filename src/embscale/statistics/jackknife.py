"""Intervals for quantities that are not means over texts, such as ranks, angles and distances of means.

A bootstrap draws some texts twice, and duplicate vectors bias anything that compares vectors with each other: they are
nearest neighbours, and inflate the squared entries of a Gram matrix.  Leaving texts out has no such effect, so these
quantities are recomputed without each of a few groups of texts: the delete-a-group jackknife (Kott 2001, Journal of
Official Statistics 17, 521), with Student's t for the few groups.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from embscale.errors import EmbscaleError
from embscale.statistics.resampling import CONFIDENCE

LEAST_GROUPS = 2


def text_groups(text: np.ndarray, *, groups: int, seed: int) -> np.ndarray:
    """A group for each vector: all vectors of a text are in one group, and group sizes differ by at most one text.

    Args:
        text: the text of each vector, ``[vectors]``.
        groups: number of groups; at most the number of texts.
        seed: of the assignment.

    Returns:
        int64 ``[vectors]``, from 0.

    Raises:
        EmbscaleError: there is only one text.
    """
    texts, number = np.unique(text, return_inverse=True)
    if min(len(texts), groups) < LEAST_GROUPS:
        raise EmbscaleError(f"{len(texts)} texts in {groups} groups: an interval needs at least {LEAST_GROUPS}")
    return (np.random.default_rng(seed).permutation(len(texts)) % groups)[number]


def left_out(parts: np.ndarray, *, axis: int = 0) -> np.ndarray:
    """Sums over all groups, then over all but one, for each group.

    Args:
        parts: sums by group along `axis`.
        axis: that of the groups.

    Returns:
        An array with one more entry along `axis`: first the total, then the total without group 0, 1 and so on.
    """
    whole = parts.sum(axis=axis, keepdims=True)
    return np.concatenate([whole, whole - parts], axis=axis)


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of a quantity from its values without each group.

    Args:
        values: ``[1 + groups, ...]``: from all texts, then without each group.

    Returns:
        Both ends, ``[...]``, around the value from all texts.
    """
    without = values[1:]
    groups = len(without)
    spread = np.square(without - without.mean(axis=0)).sum(axis=0) * (groups - 1) / groups
    half = stats.t.ppf((1 + CONFIDENCE) / 2, groups - 1) * np.sqrt(spread)
    return values[0] - half, values[0] + half
