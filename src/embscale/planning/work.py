"""The jobs of a study by chapter: operations, memory, and the seconds that do not depend on operations.

Operations are of several kinds, whose speeds `embscale.planning.speed` measures:

- ``product``: floating-point operations of large matrix products (forward passes, covariances);
- ``training``: those of training a language model;
- ``ranking``: those of scoring a table, pooling and cosines;
- ``pairs``: cosines that are sorted, one for each query and document;
- ``gradient``: floating-point operations of fitting a linear classifier;
- ``step``: gradients of a batch, one after the other, which take a GPU the time of their launches at least;
- ``sorting``: comparisons of growing decision trees.

Constants that stand for iterations and seconds were measured on the default study and at the size of GPT-2; each says
where.  Small steps between the counted ones are left out, so that the smallest jobs take longer than is told.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from embscale.claims import published_cells
from embscale.layers.ablations import INNER_FOLDS, sizes
from embscale.layers.classifiers import LOGISTIC_REGRESSION, SGD, SGD_BATCH, SGD_TEST_FRACTION
from embscale.layers.examples import NO_CONTROL
from embscale.layers.probes import Condition, conditions
from embscale.planning.models import Model, Models, grid_sample
from embscale.tables.random_tables import parse_random
from embscale.training import cost
from embscale.training.plan import Training

PRODUCT, TRAINING, RANKING, PAIRS, GRADIENT, STEP, SORTING = (
    "product", "training", "ranking", "pairs", "gradient", "step", "sorting",
)  # fmt: skip
KINDS = (PRODUCT, TRAINING, RANKING, PAIRS, GRADIENT, STEP, SORTING)

# In the order of the stories.
CHAPTERS = ("hub", "texts", "training", "scores", "layers", "primer", "report")

# Of the logistic regression at the size of GPT-2: gradients of a cold start, and of one at another split's solution.
COLD, WARM = 80, 35
# Seconds for each value of the training vectors, copied and standardised: 6 to 8e-9 for the latter, whatever the width.
STANDARDISING = 1e-8
FROM_SUMS = ("lda", "nearest_centroid")
BOUND = ("norm_only", "position_only", "majority")  # classifiers of a single number, which fit into any memory

# Texts that are not there yet: the default study's two tasks, documents, queries and tokens of all documents.
OWN_TEXTS = (2500, 2500, 500_000)
CHARACTERS_PER_TOKEN = 4.0
TOKENISED = 4.4e6  # characters a second and core (docs/benchmarks.md: 7.8 MB of SciFact in 0.889 s of two cores)
HARVEST = 3.0  # seconds for each package: the default study's six take 16 to 18 s of a core
LISTED = 8e-8  # seconds for each token, to list the texts (docs/benchmarks.md: SciFact, cold less tokenising less ours)

# Microseconds for each token and epoch: a constant, and a share for each column (docs/benchmarks.md).
STATIC = {"cbow": (0.45, 0.001), "skip-gram": (1.7, 0.0045), "fasttext": (5.0, 0.0135), "glove": (0.1, 0.0014)}
PPMI = 5.0  # seconds of a factorised table of counts of the default study's tokens
PICTURE = 13.0 / 1200  # seconds for each point, with t-SNE and UMAP (docs/benchmarks.md: 26.4 s of two jobs)
DRAWN = 1.0  # seconds of drawing a figure, beside the imports

GIB = 2**30
# What a process holds before it begins: its libraries (docs/benchmarks.md; the default study's own benchmark files).
LIBRARIES = {"hub": 0.3, "texts": 0.25, "training": 0.5, "scores": 0.6, "layers": 0.45, "primer": 0.5, "report": 0.5}
BLOCK = 0.45 * GIB  # of a scoring job: the bound of a block and its copies (docs/benchmarks.md: 1.02 GiB at most)
BY_DOCUMENT = 0.018 * GIB / 1000  # docs/benchmarks.md


class Texts(NamedTuple):
    """Size of a retrieval task.

    Attributes:
        documents, queries: how many.
        tokens: of all documents.
        size: bytes of the texts.
        known: whether it was looked up, not assumed.
    """

    documents: int
    queries: int
    tokens: float
    size: float
    known: bool

    def cut(self, length: int | str) -> float:
        """Tokens of all documents of which the first `length` are kept, at most."""
        return self.tokens if length == "all" else min(self.tokens, float(self.documents * int(length)))


@functools.cache
def texts_of(task: str) -> Texts:
    """Size of a task: as MTEB's own statistics tell it, or that of the default study's if it is not one of MTEB's."""
    name, _, subset = task.partition(":")
    spec = importlib.util.find_spec("mteb")
    folders = [Path(place) / "descriptive_stats" / "Retrieval" for place in spec.submodule_search_locations or ()] if (
        spec
    ) else []  # fmt: skip
    for folder in folders:
        if (file := folder / f"{name}.json").is_file():
            told = json.loads(file.read_text("utf-8"))
            told = told.get("test", next(iter(told.values())))
            told = told["hf_subset_descriptive_stats"][subset] if subset else told
            size = float(told["number_of_characters"])
            documents, queries = (told[f"{kind}_text_statistics"]["unique_texts"] for kind in ("documents", "queries"))
            return Texts(documents, queries, size / CHARACTERS_PER_TOKEN, size, known=True)
    documents, queries, tokens = OWN_TEXTS
    return Texts(documents, queries, tokens, CHARACTERS_PER_TOKEN * tokens, known=False)


