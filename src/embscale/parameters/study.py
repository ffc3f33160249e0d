"""All parameters of a study, in the order of ``params.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from embscale.parameters import schema
from embscale.parameters.checking import ParameterError, check
from embscale.parameters.contradictions import contradictions
from embscale.parameters.corpus import Corpus, HubTexts, Tokenizer
from embscale.parameters.kinds import Count, Names, Positive, RendererName, Tasks
from embscale.parameters.layers import Layers
from embscale.parameters.primer import Positions, Primer
from embscale.parameters.scores import Claims, Scores, Words
from embscale.parameters.training import Ladder, Static, Tuning, WarmStart


@dataclass(frozen=True)
class Limits:
    """How much a study may fetch (1 GB is 10^9 bytes)."""

    max_table_gb: Annotated[Positive, "a larger table is left out, and the report says so"]
    max_checkpoint_gb: Annotated[Positive, "the same for whole checkpoints, which hidden states need"]
    max_download_gb: Annotated[Positive, "a study that would fetch more stops before it starts"]


@dataclass(frozen=True)
class Hub(Limits):
    """Published checkpoints, and what may be fetched of them."""

    registry: Annotated[str, {"minLength": 1}, "file with what is known of every suite"]
    pins: Annotated[str, {"minLength": 1}, "file with the commit that each revision stands for"]
    local_paths: Annotated[
        dict[str, Annotated[str, {"minLength": 1}]], "model: folder, for weights that a hub does not have"
    ]


@dataclass(frozen=True)
class ListedQueries:
    """Queries that the explorer lists of each model."""

    queries_listed: Annotated[Count, "queries that gain most by training, and as many that lose most"]


@dataclass(frozen=True)
class Report(ListedQueries):
    """How the report is made."""

    renderer: Annotated[RendererName, "pandoc comes with the Python packages, quarto must be installed"]
    beside: Annotated[
        str,
        {"pattern": "^[a-z][a-z0-9-]*$"},
        "study whose recorded answers about the ladder are shown, marked as such, beside what this one computes",
    ]


@dataclass(frozen=True)
class Study:
    """A study: its name, its texts and models, and every experiment on them."""

    # results/hub and results/runs are for what studies share.
    study: Annotated[str, {"pattern": "^(?!(hub|runs)$)[a-z][a-z0-9-]*$"}, "name; results lie under results/NAME"]
    corpus: Corpus
    tokenizer: Tokenizer
    ladder: Ladder
    suites: Annotated[Names, "published suites to study beside the ladder, by their names in the registry"]
    hub: Hub
    tasks: Annotated[Tasks, "retrieval tasks of MTEB to score on, beside the corpus; NAME:SUBSET is one in a language"]
    other_tasks: Annotated[Tasks, "tasks of MTEB of other kinds, or the tiers small and full"]
    texts: Annotated[
        dict[str, HubTexts],
        {"propertyNames": {"pattern": "^(?!(heldout|code)$)[a-z][a-z0-9_-]*$"}},
        "data sets of texts by name",
    ]
    scores: Scores
    claims: Claims
    layers: Layers
    static: Static
    tuning: Tuning
    words: Words
    warm_start: WarmStart
    primer: Primer
    positions: Positions
    report: Report


def check_study(config: dict[str, Any], *, source: str = "params.yaml") -> None:
    """Stop with every problem of a study's parameters: first those of single values, then contradictions.

    Args:
        config: the merged parameters.
        source: where they were read; each line of the message begins with it.

    Raises:
        ParameterError: one line per problem.
    """
    check(config, study_schema(), source=source)
    if lines := contradictions(config):
        raise ParameterError("\n".join(f"{source}: {line}" for line in lines))


def study_schema() -> dict[str, Any]:
    """The JSON Schema of ``params.yaml``."""
    return {"$schema": schema.DRAFT, **schema.of_group(Study)}
