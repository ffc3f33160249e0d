"""Intervals of scores that vary with two things at once: the training run and the queries.

A score is measured for every pair of a run (a training seed, or a draw of a random table) and a query, and its mean is
estimated over both.  Queries are resampled in clusters, with replacement.  Runs are too few for that: resampling three
of them gives intervals that are far too short.  They enter by Student's t instead, as a random combination of the runs'
deviations from their mean, so that the difference of two scores of the same runs varies as the runs' differences do.

Both parts contain the variance of what is particular to a run and a query; it is subtracted from the runs' part, as in
two-way clustered standard errors (Cameron, Gelbach and Miller 2011, equation 2.11).
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence

import numpy as np
from scipy import sparse

# Values per block of resampled cluster counts: bounds memory.
VALUES_PER_BLOCK = 8_000_000


class Resamples:
    """Resamples of the clusters of one set of queries, the same for every score, so that scores stay paired.

    Args:
        clusters: the cluster of each query, any labels, ``[queries]``.
        resamples: how many.
        seed: of the resampling.
    """

    def __init__(self, clusters: Sequence[int] | np.ndarray, *, resamples: int, seed: int) -> None:
        _, self._cluster = np.unique(np.asarray(clusters), return_inverse=True)
        ones = np.ones(len(self._cluster))
        self._members = sparse.csr_array((ones, (self._cluster, np.arange(len(ones)))))
        self._sizes = np.bincount(self._cluster).astype(np.float64)
        self.queries, self.clusters = len(self._cluster), len(self._sizes)
        self.resamples, self.seed = resamples, seed

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean of each column over resampled clusters: ``[queries, columns]`` to ``[resamples, columns]``.

        A resample has as many clusters as there are, and the mean is over the queries in them.
        """
        sums = self._sums(values)
        at_once = max(1, VALUES_PER_BLOCK // self.clusters)
        found = np.empty((self.resamples, values.shape[1]))
        for start in range(0, self.resamples, at_once):
            counts = self._counts[start : start + at_once].astype(np.float64)
            found[start : start + at_once] = (counts @ sums) / (counts @ self._sizes)[:, None]
        return found

    def draws(self, values: np.ndarray, runs: str) -> np.ndarray:
        """The mean over runs and queries in each resample of both.

        Args:
            values: ``[runs, queries]``.
            runs: a name of the set of runs.  Scores of the same runs, in the same order, vary together; scores of
                other sets vary independently.

        Returns:
            ``[resamples]``.  Of one run, whose variation is unknown, the queries alone are resampled.
        """
        return self.means(values.mean(axis=0)[:, None])[:, 0] + self.of_runs(values, runs)

    def of_runs(self, scores: np.ndarray, runs: str) -> np.ndarray:
        """What differences between the runs add to each resample; see `draws`."""
        count = len(scores)
        if count == 1 or not (spread := self._variance_between(scores)):
            return np.zeros(self.resamples)
        means = scores.mean(axis=1)
        deviations = means - means.mean()
        return self._multipliers(runs, count) @ deviations * np.sqrt(spread / (deviations @ deviations))

    def of_two(self, scores: np.ndarray, others: np.ndarray, runs: str) -> np.ndarray:
        """What differences between the runs of two independent sets add to the difference of their means.

        Student's t with the degrees of freedom of Welch (1947), since two sums of t would be too wide.

        Args:
            scores: ``[runs, queries]``.
            others: ``[other runs, queries]``.
            runs: a name of the two sets together.
        """
        parts = [(self._variance_between(some), len(some) - 1) for some in (scores, others) if len(some) > 1]
        whole = sum(spread for spread, _ in parts)
        if not whole:
            return np.zeros(self.resamples)
        freedom = whole**2 / sum(spread**2 / degrees for spread, degrees in parts)
        generator = self._generator(runs)
        normal, square = generator.standard_normal(self.resamples), generator.chisquare(freedom, self.resamples)
        return normal * np.sqrt(whole * freedom / square)

    def _variance_between(self, scores: np.ndarray) -> float:
        """Variance of the mean over runs that differences between them cause; 0 where none can be seen."""
        count = len(scores)
        if count == 1:
            return 0.0
        means = scores.mean(axis=1)
        residual = scores - means[:, None] - scores.mean(axis=0) + means.mean()
        particular = np.square(self._sums(residual.T)).sum() / self.queries**2
        return float(max(0.0, np.square(means - means.mean()).sum() - particular) / (count * (count - 1)))

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over the queries of each cluster, ``[clusters, columns]``."""
        return self._members @ values

    @functools.cached_property
    def _counts(self) -> np.ndarray:
        """How often each cluster is in each resample, ``[resamples, clusters]``."""
        generator = np.random.default_rng(self.seed)
        chances = np.full(self.clusters, 1 / self.clusters)
        return generator.multinomial(self.clusters, chances, size=self.resamples).astype(np.uint8)

    def _multipliers(self, runs: str, count: int) -> np.ndarray:
        """Weights of the runs' deviations, ``[resamples, runs]``: with them sums follow Student's t."""
        generator = self._generator(runs)
        normal = generator.standard_normal((self.resamples, count))
        spread = np.sqrt(generator.chisquare(count - 1, self.resamples) / (count - 1))
        return normal / spread[:, None]

    def _generator(self, runs: str) -> np.random.Generator:
        """Random numbers that belong to a set of runs."""
        return np.random.default_rng([self.seed, zlib.crc32(runs.encode())])
