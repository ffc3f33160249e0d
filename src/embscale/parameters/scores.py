"""Parameters of the scores of tables: retrieval, words, and the claims about both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from embscale.parameters.kinds import (
    SET,
    SOME,
    Count,
    Counts,
    Metric,
    Names,
    Paths,
    Seed,
    Seeds,
    Share,
    SpecialTokens,
    Task,
    TextLength,
    Variants,
)

Pooling = Literal["mean", "sum", "max"]


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are resampled."""

    bootstrap_resamples: Annotated[Count, "of the clusters of queries, the texts or whatever an interval is over"]
    bootstrap_seed: Annotated[Seed, "of the resampling"]


@dataclass(frozen=True)
class ClusterSeed:
    """How queries that belong together are found, without the resampling of them."""

    bootstrap_seed: Annotated[Seed, "of the resampling"]


@dataclass(frozen=True)
class LayerScores:
    """Which checkpoints have every layer scored; all texts of the main task run through each of them."""

    suites: Annotated[Names, "the ladder, its variations, and published suites that are under layers.suites too"]
    checkpoints: Annotated[Count, "of each run, evenly spread over those there are, the last always among them"]
    runs: Annotated[Count, "of each width, the first of them; with one, intervals are over queries alone"]


@dataclass(frozen=True)
class RandomTables:
    """The random tables that others are compared with."""

    dims: Annotated[Counts, "columns"]
    seeds: Annotated[Seeds, "one table for each"]


@dataclass(frozen=True)
class Factors:
    """Other ways of scoring each model's last table, compared with the study's own."""

    tables: Annotated[
        tuple[Literal["output", "effective"], ...],
        SET,
        "beside the input table; effective means the rows as the first block receives them",
    ]
    variants: Annotated[Variants, "of the input table"]
    pooling: Annotated[tuple[Literal["sum", "max"], ...], SET, "beside mean; sum ranks documents exactly as mean does"]
    special_tokens: Annotated[tuple[SpecialTokens, ...], SET, "beside the tokenizer's own setting"]


@dataclass(frozen=True)
class Metrics:
    """What is measured of a ranking."""

    metrics: Annotated[tuple[Metric, ...], SOME, "MTEB's names of the metrics, such as ndcg_at_10"]


@dataclass(frozen=True)
class TableVariants:
    """Changed tables."""

    variants: Annotated[Variants, "of each model's last table; full is always scored"]


@dataclass(frozen=True)
class Lengths:
    """How much of each document counts."""

    lengths: Annotated[
        tuple[TextLength, ...],
        SOME,
        "first tokens of each document that count, or all; the first is that of figures and of variants",
    ]


@dataclass(frozen=True)
class Shuffling:
    """The control that keeps a table's geometry and destroys what its rows mean."""

    shuffle_seed: Annotated[Seed, "of the order in which the rows of a trained table are given to other tokens"]


@dataclass(frozen=True)
class Comparison:
    """How tables of a suite are compared with each other."""

    rows: Annotated[int, {"minimum": 20}, "tokens whose rows are compared, drawn from those that training has seen"]
    neighbours: Annotated[Count, "nearest neighbours of a row that two tables may have in common"]
    permutations: Annotated[int, {"minimum": 19}, "random orders of one table's rows, for what chance gives"]
    groups: Annotated[int, {"minimum": 10}, "of rows, for the intervals of dimensions"]
    draws: Annotated[Count, "random tables of each width, measured beside the others"]
    seed: Annotated[Seed, "of the rows, their orders and groups, and of the random tables"]


@dataclass(frozen=True)
class Scores(Bootstrap, Shuffling, TableVariants, Lengths, Metrics):
    """Retrieval scores of embedding tables."""

    primary_metric: Annotated[Metric, "the one that figures show"]
    random: RandomTables
    factors: Factors
    layers: LayerScores
    comparison: Comparison


@dataclass(frozen=True)
class Margins:
    """How far apart two numbers of the ladder may be and still be the same."""

    score_share: Annotated[Share, "of the range of scores: the highest trained one less chance"]
    loss_share: Annotated[Share, "of how far training lowers the loss on held-out texts"]
    tokens_factor: Annotated[float, {"exclusiveMinimum": 1}, "either way, of tokens until random tables are passed"]


@dataclass(frozen=True)
class Claims:
    """Where the published claims are tested, and what counts as the same."""

    task: Annotated[Task, "on which published suites are compared; the ladder's is that of the corpus"]
    margins: Margins


@dataclass(frozen=True)
class WordProbes:
    """How tables are asked about words."""

    random_seeds: Annotated[Seeds, "of the random tables beside each table"]


@dataclass(frozen=True)
class Words(WordProbes):
    """What tables know about words; the words that come with the package are always asked."""

    analogies: Annotated[Paths, 'files with four words a line, ": SECTION" between them']
    similarity: Annotated[Paths, "files with two words and a number a line"]
