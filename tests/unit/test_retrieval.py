"""The fast route against plain sentence-transformers encoding and MTEB's own search."""

import mteb
import numpy as np
import pytest
import torch

from embscale import tables, tokens
from embscale.beir import RetrievalData
from embscale.errors import EmbscaleError
from embscale.retrieval import FolderTask, PooledTexts, Scorer, TableSearch, mteb_name

METRICS = ["ndcg_at_10", "map_at_100", "recall_at_100", "precision_at_5"]


@pytest.fixture(scope="module")
def data():
    """Forty documents of random words; query i shares words with its relevant documents."""
    generator = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    documents = {f"d{i}": " ".join(generator.choice(words, 12)) for i in range(40)} | {"empty": ""}
    queries = {f"d{i}": " ".join(documents[f"d{i}"].split()[:4]) for i in range(20)}
    qrels = {f"d{i}": {f"d{(i + 1) % 40}": 1, f"d{(i + 7) % 40}": 1, f"d{(i + 9) % 40}": 0} for i in range(20)}
    return RetrievalData("Words", documents, queries, qrels, "0" * 64)


@pytest.fixture(scope="module")
def tokenised(data, tokenizer_folder):
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    return [
        tokens.tokenise(list(texts.values()), tokenizer, max_length=2048, special_tokens=False)
        for texts in (data.documents, data.queries)
    ]


def test_per_query_scores_equal_the_plain_route(data, tokenised, tokenizer_folder):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = tables.random(300, 32, seed=0)
    ours = Scorer(data, *tokenised).per_query(table, METRICS)

    static = StaticEmbedding(tokens.load_tokenizer(tokenizer_folder), embedding_weights=table)
    plain = FolderTask(data)
    plain.load_data()
    mteb.evaluate(SentenceTransformer(modules=[static], device="cpu"), plain, cache=None, show_progress_bar=False)
    for query, row in ours.iterrows():
        for metric in METRICS:
            assert row[metric] == pytest.approx(plain.per_query[query][metric], abs=1e-6), (query, metric)


def test_the_mean_over_queries_is_mtebs_own_score(data, tokenised):
    table = torch.from_numpy(tables.random(300, 16, seed=3))
    task = FolderTask(data)
    task.load_data()
    search = TableSearch(table.numpy(), *(PooledTexts(group) for group in tokenised))
    result = mteb.evaluate(search, task, cache=None, show_progress_bar=False)
    scores = result.task_results[0].scores["test"][0]
    for metric in METRICS:
        mean = np.mean([row[metric] for row in task.per_query.values()])
        assert mean == pytest.approx(scores[metric], abs=6e-6), metric  # MTEB rounds to five digits


def test_a_document_with_the_querys_own_id_is_no_answer(data, tokenised):
    search = TableSearch(tables.random(300, 16, seed=0), *(PooledTexts(group) for group in tokenised))
    task = FolderTask(data)
    task.load_data()
    split = task.dataset["default"]["test"]
    search.index(split["corpus"])
    found = search.search(split["queries"], top_k=100)
    assert all(query not in documents and len(documents) == 40 for query, documents in found.items())


def test_pooling_is_the_direction_of_the_mean_row(tokenised):
    table = torch.from_numpy(tables.random(300, 8, seed=1))
    vectors = PooledTexts(tokenised[0]).pool(table)
    for text in range(len(tokenised[0]) - 1):
        mean = table[torch.from_numpy(tokenised[0][text]).long()].double().mean(0)
        assert torch.allclose(vectors[text].double(), mean / mean.norm(), atol=1e-6)
    assert vectors[-1].abs().sum() == 0  # the empty document


def test_a_table_too_short_for_the_tokens_is_refused(data, tokenised):
    with pytest.raises(EmbscaleError, match="but the table has 50 rows"):
        Scorer(data, *tokenised).per_query(tables.random(50, 8, seed=0), METRICS)


def test_an_unknown_metric_is_refused(data, tokenised):
    with pytest.raises(EmbscaleError, match="accuracy"):
        Scorer(data, *tokenised).per_query(tables.random(300, 8, seed=0), ["accuracy"])


def test_tokens_of_other_texts_are_refused(data, tokenised):
    with pytest.raises(EmbscaleError, match="41 documents and 20 queries, but tokens of 20 and 20"):
        Scorer(data, tokenised[1], tokenised[1])


def test_measures_have_mtebs_names():
    assert [mteb_name(m) for m in ("ndcg_cut_10", "map_cut_100", "recall_5", "P_1")] == [
        "ndcg_at_10",
        "map_at_100",
        "recall_at_5",
        "precision_at_1",
    ]
