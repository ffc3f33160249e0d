"""Metrics of rankings compared with trec_eval's, and the level of chance with the mean over all orders."""

import itertools

import numpy as np
import pytest
import pytrec_eval

from embscale.errors import EmbscaleError
from embscale.scoring.metrics import KINDS, Judgements
from embscale.scoring.mteb_task import mteb_name
from embscale.scoring.retrieval import Scorer
from embscale.texts.beir import RetrievalData
from embscale.texts.tokens import TokenisedTexts

DEPTHS = (1, 2, 3, 5, 10, 20)
METRICS = [f"{kind}_at_{depth}" for kind in KINDS for depth in DEPTHS]
MEASURES = {f"{name}.{','.join(map(str, DEPTHS))}" for name in ("ndcg_cut", "map_cut", "recall", "P")}

# Judgements of five documents and, where it is one of them, of the query itself.
CASES = {
    "one relevant document": {"q": {"a": 1}},
    "two": {"q": {"a": 1, "d": 1}},
    "graded relevance": {"q": {"a": 3, "b": 1, "e": 2}},
    "judged as irrelevant": {"q": {"a": 1, "b": 0, "c": -1}},
    "all": {"q": {"a": 1, "b": 2, "c": 1, "d": 4, "e": 1}},
    "the query is a document": {"c": {"a": 2, "b": 1}},
    "the query is a document that is relevant": {"c": {"a": 2, "c": 1}},
}


def trec_evals(qrels, run):
    """Metrics of every query by MTEB's names."""
    found = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    return {query: {mteb_name(measure): value for measure, value in row.items()} for query, row in found.items()}


def own_of(judgements, places, found, query=0):
    """Our metrics of a query."""
    gains = judgements.gains(places, found)
    return {metric: judgements.per_query(gains, metric)[query] for metric in METRICS}


@pytest.mark.parametrize("qrels", CASES.values(), ids=CASES)
def test_metrics_of_every_order_are_trec_evals_and_chance_is_their_mean(qrels):
    """The query's own document is no candidate, which MTEB removes from rankings."""
    names, (query,) = list("abcde"), qrels
    candidates = [name for name in names if name != query]
    judgements, total, orders = Judgements(qrels, [query], names), dict.fromkeys(METRICS, 0.0), 0
    for order in itertools.permutations(candidates):
        run = {query: {name: float(len(order) - rank) for rank, name in enumerate(order)}}
        places = np.array([[names.index(name) for name in order]])
        ours = own_of(judgements, places, np.ones(places.shape, bool))
        assert ours == pytest.approx(trec_evals(qrels, run)[query], abs=1e-9)
        total = {metric: total[metric] + ours[metric] for metric in METRICS}
        orders += 1
    for metric in METRICS:
        assert judgements.chance(metric) == pytest.approx([total[metric] / orders], abs=1e-12), metric


def test_documents_that_are_missing_from_a_ranking_count_as_not_found():
    qrels, names = {"q": {"a": 2, "b": 1, "c": 1}}, list("abcde")
    places, found = np.array([[4, 0, 1, 2]]), np.array([[True, True, False, False]])
    expected = trec_evals(qrels, {"q": {"e": 2.0, "a": 1.0}})["q"]
    assert own_of(Judgements(qrels, ["q"], names), places, found) == pytest.approx(expected, abs=1e-9)


@pytest.fixture(scope="module")
def task():
    """Random judgements, graded and of any number, of which some queries are documents."""
    rng = np.random.default_rng(3)
    names = [f"d{number}" for number in range(60)]
    queries = [*(f"q{number}" for number in range(30)), *names[:10]]
    qrels = {}
    for query in queries:
        judged = [name for name in rng.choice(names, rng.integers(1, 30), replace=False) if name != query] or ["d59"]
        qrels[query] = {name: int(gain) for name, gain in zip(judged, rng.integers(-1, 4, len(judged)), strict=True)}
        qrels[query][judged[0]] = 1
    return qrels, queries, names


@pytest.mark.parametrize("levels", [3, 1000], ids=["many ties", "few ties"])
def test_metrics_of_random_tasks_are_trec_evals(task, levels):
    import torch

    qrels, queries, names = task
    nothing = [TokenisedTexts(np.zeros(0, np.int32), np.zeros(len(group) + 1, np.int64)) for group in (names, queries)]
    texts = [dict.fromkeys(group, "") for group in (names, queries)]
    scorer = Scorer(RetrievalData("T", *texts, qrels, "0" * 64), *nothing, depth=20)
    scores = np.random.default_rng(4).integers(0, levels, (len(queries), len(names))).astype(np.float32)
    by_name = dict(zip(scorer.document_ids, range(len(names)), strict=True))
    run = {
        query: {name: float(scores[row, by_name[name]]) for name in names if name != query}
        for row, query in enumerate(queries)
    }
    ours = scorer.per_query(scorer.ranked([torch.from_numpy(scores.copy())]), METRICS)
    expected = trec_evals(qrels, run)
    for query in queries:
        assert ours.loc[query].to_dict() == pytest.approx(expected[query], abs=1e-9), query


def test_chance_is_what_random_rankings_score_in_the_mean(task):
    qrels, queries, names = task
    judgements, rng = Judgements(qrels, queries, names), np.random.default_rng(5)
    draws = 1000
    sums, squares = (dict.fromkeys(METRICS, np.zeros(len(queries))) for _ in range(2))
    own = np.array([names.index(query) if query in names else -1 for query in queries])
    for _ in range(draws):
        keys = rng.random((len(queries), len(names)))
        keys[own >= 0, own[own >= 0]] = np.inf  # the own document comes last, and is not found
        places = keys.argsort(axis=1)[:, :20]
        gains = judgements.gains(places, np.ones(places.shape, bool))
        for metric in METRICS:
            scores = judgements.per_query(gains, metric)
            sums[metric], squares[metric] = sums[metric] + scores, squares[metric] + scores**2
    for metric in METRICS:
        means = sums[metric] / draws
        errors = np.sqrt(np.maximum(squares[metric] / draws - means**2, 1e-6) / draws)
        assert (np.abs(means - judgements.chance(metric)) < 5.5 * errors).all(), metric


def test_chance_of_a_long_list_is_small_and_of_all_documents_everything():
    names = [f"d{number}" for number in range(1000)]
    judgements = Judgements({"q": {"d0": 1, "d1": 1}}, ["q"], names)
    assert judgements.chance("recall_at_100") == pytest.approx([0.1])
    assert judgements.chance("precision_at_10") == pytest.approx([0.002])
    assert judgements.chance("recall_at_1000") == judgements.chance("recall_at_5000") == pytest.approx([1])
    assert judgements.chance("precision_at_5000") == pytest.approx([2 / 5000])


@pytest.mark.parametrize("metric", ["ndcg", "ndcg_at_0", "ndcg_at_x", "mrr_at_10", "ndcg_at_10 ", "NDCG_at_10"])
def test_an_unknown_metric_is_refused(metric):
    judgements = Judgements({"q": {"a": 1}}, ["q"], ["a"])
    for ask in (judgements.chance, lambda name: judgements.per_query(np.ones((1, 1)), name)):
        with pytest.raises(EmbscaleError, match="such as ndcg_at_10"):
            ask(metric)
