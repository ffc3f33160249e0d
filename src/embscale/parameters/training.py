"""Parameters of what the study trains: the ladder, static embeddings, and models that start from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from embscale.parameters import schema
from embscale.parameters.kinds import (
    SOME,
    Count,
    Counts,
    Device,
    Natural,
    Naturals,
    NotNegative,
    Positive,
    Seed,
    Seeds,
    Text,
    Variants,
)

Start = Literal["random", "random, frozen", "static", "static, frozen"]
StaticMethod = Literal["cbow", "skip-gram", "fasttext", "glove", "ppmi-svd"]

InputTable = Literal["trained", "frozen"]

LANGUAGE_MODEL = "ladder"  # what is tuned beside the static methods


@dataclass(frozen=True)
class Recipe:
    """What all trained language models share: their shape but for the width, and how they learn."""

    blocks: Annotated[Count, "transformer blocks"]
    head_width: Annotated[Count, "columns of an attention head"]
    context: Annotated[Count, "tokens of a sequence"]
    batch: Annotated[Count, "sequences in a step"]
    learning_rate: Annotated[Positive, "the highest"]
    final_learning_rate: Annotated[
        float,
        {"exclusiveMinimum": 0, "maximum": 1},
        "at the last step, as a share of the highest; 1 keeps it constant after the warmup",
    ]
    warmup: Annotated[Count, "steps up to the highest learning rate"]
    tied: Annotated[bool, "whether the output table is the input table"]
    embedding_rate: Annotated[Positive, "learning rate of the input table, as a multiple of that of the other weights"]
    weight_decay: Annotated[NotNegative, "of all matrices but the input table"]
    table_decay: Annotated[NotNegative, "of the input table"]


@dataclass(frozen=True)
class Steps:
    """How long a language model is trained."""

    steps: Annotated[Count, "of training"]


@dataclass(frozen=True)
class Length(Steps):
    """How long a language model is trained, and what is saved of it."""

    checkpoints: Annotated[Naturals, "steps after which a checkpoint is saved"]


@dataclass(frozen=True)
class RunSeed:
    """What distinguishes runs that are otherwise the same."""

    seed: Annotated[Seed, "of the initial weights and of the order of texts"]


@dataclass(frozen=True)
class Trainer:
    """Whether the input table learns, and where a model is trained."""

    input_table: Annotated[InputTable, "frozen keeps the random rows that the model starts with"]
    device: Annotated[Device, "cpu, where a run repeats to the bit; cuda; or auto, cuda where there is one"]


@dataclass(frozen=True)
class Runs(Trainer, Length, Recipe):
    """Models that differ only in width, and their training runs."""

    widths: Annotated[Counts, "columns of the embedding table, one model for each"]
    seeds: Annotated[
        Seeds, "of the initial weights and of the order of texts, a training run for each; the first is studied further"
    ]


# A variation names what differs from the ladder.
OF_VARIATIONS = {
    "propertyNames": {"pattern": "^[a-z][a-z0-9]*$"},
    "additionalProperties": {
        "type": "object",
        "description": "what differs from the ladder",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": schema.of_group(Runs)["properties"],
    },
}


@dataclass(frozen=True)
class Ladder(Runs):
    """The suite with a scale axis: decoder-only models that differ only in width."""

    variations: Annotated[
        dict[str, Any], OF_VARIATIONS, "other values of the parameters above by name, each a suite of its own"
    ]
    left_out: Annotated[
        dict[str, Text],
        "runs that are not trained, such as ladder-w64-seed2, each with the reason, which the report shows",
    ]


@dataclass(frozen=True)
class WarmRuns:
    """How language models that start from a static table are trained; the rest is as in the ladder."""

    starts: Annotated[tuple[Start, ...], SOME, "what the table of the model is at first, and whether it learns"]
    steps: Annotated[Count, "of training"]
    checkpoints: Annotated[Naturals, "steps after which the loss is measured; tables are scored at both ends"]


@dataclass(frozen=True)
class Window:
    """Static embeddings from counts alone."""

    window: Annotated[Count, "the farthest neighbour that counts, in tokens"]


@dataclass(frozen=True)
class Learnt(Window):
    """Static embeddings that are learnt."""

    epochs: Annotated[Count, "passes over the tokens"]
    learning_rate: Annotated[Positive, "the highest"]


@dataclass(frozen=True)
class Word2Vec(Learnt):
    """Static embeddings from the prediction of tokens."""

    subsample: Annotated[float, {"minimum": 0}, "share of all tokens above which a token is left out at random"]
    negative: Annotated[Natural, "counter-examples for each prediction; 0 means hierarchical softmax"]


@dataclass(frozen=True)
class FastText(Word2Vec):
    """Skip-gram with character n-grams."""

    ngrams: Annotated[tuple[Count, ...], {"minItems": 2, "maxItems": 2}, "fewest and most characters of an n-gram"]
    buckets: Annotated[Count, "vectors that the n-grams share"]


@dataclass(frozen=True)
class GloVe(Learnt):
    """Weighted least squares on the logarithms of co-occurrence counts."""

    x_max: Annotated[Positive, "count from which a pair has full weight"]


METHODS: dict[str, type[Window]] = {
    "cbow": Word2Vec,
    "skip-gram": Word2Vec,
    "fasttext": FastText,
    "glove": GloVe,
    "ppmi-svd": Window,
}
OF_METHODS = {
    "additionalProperties": False,
    "properties": {method: schema.of_group(group) for method, group in METHODS.items()},
}


@dataclass(frozen=True)
class StaticSeed:
    """What distinguishes trainings that are otherwise the same."""

    seed: Annotated[Seed, "of the initial vectors and of all draws"]


@dataclass(frozen=True)
class Static(StaticSeed):
    """Static embeddings of the ladder's tokens, each method a suite of its own."""

    dims: Annotated[Counts, "columns of the tables"]
    variants: Annotated[Variants, "scored beside each table, as under scores"]
    methods: Annotated[
        dict[str, Any],
        OF_METHODS,
        "methods by name, each with its settings",
    ]


