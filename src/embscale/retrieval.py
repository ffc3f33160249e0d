"""Score embedding tables on retrieval tasks: our pooling and search, MTEB's metrics.

A text's vector is the mean of its tokens' rows; documents are ranked by cosine (Corey,
"Methodology").  All of it in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mteb
import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.model_meta import ModelMeta

from embscale.beir import RetrievalData
from embscale.errors import EmbscaleError
from embscale.tokens import TokenisedTexts

SPLIT = "test"

# Depths at which MTEB cuts a ranking.  It makes a dictionary entry for each document kept, so 1,000
# (its usual deepest cut) would cost ten times as much for metrics that nothing here uses.
DEPTHS = (1, 3, 5, 10, 20, 100)

# Queries in one product with all documents: bounds memory at 256 x documents x 4 bytes.
QUERIES_PER_CHUNK = 256


class FolderTask(AbsTaskRetrieval):
    """Retrieval data in memory as an MTEB task that keeps the score of every query."""

    k_values = DEPTHS
    ignore_identical_ids = True

    def __init__(self, data: RetrievalData) -> None:
        self.metadata = TaskMetadata(
            name=data.name,
            description=f"The retrieval task in the BEIR folder {data.name}.",
            dataset={"path": data.name, "revision": data.sha256},
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=[SPLIT],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
            date=None,
            domains=None,
            task_subtypes=None,
            license=None,
            annotations_creators=None,
            dialect=None,
            sample_creation=None,
            bibtex_citation=None,
        )
        super().__init__()
        self.data = data
        self.per_query: dict[str, dict[str, float]] = {}

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:  # noqa: ANN401
        """Hand the data over; nothing is fetched."""
        if self.data_loaded:
            return

        def rows(texts: dict[str, str]) -> Dataset:
            return Dataset.from_dict({"id": list(texts), "text": list(texts.values())})

        split: Any = {
            "corpus": rows(self.data.documents).add_column("title", [""] * len(self.data.documents)),
            "queries": rows(self.data.queries),
            "relevant_docs": self.data.qrels,
            "top_ranked": None,
        }
        self.dataset = {"default": {SPLIT: split}}
        self.data_loaded = True

    def task_specific_scores(
        self,
        scores: dict[str, dict[str, float]],
        qrels: Any,  # noqa: ANN401
        results: Any,  # noqa: ANN401
        hf_split: str,
        hf_subset: str,
    ) -> dict[str, float]:
        """Keep MTEB's score of every query under MTEB's names; add no metric."""
        self.per_query = {query: {mteb_name(name): v for name, v in row.items()} for query, row in scores.items()}
        return {}


def mteb_name(measure: str) -> str:
    """MTEB's name of a trec_eval measure: ``ndcg_cut_10`` is its ``ndcg_at_10``, ``P_5`` ``precision_at_5``."""
    kind, _, depth = measure.replace("_cut_", "_").partition("_")
    return f"{'precision' if kind == 'P' else kind}_at_{depth}"


class TableSearch:
    """An embedding table as MTEB's search protocol, over texts that are tokenised already."""

    def __init__(self, table: np.ndarray, documents: PooledTexts, queries: PooledTexts) -> None:
        self.table = torch.from_numpy(np.ascontiguousarray(table))
        self.documents = documents
        self.queries = queries
        self.mteb_model_meta = ModelMeta.create_empty({"name": "embscale/table", "revision": "in-memory"})

    def index(self, corpus: Dataset, **kwargs: Any) -> None:  # noqa: ANN401
        """Pool the documents."""
        self.document_ids = np.asarray(corpus.select_columns("id")[:]["id"], dtype=object)
        self.vectors = self.documents.pool(self.table)

    def search(self, queries: Dataset, *, top_k: int, **kwargs: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401
        """The `top_k` nearest documents of each query by cosine, never the one with the query's own id."""
        query_ids = queries.select_columns("id")[:]["id"]
        position = {name: i for i, name in enumerate(self.document_ids)}
        own = torch.tensor([position.get(name, -1) for name in query_ids])
        vectors = self.queries.pool(self.table)
        found: dict[str, dict[str, float]] = {}
        for start in range(0, len(query_ids), QUERIES_PER_CHUNK):
            chunk = slice(start, start + QUERIES_PER_CHUNK)
            scores = vectors[chunk] @ self.vectors.T
            itself = torch.nonzero(own[chunk] >= 0).squeeze(1)
            scores[itself, own[chunk][itself]] = -torch.inf
            best = scores.topk(min(top_k, scores.shape[1]), dim=1)
            for name, values, places in zip(query_ids[chunk], best.values, best.indices, strict=True):
                found[name] = dict(zip(self.document_ids[places.numpy()], values.tolist(), strict=True))
                found[name].pop(name, None)  # ranked last, it comes in where fewer documents than top_k are left
        return found


class PooledTexts:
    """Texts as weighted bags of distinct tokens, ready to be pooled over any table."""

    def __init__(self, texts: TokenisedTexts) -> None:
        ids, counts, offsets = texts.counts()
        lengths = np.maximum(np.diff(texts.offsets), 1)
        weights = counts / np.repeat(lengths, np.diff(offsets))
        self.ids = torch.from_numpy(ids)
        self.offsets = torch.from_numpy(offsets)
        self.weights = torch.from_numpy(weights.astype(np.float32))

    def pool(self, table: torch.Tensor) -> torch.Tensor:
        """Unit vectors ``[texts, dims]``: the direction of the mean of each text's rows.

        A text without tokens gets the zero vector, whose cosine with anything is 0.
        """
        means = torch.nn.functional.embedding_bag(
            self.ids, table, self.offsets, mode="sum", per_sample_weights=self.weights, include_last_offset=True
        )
        return torch.nn.functional.normalize(means, dim=1, eps=1e-12)


class Scorer:
    """One retrieval task, tokenised once, against which any number of tables is scored."""

    def __init__(self, data: RetrievalData, documents: TokenisedTexts, queries: TokenisedTexts) -> None:
        if (len(documents), len(queries)) != (len(data.documents), len(data.queries)):
            raise EmbscaleError(
                f"{data.name}: {len(data.documents)} documents and {len(data.queries)} queries, but tokens of "
                f"{len(documents)} and {len(queries)}; make the tokens again with embscale tokenize"
            )
        self.task = FolderTask(data)
        self.task.load_data()  # MTEB empties a task after scoring unless it was loaded before
        self.highest_id = int(max(documents.ids.max(initial=0), queries.ids.max(initial=0)))
        self.documents, self.queries = PooledTexts(documents), PooledTexts(queries)

    def per_query(self, table: np.ndarray, metrics: Sequence[str]) -> pd.DataFrame:
        """MTEB's metrics of a table, a row for each query and a column for each metric, from 0 to 1.

        Raises:
            EmbscaleError: the table has fewer rows than the tokenizer has tokens, or MTEB knows no such metric.
        """
        if self.highest_id >= len(table):
            raise EmbscaleError(f"the texts hold token {self.highest_id}, but the table has {len(table)} rows")
        search = TableSearch(table, self.documents, self.queries)
        mteb.evaluate(search, self.task, cache=None, show_progress_bar=False)
        scores = pd.DataFrame.from_dict(self.task.per_query, orient="index")
        unknown = set(metrics) - set(scores.columns)
        if unknown:
            raise EmbscaleError(f"metrics {sorted(unknown)}: MTEB gives {sorted(scores.columns)} for each query")
        return scores[list(metrics)].rename_axis("query")
