"""One query followed through several rankings, with the tokens that made each match.

A cosine of two means of rows is a sum over the tokens of the document, and BM25 is a sum over those of the query: each
token has its part in the score, and the parts add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from embscale.scoring import lexical
from embscale.scoring.retrieval import Ranking, Scorer

HITS = 3  # of each ranking
MARKED = 3  # tokens of a hit with the largest parts in its score

# From the places of a query and a document in the scorer's texts to distinct tokens and their parts in the score.
Parts = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Match:
    """A document that a ranking puts among the first.

    Attributes:
        rank: from 1.
        document: its id.
        place: of its text in `Scorer.documents`.
        relevant: whether it is judged relevant for the query.
        score: by which it is ranked.
        parts: the tokens with the largest parts in the score, the largest first, each with its part.
    """

    rank: int
    document: str
    place: int
    relevant: bool
    score: float
    parts: dict[int, float]


@dataclass(frozen=True)
class Followed:
    """One ranking of the query.

    Attributes:
        method: how it was ranked.
        value: the metric for this query, from 0 to 1.
        mean: that over all queries.
        matches: its first documents.
    """

    method: str
    value: float
    mean: float
    matches: list[Match]


def of_table(scorer: Scorer, table: np.ndarray) -> tuple[Ranking, Parts]:
    """The ranking by the cosine of mean rows, and the part of each token of a document in its cosine.

    Args:
        scorer: the task; it pools by the mean.
        table: ``[rows, dims]``.
    """
    values = table.astype(np.float64)

    def parts(query: int, document: int) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = np.unique(scorer.documents[document], return_counts=True)
        asked, found = (values[text].mean(axis=0) for text in (scorer.queries[query], scorer.documents[document]))
        scale = len(scorer.documents[document]) * np.linalg.norm(asked) * np.linalg.norm(found)
        return ids, counts * (values[ids] @ asked) / scale

    return scorer.rank(table), parts


def of_bm25(scorer: Scorer) -> tuple[Ranking, Parts]:
    """The ranking by BM25, and the part of each token of the query in a document's score."""
    index = lexical.bm25_index(scorer)

    def parts(query: int, document: int) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = np.unique(scorer.queries[query], return_counts=True)
        return ids, counts * np.array([index.get_scores_from_ids([token])[document] for token in ids.tolist()])

    return lexical.bm25(scorer), parts


def follow(scorer: Scorer, methods: Mapping[str, tuple[Ranking, Parts]], metric: str) -> tuple[str, list[Followed]]:
    """The query whose scores are nearest to the mean scores of all methods, and what each method finds for it.

    So the query is typical of the methods rather than chosen; among equals the first counts.

    Args:
        scorer: the task.
        methods: rankings by name, each with the parts of its scores.
        metric: MTEB's name of it.

    Returns:
        The id of the query, and what each method finds, in the order of `methods`.
    """
    values = pd.DataFrame({name: scorer.per_query(ranking, [metric])[metric] for name, (ranking, _) in methods.items()})
    means = values.mean()
    query = str(((values - means) ** 2).sum(axis=1).idxmin())
    row = scorer.query_ids.index(query)
    found = []
    for name, (ranking, parts) in methods.items():
        gains = scorer.judgements.gains(ranking.places, np.isfinite(ranking.scores))[row]
        matches = []
        for rank, (place, score) in enumerate(zip(ranking.places[row], ranking.scores[row], strict=True), 1):
            if rank > HITS or not np.isfinite(score):
                break
            document = str(ranking.documents[place])
            matches.append(
                Match(
                    rank,
                    document,
                    int(place),
                    bool(gains[rank - 1] > 0),
                    float(score),
                    _largest(*parts(row, int(place))),
                )
            )
        found.append(Followed(name, float(values.loc[query, name]), float(means[name]), matches))
    return query, found


def _largest(ids: np.ndarray, parts: np.ndarray) -> dict[int, float]:
    """The tokens with the largest parts that are above 0; others may be below, so these can exceed the score."""
    order = np.argsort(-parts, kind="stable")[:MARKED]
    return {int(ids[i]): float(parts[i]) for i in order if parts[i] > 0}
