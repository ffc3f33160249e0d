"""MTEB tasks that suit a static table, and the main score of each with an interval.

MTEB loads the data and computes the score.  It gives no intervals, so they are computed here: by bootstrap over queries
or pairs if MTEB reports results for each, over experiments if MTEB repeats a task with different samples.
"""

from __future__ import annotations

import copy
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mteb
import numpy as np
import pandas as pd
from datasets.exceptions import DatasetNotFoundError
from huggingface_hub.errors import LocalEntryNotFoundError
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from scipy import stats

from embscale.checkpoints.hub import trying
from embscale.errors import EmbscaleError
from embscale.scoring.mteb_task import mteb_name
from embscale.statistics.resampling import CONFIDENCE, bootstrap_means, percentile_interval

if TYPE_CHECKING:
    from mteb.abstasks.abstask import AbsTask
    from mteb.models import EncoderProtocol

# One subset of one split of a task, as MTEB names them.
Part = tuple[str, str]

RETRIEVAL, RERANKING, STS = "Retrieval", "Reranking", "STS"
PAIRS, CLASSIFICATION, CLUSTERING = "PairClassification", "Classification", "Clustering"

# The unit of a task type's interval.  Other types need a trained head, a generator or another modality.
INTERVAL_OVER = {
    RETRIEVAL: "queries",
    RERANKING: "queries",
    STS: "pairs",
    PAIRS: "pairs",
    CLASSIFICATION: "experiments",
    CLUSTERING: "experiments",
}

# Tasks by name, with `:SUBSET` where a task has other languages as well, and their types.  One task of each type, with
# data that downloads in minutes:
SMALL = {
    "SCIDOCS": RETRIEVAL,
    "NFCorpus": RETRIEVAL,
    "SciFact": RETRIEVAL,
    "AskUbuntuDupQuestions": RERANKING,
    "STSBenchmark": STS,
    "SICK-R": STS,
    "Banking77Classification.v2": CLASSIFICATION,
    "TwentyNewsgroupsClustering.v2": CLUSTERING,
}
# MTEB(eng, v2) without the tasks with large corpora (TREC-COVID, Touché, FEVER, ClimateFEVER, HotpotQA, MindSmall) and
# without its one summarisation task, whose type is not listed above:
FULL = {
    "ArguAna": RETRIEVAL,
    "CQADupstackGamingRetrieval": RETRIEVAL,
    "CQADupstackUnixRetrieval": RETRIEVAL,
    "FiQA2018": RETRIEVAL,
    "SCIDOCS": RETRIEVAL,
    "AskUbuntuDupQuestions": RERANKING,
    "BIOSSES": STS,
    "SICK-R": STS,
    "STS12": STS,
    "STS13": STS,
    "STS14": STS,
    "STS15": STS,
    "STS17:en-en": STS,
    "STS22.v2:en": STS,
    "STSBenchmark": STS,
    "SprintDuplicateQuestions": PAIRS,
    "TwitterSemEval2015": PAIRS,
    "TwitterURLCorpus": PAIRS,
    "AmazonCounterfactualClassification:en": CLASSIFICATION,
    "Banking77Classification": CLASSIFICATION,
    "ImdbClassification": CLASSIFICATION,
    "MTOPDomainClassification:en": CLASSIFICATION,
    "MassiveIntentClassification:en": CLASSIFICATION,
    "MassiveScenarioClassification:en": CLASSIFICATION,
    "ToxicConversationsClassification": CLASSIFICATION,
    "TweetSentimentExtractionClassification": CLASSIFICATION,
    "ArXivHierarchicalClusteringP2P": CLUSTERING,
    "ArXivHierarchicalClusteringS2S": CLUSTERING,
    "BiorxivClusteringP2P.v2": CLUSTERING,
    "MedrxivClusteringP2P.v2": CLUSTERING,
    "MedrxivClusteringS2S.v2": CLUSTERING,
    "StackExchangeClustering.v2": CLUSTERING,
    "StackExchangeClusteringP2P.v2": CLUSTERING,
    "TwentyNewsgroupsClustering.v2": CLUSTERING,
}
TIERS = {"small": SMALL, "full": FULL}

# The split that MTEB's own benchmarks report, if a task has several.
TEST = "test"

# Texts per batch from MTEB; large batches are faster and do not change the vectors.
BATCH = 4096

# Numbers in one block of resamples; bounds memory at about 40 MB per array.
VALUES_PER_CHUNK = 5_000_000

# MTEB's names of the similarities of pairs.  For distance measures, MTEB reports the negated distance for STS and the
# distance itself for pair classification.
COMPARISONS = {
    "similarity": "similarity_scores",
    "cosine": "cosine_scores",
    "manhattan": "manhattan_distances",
    "euclidean": "euclidean_distances",
    "dot": "dot_scores",
}
DISTANCES = ("manhattan", "euclidean")