@dataclass(frozen=True)
class Grid:
    """The values of one setting that are tried."""

    setting: Annotated[str, {"pattern": "^[a-z_]+$"}, "of the method, by its name in the parameters"]
    values: Annotated[tuple[float, ...], SOME, "one training for each"]


def _numbers(group: type) -> dict[str, Any]:
    """JSON Schema of a grid: one numeric setting of a group, with a list of its values."""
    kinds = {p.name: schema.of_kind(p.kind) for p in schema.parameters(group) if schema.plain(p.kind) in (int, float)}
    lists = {
        name: {"type": "array", "items": kind, "minItems": 1, "uniqueItems": True}
        for name, kind in kinds.items()
        if kind["type"] != "array"
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
        "properties": lists,
    }


@dataclass(frozen=True)
class TunedRecipe:
    """What of a language model can be tuned without changing its size or the tokens that it sees."""

    learning_rate: Annotated[Positive, "the highest"]


# Groups whose settings can be tuned, by method.
TUNED: dict[str, type] = {LANGUAGE_MODEL: TunedRecipe, **METHODS}
OF_GRIDS = {
    "additionalProperties": False,
    "properties": {method: _numbers(group) for method, group in TUNED.items()},
    "required": [LANGUAGE_MODEL],
}


@dataclass(frozen=True)
class Tuning:
    """One setting of each static method and of the language model, chosen on queries kept for it alone."""

    dim: Annotated[Count, "columns of the tables that are compared"]
    grids: Annotated[dict[str, Any], OF_GRIDS, "by method, one setting and the values to try, as many for all methods"]


@dataclass(frozen=True)
class WarmStart(WarmRuns):
    """Language models that start from a static table of the tokens that they see."""

    method: Annotated[StaticMethod, "of the static table"]
    dim: Annotated[Count, "columns of the table and of the model"]
    seeds: Annotated[Seeds, "of the initial weights and of the order of texts, one run for each"]
