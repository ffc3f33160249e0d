"""Intervals for means over queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CONFIDENCE = 0.95

# Resamples drawn at once: bounds memory at 1,000 x queries x 8 bytes.
RESAMPLES_PER_CHUNK = 1000


def bootstrap_means(values: np.ndarray, *, resamples: int, seed: int) -> np.ndarray:
    """Means of resampled queries, the same resamples for every column, so that columns stay paired.

    Args:
        values: ``[queries, columns]``.
        resamples: how many samples of the queries to draw with replacement.
        seed: of the draws.

    Returns:
        ``[resamples, columns]``.
    """
    queries = len(values)
    return np.concatenate([counts @ values for counts in _resampled_counts(queries, resamples, seed)]) / queries


def percentile_interval(means: np.ndarray, *, confidence: float = CONFIDENCE) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap interval of each column of `bootstrap_means`."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high


def _resampled_counts(queries: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each query occurs in each resample: rows of a multinomial distribution."""
    generator = np.random.default_rng(seed)
    chances = np.full(queries, 1 / queries)
    for start in range(0, resamples, RESAMPLES_PER_CHUNK):
        size = min(RESAMPLES_PER_CHUNK, resamples - start)
        yield generator.multinomial(queries, chances, size=size).astype(np.float64)