# Main scores for which an interval can be computed, by type.
MAIN_SCORES = {
    RETRIEVAL: r"(ndcg|map|recall|precision)_at_\d+",
    RERANKING: r"(ndcg|map|recall|precision)_at_\d+",
    STS: r"cosine_spearman",
    PAIRS: r"max_ap",
    CLASSIFICATION: r"accuracy|f1",
    CLUSTERING: r"v_measure",
}


EXAMPLE_COLUMNS = ["part", "example", "measure", "score", "label"]


@dataclass(frozen=True)
class TaskScore:
    """A main score with its interval.

    Attributes:
        value: MTEB's main score: the mean over the task's subsets and splits.
        ci_low, ci_high: 95 % interval; NaN if there is only one unit.
        n: number of units that the interval is over.
        interval_over: ``queries``, ``pairs`` or ``experiments``.
        examples: a row for each of them (and comparison): ``part`` (subset/split), ``example``, ``measure``, ``score``
            and ``label`` (judged similarity or class of a pair; empty for others).
    """

    value: float
    ci_low: float
    ci_high: float
    n: int
    interval_over: str
    examples: pd.DataFrame


def expand(names: list[str]) -> list[str]:
    """Names of tasks, with tiers replaced by their tasks, without duplicates."""
    return list(dict.fromkeys(task for name in names for task in TIERS.get(name, [name])))


def find(name: str) -> AbsTask:
    """Look up a task by MTEB's name, ``NAME`` or ``NAME:SUBSET,...``; nothing is fetched.

    Raises:
        EmbscaleError: MTEB has no such task or subset, or it does not suit a static table.
    """
    name, _, subsets = name.partition(":")
    try:
        task = mteb.get_task(name, hf_subsets=subsets.split(",") if subsets else None)
    except KeyError as error:
        raise EmbscaleError(f"task {name}: neither a task of MTEB nor a tier ({', '.join(TIERS)})") from error
    except ValueError as error:
        raise EmbscaleError(f"task {name}: has no subset {subsets}") from error
    metadata = task.metadata
    if isinstance(task, AbsTaskAggregate):
        parts = ", ".join(part.metadata.name for part in task.tasks)
        raise EmbscaleError(f"task {name}: a collection of tasks; name those that you want of {parts}")
    if metadata.type not in INTERVAL_OVER or metadata.modalities != ["text"]:
        raise EmbscaleError(
            f"task {name}: of the type {metadata.type} on {' and '.join(metadata.modalities)}, which a static table "
            f"cannot do; it can do {', '.join(INTERVAL_OVER)} on text"
        )
    if not re.fullmatch(MAIN_SCORES[metadata.type], metadata.main_score):
        raise EmbscaleError(f"task {name}: no interval is known for its main score {metadata.main_score}")
    if TEST in metadata.eval_splits:
        task.filter_eval_splits([TEST])
    return task


