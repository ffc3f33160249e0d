"""The metrics of MTEB, for all queries of a ranking at once.

They are trec_eval's, which MTEB calls: nDCG with linear gains (Järvelin and Kekäläinen 2002), average precision cut off
at a depth and divided by the number of relevant documents, recall and precision.  `chance` is what a ranking in random
order is expected to score: the floor of every score.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from embscale.errors import EmbscaleError

KINDS = ("ndcg", "map", "recall", "precision")


class Judgements:
    """The relevant documents of every query, as numbers.

    Args:
        qrels: query id to document id to relevance; a document counts as relevant from 1 on.
        queries: query ids, in the order of rankings.
        documents: all document ids, in the order that rankings refer to.
    """

    def __init__(
        self, qrels: Mapping[str, Mapping[str, int]], queries: Sequence[str], documents: Sequence[str]
    ) -> None:
        places = {name: place for place, name in enumerate(documents)}
        self.documents = len(documents)
        keys, gains, self.ideal, found = [], [], [], []
        for number, query in enumerate(queries):
            relevant = {document: gain for document, gain in qrels[query].items() if gain > 0}
            keys += [number * self.documents + places[document] for document in relevant]
            gains += list(relevant.values())
            self.ideal.append(sorted(relevant.values(), reverse=True))
            found.append([gain for document, gain in relevant.items() if document != query])
        order = np.argsort(keys)
        self._keys, self._gains = np.asarray(keys, np.int64)[order], np.asarray(gains, np.float64)[order]
        self.relevant = np.array([len(gains) for gains in self.ideal], np.float64)
        self._ideal_gains: dict[int, np.ndarray] = {}
        # A query's own document is no candidate (see `embscale.scoring.retrieval`), even if it is judged relevant.
        self.candidates = np.array([self.documents - (query in places) for query in queries], np.float64)
        self._relevant_candidates = np.array([len(gains) for gains in found], np.float64)
        self._mean_gain = np.array([sum(gains) for gains in found]) / np.maximum(self.candidates, 1)

    def gains(self, places: np.ndarray, found: np.ndarray) -> np.ndarray:
        """The relevance of ranked documents, ``[queries, depth]``.

        Args:
            places: of the documents, ``[queries, depth]``.
            found: which of them are there, of the same shape.
        """
        keys = np.arange(len(places))[:, None] * self.documents + places
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(found & (self._keys[at] == keys), self._gains[at], 0.0)

    def per_query(self, gains: np.ndarray, metric: str) -> np.ndarray:
        """A metric for every query, from 0 to 1.

        Args:
            gains: of the ranked documents, the best first, ``[queries, at least the metric's depth]``.
            metric: MTEB's name, such as ``ndcg_at_10``.
        """
        kind, depth = parse(metric)
        gains = gains[:, :depth]
        hits = (gains > 0).astype(np.float64)
        match kind:
            case "ndcg":
                return gains @ _discounts(gains.shape[1]) / self._ideal_gain(depth)
            case "map":
                ranks = np.arange(1, gains.shape[1] + 1)
                return (hits * hits.cumsum(axis=1) / ranks).sum(axis=1) / self.relevant
            case "recall":
                return hits.sum(axis=1) / self.relevant
            case _:
                return hits.sum(axis=1) / depth

    def chance(self, metric: str) -> np.ndarray:
        """The expected metric of every query for a random order of its candidates, exact.

        Each candidate is at each rank with the same probability; two given ones are at two given ranks with
        probability ``1 / (n (n - 1))``, which average precision needs.
        """
        kind, depth = parse(metric)
        n, found, relevant = self.candidates, self._relevant_candidates, self.relevant
        ranks = np.arange(1, depth + 1)
        shown = np.minimum(depth, n)
        match kind:
            case "ndcg":
                return self._mean_gain * (_discounts(depth) @ (ranks[:, None] <= n)) / self._ideal_gain(depth)
            case "map":
                # Sum over ranks i of P(i is relevant) times the expected precision there, divided by the relevant ones.
                others = np.divide(found - 1, n - 1, out=np.zeros_like(n), where=n > 1)
                terms = (1 + (ranks[:, None] - 1) * others) / ranks[:, None] * (ranks[:, None] <= n)
                return found / np.maximum(n, 1) * terms.sum(axis=0) / relevant
            case "recall":
                return shown * found / np.maximum(n, 1) / relevant
            case _:
                return shown * found / np.maximum(n, 1) / depth

    def _ideal_gain(self, depth: int) -> np.ndarray:
        if depth not in self._ideal_gains:
            discounts = _discounts(depth)
            self._ideal_gains[depth] = np.array(
                [np.asarray(gains[:depth]) @ discounts[: len(gains)] for gains in self.ideal]
            )
        return self._ideal_gains[depth]


def parse(metric: str) -> tuple[str, int]:
    """Kind and depth of a metric: ``ndcg`` and 10 of ``ndcg_at_10``.

    Raises:
        EmbscaleError: there is no such metric.
    """
    match = re.fullmatch(rf"({'|'.join(KINDS)})_at_([1-9]\d*)", metric)
    if match is None:
        raise EmbscaleError(
            f"metric {metric!r}: expected one of MTEB's, such as ndcg_at_10; there are {', '.join(KINDS)} at any depth"
        )
    return match[1], int(match[2])


def depth_of(metric: str) -> int:
    """The cut-off of a metric: 10 for ``ndcg_at_10``.

    Raises:
        EmbscaleError: there is no such metric.
    """
    return parse(metric)[1]


def _discounts(depth: int) -> np.ndarray:
    """What a document at each rank counts in nDCG."""
    return 1 / np.log2(np.arange(2, depth + 2))