@dataclass(frozen=True)
class Job:
    """A kind of job.

    Attributes:
        chapter: of `CHAPTERS`.
        name: rule and what it is of.
        operations: of each of `KINDS`, of one job.
        seconds: of a core that depend on no operations.
        memory: bytes at most.
        count: how many there are.
        device: where products run: the parameter's value, or cpu.
        smaller: the parameter that makes its memory smaller.
        training: the model that it trains, whose speed is its own.
    """

    chapter: str
    name: str
    operations: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    memory: float = 0.0
    count: int = 1
    device: str = "cpu"
    smaller: str = ""
    training: Training | None = None

    @property
    def peak(self) -> float:
        """Bytes of memory with the libraries."""
        return self.memory + LIBRARIES[self.chapter] * GIB


def jobs(models: Models, *, figures: int) -> list[Job]:
    """Every job of a study that is not a copy, by kind.

    Args:
        models: of the study.
        figures: of the report.
    """
    of_chapters = (_hub, _texts, _training, _scores, _layers, _reproduction, _primer)
    found = [job for chapter in of_chapters for job in chapter(models)]
    return [*found, Job("report", "draw", seconds=DRAWN, count=figures), Job("report", "render", seconds=5.0)]


# Chapter 0.


def _hub(models: Models) -> Iterator[Job]:
    for item in models.planned:
        if item.fetched_table_bytes:
            # Fetched in ranges and written in blocks; a table in another dtype is not converted.
            yield Job("hub", f"fetch_table {item.checkpoint.model}", memory=min(item.fetched_table_bytes, BLOCK))
        if item.fetched_whole_bytes:
            yield Job("hub", f"fetch_checkpoint {item.checkpoint.model}", memory=BLOCK)
    fetched = len(models.tokenizers) - 1 + len(models.config["tasks"]) + len(models.config["texts"])
    if fetched:
        yield Job("hub", "fetch_tokenizer, fetch_task, fetch_texts", count=fetched, memory=BLOCK)


# Chapter 1.


