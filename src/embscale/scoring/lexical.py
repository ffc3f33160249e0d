"""Lexical baselines without a table: how much of a score can be explained by shared tokens.

Independent random rows are nearly orthogonal, so as a random table gets wider, the cosine of two pooled texts tends to
the cosine of their token counts: `overlap` is the exact limit of Corey's random baseline (Johnson and Lindenstrauss
1984).  If each row is scaled by its token's idf, the limit is `overlap_idf`.  `bm25` is the usual lexical baseline over
the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse

from embscale.scoring.retrieval import BLOCK_BYTES, Ranking, Scorer
from embscale.tables.variants import Context, idf_weights
from embscale.texts.tokens import TokenisedTexts

if TYPE_CHECKING:
    from bm25s import BM25 as BM25Index

# The default parameters of bm25s for Okapi BM25: Lucene's variant, whose idf is never negative.
BM25 = {"method": "lucene", "k1": 1.5, "b": 0.75}


def overlap(scorer: Scorer) -> Ranking:
    """Rank by the cosine of token counts."""
    return scorer.ranked(_cosines(scorer, lambda counts: counts))


def overlap_idf(scorer: Scorer) -> Ranking:
    """Rank by the cosine of token counts weighted by idf over the documents."""
    weights = idf_weights(Context.of(scorer.documents, _rows(scorer)))
    return scorer.ranked(_cosines(scorer, lambda counts: counts @ sparse.diags_array(weights)))


def bm25(scorer: Scorer) -> Ranking:
    """Rank by Okapi BM25 (Robertson and Zaragoza 2009) over tokens; repeated tokens of a query count each time."""
    index = bm25_index(scorer)

    def scores() -> Iterator[torch.Tensor]:
        scores = [index.get_scores_from_ids(scorer.queries[i]) for i in range(len(scorer.queries))]
        yield torch.from_numpy(np.stack(scores))

    return scorer.ranked(scores())


def bm25_index(scorer: Scorer) -> BM25Index:
    """The documents of a task, in the order of `Scorer.documents`, as an index of bm25s."""
    import bm25s

    index = bm25s.BM25(**BM25)
    documents = [scorer.documents[i] for i in range(len(scorer.documents))]
    # Every token id is in the vocabulary, so queries may contain tokens that no document has.
    index.index((documents, {str(i): i for i in range(_rows(scorer))}), show_progress=False)
    return index


REFERENCES: dict[str, Callable[[Scorer], Ranking]] = {"overlap": overlap, "overlap_idf": overlap_idf, "bm25": bm25}


def _rows(scorer: Scorer) -> int:
    return scorer.highest_id + 1


def _counts(texts: TokenisedTexts, rows: int) -> sparse.csr_array:
    """Token counts ``[texts, rows]``."""
    ids, counts, offsets = texts.counts()
    return sparse.csr_array((counts.astype(np.float64), ids, offsets), shape=(len(texts), rows))


def _cosines(scorer: Scorer, weigh: Callable[[sparse.csr_array], sparse.csr_array]) -> Iterator[torch.Tensor]:
    """Cosines of weighted token counts, one block of documents at a time; 0 for texts without tokens."""
    queries, documents = (_unit(weigh(_counts(group, _rows(scorer)))) for group in (scorer.queries, scorer.documents))
    step = max(1, BLOCK_BYTES // (8 * max(1, queries.shape[0])))
    for start in range(0, documents.shape[0], step):
        cosines = queries @ documents[start : start + step].T
        # Exact ties are common; rounding errors of float64 must not break them.
        yield torch.from_numpy(cosines.toarray().astype(np.float32))


def _unit(counts: sparse.csr_array) -> sparse.csr_array:
    lengths = np.sqrt(counts.power(2).sum(axis=1))
    return sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ counts
