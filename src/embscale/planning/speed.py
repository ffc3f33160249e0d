"""How fast this machine is at each kind of operation, measured in a few seconds, and how long jobs take by that."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from embscale.planning.work import GRADIENT, PAIRS, PRODUCT, RANKING, SORTING, STEP, TRAINING, Job
from embscale.threads import limited
from embscale.training import plan

# Seconds of a core before a job's first line of work, for its libraries; of training they are measured.
STARTS = {"hub": 1.5, "texts": 1.5, "training": 4.0, "scores": 7.5, "layers": 3.5, "primer": 3.0, "report": 1.7}
ON_DEVICE = (PRODUCT, TRAINING, RANKING, PAIRS, GRADIENT)  # what a GPU takes over
LAUNCHES = 1e-4  # seconds that a GPU needs for a step at least: fourteen kernels of 7 microseconds each, not measured


@dataclass(frozen=True)
class Speed:
    """How fast a core of this machine is.

    Attributes:
        rates: operations a second, by kind.
        training: how long each model takes.
    """

    rates: Mapping[str, float]
    training: plan.Speed

    def seconds(self, job: Job) -> float:
        """Seconds of a core that a job takes."""
        if job.training is not None:
            return self.training.seconds(job.training)
        counted = sum(count / self.rates[kind] for kind, count in job.operations.items() if kind != STEP)
        return STARTS[job.chapter] + job.seconds + counted

    def with_gpu(self, job: Job, throughput: float) -> float:
        """Seconds where a GPU of a stated throughput does the products of the jobs whose device may be one.

        Args:
            job: of any kind.
            throughput: floating-point operations a second that it keeps up.
        """
        if job.device == "cpu":
            return self.seconds(job)
        on_device = sum(count for kind, count in job.operations.items() if kind in ON_DEVICE)
        rest = {kind: count for kind, count in job.operations.items() if kind not in (*ON_DEVICE, STEP)}
        start = self.training.start if job.training is not None else STARTS[job.chapter]
        beside = sum(count / self.rates[kind] for kind, count in rest.items())
        launched = job.operations.get(STEP, 0) * LAUNCHES
        return start + job.seconds + beside + launched + on_device / throughput


def measure(trainings: Sequence[plan.Training], *, seconds: float) -> Speed:
    """Time one thread at a matrix product, a ranking, a logistic regression, a tree, and at steps of training.

    Args:
        trainings: of `plan.trainings`.
        seconds: for all together, most of it for the steps; libraries are imported on top of that.

    Raises:
        EmbscaleError: a model cannot be built, or torch finds no such device.
    """
    share = seconds / 10
    with limited(1):
        training = plan.measure(trainings, seconds=6 * share)
        rates = {PRODUCT: _product(share), GRADIENT: _gradient(share), SORTING: _sorting(share)}
        rates |= _ranking(share)
    return Speed(rates, training)


def _repeated(run: Callable[[], float], seconds: float) -> float:
    """Operations a second of what returns its operations, at its fastest: other work only makes it slower."""
    best, until = 0.0, time.perf_counter() + seconds
    while not best or time.perf_counter() < until:
        before = time.process_time()
        count = run()
        best = max(best, count / max(time.process_time() - before, 1e-6))
    return best


def _product(seconds: float) -> float:
    """A product of two square matrices in float32."""
    import torch

    side = 1024
    one = torch.ones(side, side)

    def run() -> float:
        torch.mm(one, one)
        return 2.0 * side**3

    return _repeated(run, seconds)


def _gradient(seconds: float) -> float:
    """scikit-learn's logistic regression in float32: each iteration computes one gradient, as does its start."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    examples, columns, classes = 12_000, 256, 13
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, examples)
    features = generator.standard_normal((examples, columns), np.float32)
    features[np.arange(examples), labels] += 1

    def run() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it stops before it converges
            fitted = LogisticRegression(max_iter=8).fit(features, labels)
        return float((fitted.n_iter_.max() + 1) * 4.0 * examples * columns * classes)

    return _repeated(run, seconds)


def _sorting(seconds: float) -> float:
    """Growing a decision tree of one level, which sorts every column once."""
    import numpy as np
    from sklearn.tree import DecisionTreeClassifier

    examples, columns = 5_000, 16
    generator = np.random.default_rng(0)
    features = generator.standard_normal((examples, columns), np.float32)
    labels = generator.integers(0, 13, examples)

    def run() -> float:
        DecisionTreeClassifier(max_depth=1).fit(features, labels)
        return float(examples * columns * np.log2(examples))

    return _repeated(run, seconds)


def _ranking(seconds: float) -> dict[str, float]:
    """The study's own scoring of a narrow and a wide table: what pairs cost, and what columns add."""
    import numpy as np

    from embscale.scoring.retrieval import Scorer
    from embscale.texts.beir import RetrievalData
    from embscale.texts.tokens import TokenisedTexts

    documents, queries, length, rows = 2_000, 500, 64, 4_096
    generator = np.random.default_rng(0)

    def texts(count: int, tokens: int) -> TokenisedTexts:
        ids = generator.integers(0, rows, count * tokens).astype(np.int32)
        return TokenisedTexts(ids, np.arange(count + 1, dtype=np.int64) * tokens)

    names = {f"d{i}": "" for i in range(documents)}, {f"q{i}": "" for i in range(queries)}
    judged = {f"q{i}": {f"d{i}": 1} for i in range(queries)}
    scorer = Scorer(
        RetrievalData("measured", *names, judged, ""), texts(documents, length), texts(queries, 8), device="cpu"
    )
    pairs, operations = float(documents * queries), {}
    narrow, wide = 16, 512
    rate = {}
    for dims in (narrow, wide):
        table = generator.standard_normal((rows, dims), np.float32)

        def run(table: np.ndarray = table) -> float:
            scorer.per_query(table, ["ndcg_at_10", "map_at_100", "recall_at_100"])
            return pairs

        rate[dims] = _repeated(run, seconds / 2)
        operations[dims] = 2.0 * dims * (documents * length + pairs)
    added = max(pairs / rate[wide] - pairs / rate[narrow], 1e-4)
    return {PAIRS: rate[narrow], RANKING: (operations[wide] - operations[narrow]) / added}
