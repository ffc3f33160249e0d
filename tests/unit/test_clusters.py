"""Clusters of queries where the right ones are known."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from embscale.statistics.clusters import query_clusters


def together(clusters, queries):
    return len({clusters.of[query] for query in queries}) == 1


def group(name, queries):
    """Queries that all judge the same two documents relevant."""
    return {f"{name}-q{i}": {f"{name}-d1": 1, f"{name}-d2": 1} for i in range(queries)}


def test_queries_of_shared_documents_are_one_cluster():
    clusters = query_clusters(group("a", 3) | group("b", 2), seed=1)
    assert (clusters.count, clusters.largest, clusters.components, clusters.crossing) == (2, 3, 2, 0)
    assert together(clusters, group("a", 3)) and together(clusters, group("b", 2))
    assert clusters.of["a-q0"] == 0 and clusters.of["b-q0"] == 1 and not clusters.refused


def test_one_label_between_two_dense_groups_does_not_make_them_one_cluster():
    qrels = group("a", 6) | group("b", 6) | group("c", 1)
    qrels["a-q0"] = qrels["a-q0"] | {"b-d1": 1}
    clusters = query_clusters(qrels, seed=1)
    assert (clusters.count, clusters.components, clusters.largest) == (3, 2, 6)
    assert clusters.crossing == pytest.approx(1 / 27)
    assert clusters.words == "3 clusters of the 13 queries, the largest of 6; 1 of 27 labels link two of them"


def test_an_id_that_names_a_query_and_a_document_is_one_node():
    assert together(query_clusters({"a": {"b": 1}, "b": {"c": 1}, "x": {"y": 1}}, seed=1), ["a", "b"])


def test_irrelevant_documents_link_nothing():
    clusters = query_clusters({"q": {"d": 1, "e": 0}, "r": {"e": 1, "d": 0}}, seed=1)
    assert clusters.count == 2 and clusters.words.startswith("no two queries are linked")


def test_queries_that_share_nothing_are_their_own_clusters():
    """However many documents each has."""
    qrels = {f"q{i}": {f"d{i}-{j}": 1 for j in range(30)} for i in range(5)}
    clusters = query_clusters(qrels, seed=1)
    assert sorted(clusters.of.values()) == [0, 1, 2, 3, 4]
    assert clusters.words == "no two queries are linked by a document, so each is a cluster of its own"
    assert not clusters.refused


@pytest.mark.parametrize("qrels", [group("a", 5), {"alone": {"d": 1}}, {"a": {"b": 1}, "b": {"c": 1}}])
def test_one_component_has_no_independent_units(qrels):
    clusters = query_clusters(qrels, seed=1)
    assert clusters.components == 1 and "none are independent" in clusters.refused
    assert clusters.words == f"no interval: {clusters.refused}"


def random_qrels(seed):
    generator = np.random.default_rng(seed)
    return {f"n{i}": {f"n{j}": 1 for j in generator.integers(0, 300, 1 + i % 2)} for i in range(0, 300, 2)}


@pytest.mark.parametrize("seed", range(5))
def test_no_cluster_reaches_over_two_components(seed):
    """Components by scipy."""
    qrels = random_qrels(seed)
    edges = np.array([[int(q[1:]), int(d[1:])] for q, judged in qrels.items() for d in judged])
    _, component = connected_components(coo_array((np.ones(len(edges)), edges.T), shape=(300, 300)), directed=False)
    clusters = query_clusters(qrels, seed=1)
    assert clusters.components == len(set(component[np.unique(edges)]))
    for cluster in range(clusters.count):
        assert len({component[int(q[1:])] for q, own in clusters.of.items() if own == cluster}) == 1


def test_clusters_are_the_same_in_every_order_and_process():
    qrels = random_qrels(0)
    assert query_clusters(dict(reversed(qrels.items())), seed=3) == query_clusters(qrels, seed=3)
    script = "from test_clusters import *; print(query_clusters(random_qrels(0), seed=3))"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    shown = {
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | environment | {"PYTHONHASHSEED": seed}, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert shown == {f"{query_clusters(qrels, seed=3)}\n".encode()}
