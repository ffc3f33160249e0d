"""Reference lines: their formulas, and that random tables tend to them."""

import numpy as np
import pytest
import torch

from embscale.scoring import lexical
from embscale.scoring.mteb_task import Search
from embscale.scoring.retrieval import ArrayTable, Scorer
from embscale.tables import random_tables
from embscale.tables.variants import Context, Variant
from embscale.texts.beir import RetrievalData
from embscale.texts.tokens import TokenisedTexts

ROWS = 50
DOCUMENTS, QUERIES = 30, 6


def texts(lists):
    offsets = np.cumsum([0, *map(len, lists)])
    return TokenisedTexts(np.concatenate([np.asarray(ids, np.int32) for ids in lists]), offsets)


@pytest.fixture(scope="module")
def lists():
    """Token ids of documents, the last one empty, and of queries; no document holds token 49."""
    generator = np.random.default_rng(0)
    documents = [generator.integers(0, 40, generator.integers(1, 30)) for _ in range(DOCUMENTS - 1)]
    return [*documents, np.empty(0, int)], [np.append(generator.integers(0, 40, 5), 49) for _ in range(QUERIES)]


@pytest.fixture(scope="module")
def scorer(lists):
    documents, queries = (
        {f"{kind}{i}": "" for i in range(len(group))} for kind, group in zip("dq", lists, strict=True)
    )
    qrels = {query: {f"d{i}": 1} for i, query in enumerate(queries)}
    return Scorer(RetrievalData("T", documents, queries, qrels, "0" * 64), *map(texts, lists))


def scores(ranking):
    """The scores of a ranking as a matrix, documents in the order of their names' numbers."""
    found = np.full((QUERIES, DOCUMENTS), np.nan)
    for i, row in enumerate(Search(ranking).search(None).values()):
        for name, score in row.items():
            found[i, int(name[1:])] = score
    return found


def counts(lists):
    return np.array([np.bincount(ids, minlength=ROWS) for ids in lists], float)


def cosines(queries, documents):
    lengths = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(documents, axis=1))
    return np.divide(queries @ documents.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def test_overlap_is_the_cosine_of_token_counts(scorer, lists):
    documents, queries = map(counts, lists)
    assert scores(lexical.overlap(scorer)) == pytest.approx(cosines(queries, documents), abs=1e-6)


def test_overlap_idf_weights_counts_by_idf(scorer, lists):
    documents, queries = map(counts, lists)
    idf = np.log((1 + DOCUMENTS) / (1 + (documents > 0).sum(axis=0)))
    assert scores(lexical.overlap_idf(scorer)) == pytest.approx(cosines(queries * idf, documents * idf), abs=1e-6)


def test_bm25_is_lucenes_formula(scorer, lists):
    documents, queries = map(counts, lists)
    holding = (documents > 0).sum(axis=0)
    idf = np.log(1 + (DOCUMENTS - holding + 0.5) / (holding + 0.5))
    lengths = documents.sum(axis=1, keepdims=True)
    k1, b = lexical.BM25["k1"], lexical.BM25["b"]
    weights = documents / (documents + k1 * (1 - b + b * lengths / lengths.mean()))
    assert scores(lexical.bm25(scorer)) == pytest.approx(queries @ (idf * weights).T, abs=1e-5)


@pytest.mark.parametrize(("variant", "limit"), [("full", lexical.overlap), ("idf", lexical.overlap_idf)])
def test_random_tables_tend_to_overlap(scorer, lists, variant, limit):
    """The error of a cosine falls as the root of the number of columns, its mean over seeds is nearly none."""
    exact = scores(limit(scorer))
    context = Context.of(scorer.documents, ROWS)
    errors = {}
    for dims in (64, 1024):
        made = [
            scores(scorer.rank(Variant.parse(variant).apply(random_tables.independent(ROWS, dims, seed), context)))
            for seed in range(8)
        ]
        errors[dims] = np.sqrt(np.mean(np.square(np.array(made) - exact)))
        assert np.abs(np.mean(made, axis=0) - exact).max() < 6 / np.sqrt(8 * dims)
    assert errors[1024] < 1.2 / np.sqrt(1024) and 3 < errors[64] / errors[1024] < 5.5


def test_an_orthogonal_table_gives_overlap_exactly(scorer):
    found = scorer.rank(ArrayTable(np.eye(ROWS, dtype=np.float32)))
    assert scores(found) == pytest.approx(scores(lexical.overlap(scorer)), abs=1e-6)


def test_scores_go_through_mtebs_metrics(scorer):
    per_query = scorer.per_query(lexical.overlap(scorer), ["ndcg_at_10", "map_at_100"])
    assert list(per_query.index) == scorer.query_ids and per_query.to_numpy().max() <= 1
    assert torch.tensor(per_query.to_numpy()).isfinite().all()


def test_a_query_without_tokens_scores_0_everywhere():
    data = RetrievalData("T", {"d0": "", "d1": ""}, {"q": ""}, {"q": {"d0": 1}}, "0" * 64)
    scorer = Scorer(data, texts([[1, 2], [3]]), texts([[]]))
    for line in (lexical.overlap, lexical.overlap_idf, lexical.bm25):
        assert Search(line(scorer)).search(None) == {"q": {"d1": 0.0, "d0": 0.0}}