def _texts(models: Models) -> Iterator[Job]:
    yield Job("texts", "harvest", seconds=HARVEST * len(models.config["corpus"]["packages"]))
    yield Job("texts", "tokenizer", seconds=texts_of(models.tasks[0]).size / TOKENISED * 2)
    for task in models.tasks:
        texts = texts_of(task)
        yield Job(
            "texts", f"tokenize {task}", seconds=texts.size / TOKENISED, memory=4 * texts.size + 4 * texts.tokens,
            count=len(models.tokenizers), smaller="fewer of tasks",
        )  # fmt: skip


# Chapter 2.


def training_memory(training: Training) -> float:
    """Bytes of training a language model: weights, gradients, two moments, and what the backward pass needs.

    Activations are 68 bytes for each token, column and block and ten for each pair of tokens and head, twice what
    Korthikanti et al. 2022 (section 4.1) count in half precision; logits, their softmax and its gradient are float32.
    """
    shape, tokens = training.shape, training.tokens_per_step
    heads = max(1, training.width // shape["head_width"])
    of_block = 68 * tokens * training.width + 10 * tokens * shape["context"] * heads
    states = (2 + cost.MOMENTS) * cost.VALUE_BYTES * cost.parameters(shape)
    return float(states + shape["blocks"] * of_block + 3 * 4 * tokens * shape["vocab_size"])


def _training(models: Models) -> Iterator[Job]:
    for training in models.trainings:
        operations = {TRAINING: training.steps * training.operations_per_step}
        yield Job(
            "training", f"train {training.run or training.suite}", operations,
            memory=training_memory(training), device=training.device, training=training,
            smaller="a smaller ladder.batch, ladder.context or ladder.widths",
        )  # fmt: skip
    yield Job("training", "extract", count=len(models.own))
    config = models.config
    seen = config["ladder"]["steps"] * config["ladder"]["batch"] * config["ladder"]["context"]
    for method, settings in config["static"]["methods"].items():
        dims = dict.fromkeys([config["tuning"]["dim"], *models.static[method]])
        grid = config["tuning"]["grids"].get(method)
        tried = len(next(iter(grid.values()))) if grid else 1
        for dim in dims:
            once = static_seconds(method, settings.get("epochs", 1), dim, seen)
            yield Job(
                "training", f"static {method}-d{dim}", seconds=once * (tried if dim == config["tuning"]["dim"] else 1)
            )
    warm = config["warm_start"]
    yield Job("training", "start_table", count=len(warm["seeds"]), seconds=PPMI)


def static_seconds(method: str, epochs: int, dim: int, tokens: float) -> float:
    """Seconds of a core for a static table."""
    if method not in STATIC:
        return PPMI * max(1.0, tokens / 410_000)
    constant, by_column = STATIC[method]
    return 1e-6 * tokens * epochs * (constant + by_column * dim)


# Chapter 3.


def score_operations(texts: Texts, length: int | str, dims: int) -> dict[str, float]:
    """Operations of scoring a table once: two for each column of every token and of every pair of query and document.

    Args:
        texts: of the task.
        length: first tokens of each document that count, or ``all``.
        dims: columns.
    """
    pairs = float(texts.documents * texts.queries)
    return {RANKING: 2.0 * dims * (texts.cut(length) + pairs), PAIRS: pairs}


def score_memory(texts: Texts, dims: int) -> float:
    """Bytes of scoring a table: pooled texts and cosines, up to the bound of a block, and the lists of texts."""
    held = 4.0 * (texts.documents + texts.queries) * dims + 4.0 * texts.documents * texts.queries
    return min(BLOCK, held) + BY_DOCUMENT * texts.documents


def columns_of(variant: str, dims: int) -> int:
    """Columns of a table after a variant: ``crop:16`` has 16 at most, ``pad:512:7`` 512 at least, others all."""
    kind, *numbers = variant.split(":")
    if kind.startswith("crop"):
        return min(dims, int(numbers[0]))
    return max(dims, int(numbers[0])) if kind.startswith("pad") else dims


def _scoring(models: Models, name: str, task: str, tables: list[int], variants: list[str], treated: list[int]) -> Job:
    """A scoring job: every table at every length, and some of them also changed, at the first length alone."""
    texts, lengths = texts_of(task), models.config["scores"]["lengths"]
    total: dict[str, float] = {}
    for dims in tables:
        for length in lengths:
            _add(total, score_operations(texts, length, dims))
    for dims in treated:
        for variant in variants:
            _add(total, score_operations(texts, lengths[0], columns_of(variant, dims)))
    return Job(
        "scores", f"{name} on {task}", total, memory=score_memory(texts, max(tables)), smaller="fewer of tasks",
        device="auto", seconds=LISTED * sum(texts.cut(length) for length in lengths),
    )  # fmt: skip


def _scores(models: Models) -> Iterator[Job]:
    config = models.config
    scores, static = config["scores"], config["static"]
    lengths = scores["lengths"]
    code = config["corpus"]["code_task"]
    for task in models.tasks:
        variants = scores["variants"] if task != code else []
        for model in models.scored:
            # The last table also with its rows shuffled; the untrained one is changed in the same ways.
            tables = [model.dims] * (len(model.checkpoints) + 1)
            treated = [model.dims] * (2 + ("step0" in model.checkpoints[:-1]))
            yield _scoring(models, f"score {model.name}", task, tables, variants, treated)
        for method, dims in models.static.items():
            own = static["variants"] if task == models.tasks[0] else []
            yield _scoring(models, f"score {method}", task, dims, own, dims)
        for tokenizer in models.tokenizers:
            widths = {model.dims for model in models.scored if model.tokenizer == tokenizer}
            if tokenizer == config["tokenizer"]["name"]:
                widths |= set(static["dims"])
            for dims in scores["random"]["dims"]:
                drawn = [dims] * len(scores["random"]["seeds"])
                yield _scoring(
                    models, f"score random {tokenizer}", task, drawn, variants, drawn if dims in widths else []
                )
            yield _scoring(models, f"score references {tokenizer}", task, [64] * 4, [], [])
    texts = texts_of(config["claims"]["task"])
    factors = scores["factors"]
    for model in models.studied:
        ways = (1 + len(factors["tables"]) + len(factors["variants"])) * (1 + len(factors["pooling"]))
        once = score_operations(texts, lengths[0], model.dims)
        yield Job(
            "scores", f"score_factors {model.name}", {k: v * ways for k, v in once.items()}, memory=BLOCK, device="auto"
        )
    yield from _layer_scores(models)
    probed = len(models.studied) + sum(map(len, models.static.values()))
    yield Job("scores", "table_metrics, words", count=2 * probed)
    yield Job("scores", "extract_other", count=len(models.studied) * len(factors["tables"]))
    answers = "gather, estimates, claims, compare, factors, query_frequency, task_correlation, layer_estimates"
    yield Job("scores", answers, count=len(answers.split(", ")))
    yield Job("scores", "compare_tables", count=len({model.suite for model in models.own}), seconds=10.0)


def _layer_scores(models: Models) -> Iterator[Job]:
    """Every layer of some checkpoints, scored on the study's own task: a forward pass of all its documents each."""
    config = models.config
    chosen = config["scores"]["layers"]
    texts, length = texts_of(config["corpus"]["task"]), config["scores"]["lengths"][0]
    names = {f"ladder-w{width}" for width in config["ladder"]["widths"]}
    for model in models.scored:
        first = model.name in names if chosen["runs"] == 1 else model.own
        if model.suite not in chosen["suites"] or not (first if model.own else model in models.classified):
            continue
        passes = min(chosen["checkpoints"], len(model.checkpoints)) if model.own else 1
        layers = model.classes + 1
        tokens = texts.cut(length)
        total = {PRODUCT: passes * model.forward_operations(tokens, tokens / texts.documents)}
        for _ in range(passes * layers):
            _add(total, score_operations(texts, length, model.width))
        memory = model.weights * 4 + 4 * texts.documents * model.width * layers + BLOCK
        yield Job("scores", f"layer_scores {model.name}", total, memory=memory, device=config["layers"]["device"])


# Chapter 4.


class Set(NamedTuple):
    """Vectors that classifiers are fitted on.

    Attributes:
        vectors: at each layer.
        classes: layers.
        columns: of a vector.
    """

    vectors: float
    classes: int
    columns: int

    @property
    def examples(self) -> float:
        """At all layers."""
        return self.vectors * self.classes

    @property
    def size(self) -> float:
        """Bytes in float32."""
        return 4.0 * self.examples * self.columns

    def share(self, share: float, columns: int | None = None) -> Set:
        """Some of the vectors, and some of their columns."""
        return Set(self.vectors * share, self.classes, self.columns if columns is None else columns)


def gradient_operations(fitted: Set) -> float:
    """Floating-point operations of one gradient: four for each example, column and class, two products of two each.

    For 191,100 vectors of 768 columns and 13 classes that is 7.63 GFLOP.
    """
    return 4.0 * fitted.examples * fitted.columns * fitted.classes


def fit_operations(
    classifier: str, whole: Set, settings: Mapping[str, Any], fits: int
) -> tuple[dict[str, float], float]:
    """Operations, and seconds beside them, of fitting a classifier once for each of some splits.

    Args:
        classifier: of `embscale.layers.classifiers.CLASSIFIERS`.
        whole: all vectors, before the split.
        settings: parameters of the layers.
        fits: splits; a logistic regression after the first starts from the last one's solution.
    """
    train = whole.share(1 - (SGD_TEST_FRACTION if classifier == SGD else settings["test_fraction"]))
    values = train.examples * train.columns
    covariance = {PRODUCT: fits * 2.0 * values * train.columns}
    if classifier == LOGISTIC_REGRESSION:
        gradients = gradient_operations(train) * (COLD + WARM * (fits - 1))
        return covariance | {GRADIENT: gradients}, fits * values * STANDARDISING
    if classifier == SGD:
        tested = 2.0 * (whole.examples - train.examples) * train.columns * train.classes
        epochs = fits * settings["epochs"]
        steps = math.ceil(train.examples / SGD_BATCH)
        return {GRADIENT: epochs * (gradient_operations(train) + tested), STEP: float(epochs * steps)}, 0.0
    if classifier == "decision_tree":
        # Each level sorts every column anew.
        compared = values * math.log2(max(2.0, train.examples)) * settings["tree_depth"]
        return {SORTING: fits * compared}, 0.0
    if classifier == "lda":
        return covariance, 0.0
    if classifier in BOUND:
        return {SORTING: fits * train.examples * math.log2(max(2.0, train.examples))}, 0.0
    return {PRODUCT: fits * 2.0 * values}, 0.0


def fit_memory(classifier: str, whole: Set, settings: Mapping[str, Any]) -> float:
    """Bytes of a fit: all vectors if they are loaded, and those of training if those fit.

    What does not fit is read in chunks or from a temporary file; what needs all vectors at once is refused, see
    `embscale.layers.classifiers.check_memory`.
    """
    limit = settings["memory_gb"] * 1e9
    loaded = whole.size if whole.size <= limit else 0.0
    train = whole.share(1 - (SGD_TEST_FRACTION if classifier == SGD else settings["test_fraction"])).size
    chunk = 3 * 4.0 * settings["chunk"] * whole.classes * whole.columns
    if classifier in (*BOUND, *FROM_SUMS) or train > limit:
        return loaded + chunk
    return loaded + (whole.size if classifier == SGD else train + chunk)  # sgd: training and test examples


def whole_set(model: Model, settings: Mapping[str, Any]) -> Set:
    """All vectors of a model that classifiers use."""
    used = settings["texts_count"] * max(0, settings["tokens"] - settings["first_position"])
    return Set(used, model.classes, model.width)


def probed(settings: Mapping[str, Any]) -> list[Condition]:
    """What is fitted for every model."""
    return conditions(settings["classifiers"], settings["splits"], settings["inputs"], settings["controls"])


def _layers(models: Models) -> Iterator[Job]:
    settings = models.config["layers"]
    splits = len(settings["seeds"])
    for model in models.classified:
        if model.depth is None:
            continue
        whole = whole_set(model, settings)
        yield _states("states", model, settings, settings, count=len(models.sources_of(model)))
        fits = [(c.classifier, whole, splits) for c in probed(settings)]
        drawn = sum(c.control != NO_CONTROL for c in probed(settings)) * splits * whole.size / 4 * 2e-8
        yield _fitting(model, "probe", fits, settings, seconds=drawn)
        if model.name in settings["grid"]["models"]:
            if sample := grid_sample(settings):
                yield _states("grid_states", model, settings, sample, count=1)
            yield _fitting(model, "grid", list(_grid(model, settings)), settings)
        if model.name == settings["base"]:
            yield _ablations(model, settings)
            sources = len(settings["texts"])
            yield _fitting(model, "transfer", [(LOGISTIC_REGRESSION, whole, splits)] * (sources + 1), settings)
        # The lens multiplies some vectors of each layer with the output table.
        lens = 2.0 * settings["logit_lens"]["vectors"] * model.width * model.rows * (model.classes + 1)
        yield Job("layers", f"logit_lens {model.name}", {PRODUCT: lens}, memory=model.weights * 4.0)
        yield Job("layers", f"geometry {model.name}", seconds=1.0 * model.classes / 5, memory=min(whole.size, 2e9))
        if model.name in settings["pictured"]:
            yield Job("layers", f"reductions {model.name}", seconds=PICTURE * settings["reductions"]["points"])


def _states(rule: str, model: Model, settings: Mapping[str, Any], sample: Mapping[str, Any], *, count: int) -> Job:
    """Running texts through a model; `sample` tells how many, and how much of each."""
    tokens, item = sample["texts_count"] * sample["tokens"], 4 if settings["precision"] == "float32" else 2
    held = settings["batch"] * sample["tokens"] * model.stored_columns * 4.0
    return Job(
        "layers", f"{rule} {model.name}", {PRODUCT: model.forward_operations(tokens, sample["tokens"])},
        memory=model.weights * item + held, count=count, device=settings["device"],
        smaller="a smaller layers.batch, layers.precision, or hub.max_checkpoint_gb, which leaves the model out",
    )  # fmt: skip


def _grid(model: Model, settings: Mapping[str, Any]) -> Iterator[tuple[str, Set, int]]:
    """Cells of the grid: as published, and thinned to the vectors of the shortest window."""
    grid, splits = settings["grid"], len(settings["seeds"])
    for classifier in grid["classifiers"]:
        for count in grid["counts"]:
            used = [count * max(0, window - settings["first_position"]) for window in sorted(grid["windows"])]
            yield from ((classifier, Set(vectors, model.classes, model.width), splits) for vectors in used)
            yield from ((classifier, Set(used[0], model.classes, model.width), splits) for _ in used[1:])


def _fitting(
    model: Model, rule: str, fits: list[tuple[str, Set, int]], settings: Mapping[str, Any], *, seconds: float = 0.0
) -> Job:
    total: dict[str, float] = {}
    for classifier, whole, splits in fits:
        operations, beside = fit_operations(classifier, whole, settings, splits)
        _add(total, operations)
        seconds += beside + splits * whole.examples * settings["test_fraction"] * RESAMPLED
    return Job(
        "layers", f"{rule} {model.name}", total, seconds=seconds, device=settings["device"],
        memory=max(fit_memory(classifier, whole, settings) for classifier, whole, _ in fits),
        smaller="a smaller layers.memory_gb (logistic_regression alone then reads in chunks) or layers.texts_count",
    )  # fmt: skip


RESAMPLED = 3e-6  # seconds for each tested vector: predictions, metrics and the bootstrap of texts


def refits(width: int) -> Iterator[int]:
    """Columns of every refit of a split's classifier: without some dimensions, then with the first or random ones.

    Of each size, the frequent, important, high-variance and random dimensions are left out in turn.
    """
    for k in sizes(width // 2):
        yield from [width - k] * 4
    for k in sizes(width)[:-1]:
        yield from [k] * 2


def _ablations(model: Model, settings: Mapping[str, Any]) -> Job:
    """Base classifiers with and without the first positions, refits, penalties alone and in inner folds."""
    whole, splits = whole_set(model, settings), len(settings["seeds"])
    job = _fitting(model, "ablate", [(LOGISTIC_REGRESSION, whole, splits)] * 2, settings)
    train, tried = whole.share(1 - settings["test_fraction"]), len(settings["inverse_regularisations"])
    gradients = sum(gradient_operations(train.share(1, columns)) * WARM for columns in refits(model.width))
    inner = INNER_FOLDS * (1 - settings["test_fraction"])
    gradients += (1 + inner) * gradient_operations(train) * (COLD + WARM * (tried - 1))
    # Each dimension is permuted in turn: a few passes over the logits of all examples.
    permuted = train.examples * train.columns * train.classes * 4e-9
    total = dict(job.operations)
    covariances = sum(2.0 * train.examples * columns**2 for columns in refits(model.width))
    _add(total, {GRADIENT: splits * gradients, PRODUCT: splits * covariances})
    standardised = splits * sum(train.examples * columns for columns in refits(model.width)) * STANDARDISING
    return Job(
        job.chapter, job.name, total, job.seconds + splits * permuted + standardised, job.memory, device=job.device,
        smaller=job.smaller,
    )  # fmt: skip


# Chapters 3 and 4, once more: published numbers by their authors' protocols.


def _reproduction(models: Models) -> Iterator[Job]:
    for task in (task for task in models.tasks if task in published_cells.tasks()):
        texts = texts_of(task)
        names = [model.name for model in models.published]
        rows_of = {item.checkpoint.model: item.checkpoint.rows for item in models.planned}
        asked = {
            f"score_faithful {model.name}": [columns_of(form, model.dims) for form in forms]
            for model in models.published
            if (forms := published_cells.forms(model.name, task, names))
        } | {
            f"score_faithful_random {tokenizer}": [parse_random(text).dims for text in drawn]
            for tokenizer in models.tokenizers
            if (drawn := published_cells.random_tables(tokenizer, task, rows_of))
        }  # fmt: skip
        for name, columns in asked.items():
            total: dict[str, float] = {}
            for dims in columns:
                _add(total, score_operations(texts, "all", dims))
            memory = score_memory(texts, max(columns))
            yield Job(
                "scores", f"{name} on {task}", total, LISTED * texts.tokens, memory, device="auto",
                smaller="fewer of tasks",
            )  # fmt: skip
    settings = models.config["layers"]
    for model in models.classified:
        fits = [
            (classifier, Set(count * tokens, model.classes, model.width), 1)
            for tokens, count in published_cells.windows(model.name, models.sources_of(model))
            for classifier in (SGD, LOGISTIC_REGRESSION)
        ]
        if fits and model.depth is not None:
            yield _fitting(model, "faithful_layers", fits, settings)


# Chapter 5.


def _primer(models: Models) -> Iterator[Job]:
    yield Job("primer", "primer_of_table, primer_alone, sizes, position_scores", count=10)
    yield Job("primer", "positions", count=len(models.classified) + 1)


def _add(total: dict[str, float], some: Mapping[str, float]) -> None:
    for kind, count in some.items():
        total[kind] = total.get(kind, 0.0) + count
