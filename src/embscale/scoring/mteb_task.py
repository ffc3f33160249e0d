"""A retrieval task of ours as one of MTEB's, so that our metrics can be compared with MTEB's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.model_meta import ModelMeta

from embscale.scoring.retrieval import DEPTH, Ranking
from embscale.texts.beir import RetrievalData

SPLIT = "test"
MAIN_DEPTH = 10


class FolderTask(AbsTaskRetrieval):
    """In-memory retrieval data as an MTEB task that keeps the score of every query."""

    k_values: Sequence[int] = (1, 3, 5, MAIN_DEPTH, 20, DEPTH)
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
            main_score=f"ndcg_at_{MAIN_DEPTH}",
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
        """Provide the data; nothing is fetched."""
        if self.data_loaded:
            return

        def dataset(texts: dict[str, str]) -> Dataset:
            return Dataset.from_dict({"id": list(texts), "text": list(texts.values())})

        split: Any = {
            "corpus": dataset(self.data.documents).add_column("title", [""] * len(self.data.documents)),
            "queries": dataset(self.data.queries),
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


class Search:
    """A ranking in the form of MTEB's search protocol."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """MTEB asks every model for it."""
        return ModelMeta.create_empty({"name": "embscale/table", "revision": "in-memory"})

    def index(self, corpus: Dataset, **kwargs: Any) -> None:  # noqa: ANN401
        """Nothing to do."""

    def search(self, queries: Dataset, **kwargs: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401
        """The ranking in MTEB's form: query id to document id to score."""
        names = self.ranking.documents[self.ranking.places]
        there = np.isfinite(self.ranking.scores)
        return {
            query: dict(zip(names[i][there[i]], self.ranking.scores[i][there[i]].tolist(), strict=True))
            for i, query in enumerate(self.ranking.queries)
        }
