"""Clusters of queries: the units that a bootstrap over queries resamples.

Queries that share relevant documents are not independent.  Connected components of the graph of queries and relevant
documents are independent by these labels, but a few labels join hundreds of queries; communities cut those few and
leave many units of moderate size (Louvain: Blondel et al. 2008, doi:10.1088/1742-5468/2008/10/P10008).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True)
class Clusters:
    """Which queries belong together.

    Attributes:
        of: the cluster of each query, numbered from 0 in the order of the queries' names.
        count: number of clusters.
        largest: queries of the largest.
        components: connected components of the graph of labels.
        crossing: share of labels that link two communities, from 0 to 1.
        refused: why there are no independent units and so no interval; empty if there are.
        words: all this for the reader.
    """

    of: dict[str, int]
    count: int
    largest: int
    components: int
    crossing: float
    refused: str
    words: str


def query_clusters(qrels: Mapping[str, Mapping[str, int]], *, seed: int) -> Clusters:
    """Communities of queries in the graph of labels.

    Every query and every document that is relevant to one is a node, every such label an edge.  A query and a document
    of the same id are one node: where a task uses one id for both, the query is part of that document.

    Args:
        qrels: for each query, the score of each judged document; those above 0 are relevant.
        seed: of the order in which nodes are visited.
    """
    labels = sorted((query, document) for query, judged in qrels.items() for document in judged if judged[document] > 0)
    names = sorted({*qrels, *(document for _, document in labels)})
    # Places for names: sets of numbers have the same order in every process.
    place = {name: number for number, name in enumerate(names)}
    graph = nx.Graph()
    graph.add_nodes_from(range(len(names)))
    graph.add_edges_from((place[query], place[document]) for query, document in labels if query != document)
    components = _parts(names, nx.connected_components(graph))
    communities = _parts(names, nx.community.louvain_communities(graph, seed=seed)) if labels else components
    crossing = sum(communities[query] != communities[document] for query, document in labels)
    shared = max(Counter(components[query] for query in qrels).values(), default=0) > 1
    numbers: dict[int, int] = {}
    chosen = communities if shared else components
    of = {query: numbers.setdefault(chosen[query], len(numbers)) for query in sorted(qrels)}
    largest = max(Counter(of.values()).values(), default=0)
    count = len(set(components.values()))
    refused = "all queries are linked by shared documents, so none are independent" if count == 1 else ""
    if refused:
        words = f"no interval: {refused}"
    elif not shared:
        words = "no two queries are linked by a document, so each is a cluster of its own"
    else:
        words = (
            f"{len(numbers):,} clusters of the {len(qrels):,} queries, the largest of {largest:,}; {crossing:,} of "
            f"{len(labels):,} labels link two of them"
        )
    return Clusters(of, len(numbers), largest, count, crossing / len(labels) if labels else 0.0, refused, words)


def _parts(names: list[str], found: Iterable[set[int]]) -> dict[str, int]:
    """The number of the part that each name is in."""
    return {names[node]: number for number, nodes in enumerate(found) for node in nodes}