class TableTask:
    """One task, fetched once, on which any number of tables is evaluated.

    Attributes:
        name: as given by the user.
        task: MTEB's.
        metric: the name of its main score.
        interval_over: the unit of its intervals.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.task: Any = find(name)  # MTEB's classes share no type with all attributes used here
        self.metric: str = self.task.metadata.main_score
        self.interval_over = INTERVAL_OVER[self.task.metadata.type]

    @property
    def dataset(self) -> str:
        """Repository and revision of the data, which MTEB pins."""
        return "{path}@{revision}".format_map(self.task.metadata.dataset)

    def fetch(self) -> None:
        """Load the data from the hub or its cache.

        Raises:
            EmbscaleError: it cannot be fetched, or is not what MTEB expects.
        """
        if not self.task.data_loaded:
            trying(self.dataset, self._load)
            # Clustering draws its samples with these generators; every table must get the same samples.
            self._random = copy.deepcopy((self.task.rng_state, self.task.np_rng))

    def evaluate(self, encoder: EncoderProtocol, *, resamples: int, seed: int) -> TaskScore:
        """MTEB's main score of an encoder, with an interval.

        Args:
            encoder: a `TableEncoder`, or any other.
            resamples: of the bootstrap over queries or pairs.
            seed: of the resamples, which are the same for every encoder.

        Raises:
            EmbscaleError: the data cannot be fetched, or the score is not a number.
        """
        self.fetch()
        self.task.rng_state, self.task.np_rng = copy.deepcopy(self._random)
        parts = self._run(encoder)
        value = float(np.mean([scores["main_score"] for scores, _ in parts.values()]))
        if not np.isfinite(value):
            raise EmbscaleError(
                f"task {self.name}: the {self.metric} of {encoder.mteb_model_meta.name} is not a number; "
                "does the table give all texts the same vector?"
            )
        examples = [rows for _, rows in parts.values()]
        if self.interval_over == "experiments":
            n, low, high = over_experiments([rows["score"].to_numpy() for rows in examples])
        else:
            n = sum(rows["example"].nunique() for rows in examples)
            resampled = [self._resampled(rows, resamples, seed + place) for place, rows in enumerate(examples)]
            # One query or pair has no interval: its resamples are all the same.
            low, high = map(float, percentile_interval(np.mean(resampled, axis=0))) if n > 1 else (np.nan, np.nan)
        named = [rows.assign(part=f"{subset}/{split}") for (split, subset), (_, rows) in parts.items()]
        return TaskScore(value, low, high, n, self.interval_over, pd.concat(named, ignore_index=True)[EXAMPLE_COLUMNS])

    def _load(self) -> None:
        try:
            self.task.load_data()
        except LocalEntryNotFoundError:
            raise  # the caller reports it
        except ConnectionError as error:
            raise EmbscaleError(f"{self.dataset}: not here yet, and the hub cannot be asked ({error})") from error
        except DatasetNotFoundError as error:
            raise EmbscaleError(f"{self.dataset}: no such data set, or one that your token does not open") from error
        except (ValueError, FileNotFoundError) as error:
            reason = str(error).partition("\n")[0]
            raise EmbscaleError(f"{self.dataset}: not the data that MTEB expects ({reason})") from error

    def _run(self, encoder: EncoderProtocol) -> dict[Part, tuple[Mapping[str, Any], pd.DataFrame]]:
        """MTEB's scores of each part, and the per-example scores behind them."""
        per_query: dict[Part, dict[str, dict[str, float]]] = {}
        if self.interval_over == "queries":
            own = type(self.task).task_specific_scores

            def keep(scores: Any, *args: Any, hf_split: str, hf_subset: str) -> Any:  # noqa: ANN401
                per_query[hf_split, hf_subset] = scores
                return own(self.task, scores, *args, hf_split=hf_split, hf_subset=hf_subset)

            # The only place where MTEB exposes the scores of single queries.
            vars(self.task)["task_specific_scores"] = keep
        with tempfile.TemporaryDirectory() as folder:
            result = mteb.evaluate(
                encoder,
                self.task,
                cache=None,  # MTEB's own cache keeps scores even if the version or the data have changed
                co2_tracker=False,
                encode_kwargs={"batch_size": BATCH, "show_progress_bar": False},
                prediction_folder=folder if self.interval_over == "pairs" else None,
                show_progress_bar=False,
            )
            predictions = Path(folder, self.task.prediction_file_name)
            predicted = json.loads(predictions.read_text("utf-8")) if predictions.exists() else {}
        parts: dict[Part, tuple[Mapping[str, Any], pd.DataFrame]] = {}
        for split, rows in result.task_results[0].scores.items():
            for scores in rows:
                subset = scores["hf_subset"]
                if self.interval_over == "queries":
                    examples = self._queries(per_query[split, subset])
                elif self.interval_over == "pairs":
                    examples = self._pairs(split, subset, predicted[subset][split])
                else:
                    examples = self._experiments(scores)
                parts[split, subset] = scores, examples
        return parts

    def _queries(self, scores: dict[str, dict[str, float]]) -> pd.DataFrame:
        values = {
            query: {mteb_name(measure): value for measure, value in row.items()}[self.metric]
            for query, row in sorted(scores.items())
        }
        return pd.DataFrame(
            {"example": list(values), "measure": self.metric, "score": list(values.values()), "label": np.nan}
        )

    def _pairs(self, split: str, subset: str, predicted: dict[str, list[float]]) -> pd.DataFrame:
        data = self.task.dataset
        rows = data[subset][split] if subset in data else data[split]
        if self.task.metadata.type == STS:
            labels, measures = rows["score"], ["cosine"]
        else:
            rows = rows[0] if len(rows) == 1 else rows  # some repositories store all pairs in one row
            labels, measures = rows[self.task.label_column_name], list(COMPARISONS)
        frames = [
            pd.DataFrame(
                {
                    "example": [str(i) for i in range(len(labels))],
                    "measure": measure,
                    "score": predicted[COMPARISONS[measure]],
                    "label": np.asarray(labels, dtype=float),
                }
            )
            for measure in measures
        ]
        return pd.concat(frames, ignore_index=True)

    def _experiments(self, scores: Mapping[str, Any]) -> pd.DataFrame:
        """Scores of the repetitions, averaged over the levels of a hierarchy."""
        if self.task.metadata.type == CLASSIFICATION:
            values = [experiment[self.metric] for experiment in scores["scores_per_experiment"]]
        else:
            levels = scores[f"{self.metric}s"]
            values = list(np.mean(list(levels.values()), axis=0)) if isinstance(levels, dict) else levels
        return pd.DataFrame(
            {
                "example": [str(i) for i in range(len(values))],
                "measure": self.metric,
                "score": np.asarray(values, dtype=float),
                "label": np.nan,
            }
        )

    def _resampled(self, rows: pd.DataFrame, resamples: int, seed: int) -> np.ndarray:
        """The main score of one part in each resample of its queries or pairs, ``[resamples]``."""
        if self.interval_over == "queries":
            return bootstrap_means(rows[["score"]].to_numpy(), resamples=resamples, seed=seed)[:, 0]
        groups = [(measure, group["score"].to_numpy()) for measure, group in rows.groupby("measure", sort=False)]
        labels = rows["label"].to_numpy()[: len(groups[0][1])]

        def of_samples(counts: np.ndarray) -> np.ndarray:
            if self.task.metadata.type == STS:
                return spearman(groups[0][1], labels, counts)
            return np.max(
                [average_precision(-s if name in DISTANCES else s, labels, counts) for name, s in groups], axis=0
            )

        return np.concatenate([of_samples(counts) for counts in resampled_counts(len(labels), resamples, seed)])


