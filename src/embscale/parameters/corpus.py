"""Parameters of the texts: the corpus, its tokens, and data sets of texts from the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from embscale.parameters.kinds import SOME, Count, Seed, Sha256, Share, SpecialTokens


@dataclass(frozen=True)
class Harvest:
    """Docstrings of installed packages as a retrieval task, and the bodies of their functions as another genre."""

    packages: Annotated[
        tuple[Annotated[str, {"pattern": r"^[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+$"}], ...],
        SOME,
        "distributions and the exact versions whose sources are read",
    ]
    sha256: Annotated[Sha256, "of the harvest, or any"]
    min_characters: Annotated[Count, "shorter docstrings are left out"]
    code_texts: Annotated[Count, "functions without their docstrings, another genre"]
    code_min_characters: Annotated[Count, "shorter functions are left out"]
    code_sha256: Annotated[Sha256, "of the functions, or any"]
    heldout_fraction: Annotated[Share, "share of documents that training never sees"]
    seed: Annotated[Seed, "of the held-out split, and of the choice of functions"]


@dataclass(frozen=True)
class Corpus(Harvest):
    """The texts: docstrings of packages that are already installed, as a retrieval task."""

    task: Annotated[str, {"pattern": "^[A-Za-z][A-Za-z0-9]*$"}, "name of the retrieval task"]


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
