"""Parameters of the texts: the corpus, its tokens, and data sets of texts from the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from embscale.parameters.kinds import SOME, Count, Names, Seed, Sha256, Share, SpecialTokens

TaskName = Annotated[str, {"pattern": "^[A-Za-z][A-Za-z0-9]*$"}]


@dataclass(frozen=True)
class Harvest:
    """Two retrieval tasks of what is installed: docstrings to those that they name, summaries to functions' code."""

    packages: Annotated[
        tuple[Annotated[str, {"pattern": r"^[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+$"}], ...],
        SOME,
        "distributions and the exact versions whose sources are read",
    ]
    sha256: Annotated[Sha256, "of the docstrings and their judgements, or any"]
    min_characters: Annotated[Count, "shorter docstrings are left out"]
    code_texts: Annotated[Count, "functions without their docstrings, another genre"]
    code_min_characters: Annotated[Count, "shorter functions are left out"]
    code_sha256: Annotated[Sha256, "of the functions and their judgements, or any"]
    heldout_fraction: Annotated[Share, "share of groups of near-duplicate documents that training never sees"]
    heldout_packages: Annotated[Names, "packages that training sees no document of, beside that share of the others"]
    shingle_words: Annotated[Count, "words in a row that near-duplicates are found by"]
    shared_shingles: Annotated[
        float,
        {"exclusiveMinimum": 0, "maximum": 1},
        "two documents are near-duplicates if they have this share of the smaller one's shingles in common",
    ]
    dev_fraction: Annotated[Share, "share of clusters of queries that settings are chosen on; no score is of these"]
    seed: Annotated[Seed, "of the held-out split, of the clusters and their split, and of the choice of functions"]


@dataclass(frozen=True)
class Corpus(Harvest):
    """The texts: docstrings and functions of packages that are already installed, as two retrieval tasks."""

    task: Annotated[TaskName, "name of the task of docstrings"]
    code_task: Annotated[TaskName, "name of the task of functions"]


@dataclass(frozen=True)
class TableRows:
    """Size of the vocabulary that tables are trained with."""

    vocab_size: Annotated[Count, "tokens of the vocabulary, and rows of the tables trained with it"]


@dataclass(frozen=True)
class Vocabulary(TableRows):
    """Size of the vocabulary that a tokenizer learns: all bytes, the end of text, and merges."""

    vocab_size: Annotated[int, {"minimum": 257}, "tokens of the vocabulary, and rows of the tables trained with it"]


@dataclass(frozen=True)
class Tokenisation:
    """How texts become tokens."""

    max_length: Annotated[Count, "tokens after which a text is cut"]
    special_tokens: Annotated[SpecialTokens, "whether the tokenizer's own special tokens are pooled"]


@dataclass(frozen=True)
class Tokenizer(Tokenisation, Vocabulary):
    """The tokenizer of everything that the study trains: byte-level BPE."""

    name: Annotated[str, {"pattern": "^[A-Za-z0-9-]+$"}, "recorded in every score row"]


@dataclass(frozen=True)
class HubTexts:
    """A data set of texts on the hub."""

    dataset: Annotated[str, {"pattern": r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$"}, "owner and name"]
    revision: Annotated[str, {"pattern": "^[0-9a-f]{40}$"}, "commit"]
    subset: Annotated[str, {"minLength": 1}, "configuration of the data set"]
    split: Annotated[str, {"minLength": 1}, "such as train"]
    column: Annotated[str, {"minLength": 1}, "that holds the texts"]