def over_experiments(parts: Sequence[np.ndarray]) -> tuple[int, float, float]:
    """Number of experiments and Student's interval for their mean; a bootstrap of ten would be too narrow.

    For classification the interval reflects the choice of training texts, for clustering the choice of samples from the
    same texts.

    Args:
        parts: scores of the experiments of each subset; experiment i of all subsets is treated as one.

    Raises:
        EmbscaleError: the subsets repeat a different number of times, or not at all.
    """
    if len({len(part) for part in parts}) != 1 or len(parts[0]) < 2:
        raise EmbscaleError(
            f"experiments by subset: {', '.join(str(len(part)) for part in parts)}; expected two or more, as many in "
            "each; name one subset (TASK:SUBSET)"
        )
    values = np.mean(parts, axis=0)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values)
    return len(values), float(values.mean() - half), float(values.mean() + half)


def resampled_counts(n: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each of `n` pairs occurs in each resample, in blocks ``[resamples of the block, n]``.

    For many pairs, drawing indices and counting them takes a tenth of the time of a multinomial draw.
    """
    generator = np.random.default_rng(seed)
    at_once = max(1, VALUES_PER_CHUNK // n)
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        places = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(places.ravel(), minlength=size * n).reshape(size, n)


def spearman(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Spearman's correlation of `x` and `y` in weighted samples of pairs.

    Args:
        x: ``[n]``.
        y: ``[n]``.
        counts: how often each pair is in each sample, ``[samples, n]``.

    Returns:
        ``[samples]``; NaN if a sample is constant.
    """
    a, b = (_centred_ranks(values, counts) for values in (x, y))
    with np.errstate(invalid="ignore"):
        covariance, variance_a, variance_b = ((counts * p * q).sum(axis=1) for p, q in ((a, b), (a, a), (b, b)))
        return covariance / np.sqrt(variance_a * variance_b)


def average_precision(scores: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Average precision in weighted samples of pairs; equal scores share one threshold.

    Args:
        scores: the higher, the more similar, ``[n]``.
        labels: 1 for a pair that is similar, 0 for others, ``[n]``.
        counts: how often each pair is in each sample, ``[samples, n]``.

    Returns:
        ``[samples]``; NaN if a sample has no similar pair.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, similar = scores[order], labels[order] == 1
    if not similar.any():
        return np.full(len(counts), np.nan)
    # Precision matters only at thresholds with a similar pair; everything between two of them is summed at once.
    thresholds = np.unique(ranked[similar])[::-1]
    ends = np.searchsorted(-ranked, -thresholds, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    in_order = counts[:, order[: ends[-1]]]
    gains = np.add.reduceat(in_order, starts, axis=1).cumsum(axis=1)
    of_similar = in_order[:, similar[: ends[-1]]]
    relevant = np.add.reduceat(of_similar, np.searchsorted(-ranked[similar], -thresholds), axis=1)
    hits = relevant.cumsum(axis=1)
    with np.errstate(invalid="ignore"):
        return (relevant * hits / np.maximum(gains, 1)).sum(axis=1) / hits[:, -1]


def _sums(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Counts summed over equal values, by ascending value, ``[samples, distinct values]``."""
    order = np.argsort(values, kind="stable")
    _, starts = np.unique(values[order], return_index=True)
    return np.add.reduceat(counts[:, order], starts, axis=1)


def _centred_ranks(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean rank of each value in each sample minus the mean of all ranks, ``[samples, n]``."""
    sums = _sums(values, counts)
    ranks = sums.cumsum(axis=1) - sums / 2
    _, places = np.unique(values, return_inverse=True)
    return (ranks - counts.sum(axis=1, keepdims=True) / 2)[:, places]
