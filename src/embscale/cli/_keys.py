"""Columns that identify a model in the rows of a command; rules pass them, and they are recorded in the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal


@dataclass(frozen=True)
class OfSuite:
    """The model that rows are about."""

    suite: Annotated[str, "recorded in the output"]
    model: Annotated[str, "recorded in the output"]


@dataclass(frozen=True)
class OfModel(OfSuite):
    """The checkpoint that rows are about."""

    step: Annotated[str, "of training, recorded in the output; main if it is not known"]


@dataclass(frozen=True)
class OfTexts:
    """The texts that rows are about."""

    texts: Annotated[str, "name of their source, recorded in the output"]


@dataclass(frozen=True)
class OfTied:
    """Whether a model's output table is its input table."""

    tied: Annotated[Literal["yes", "no", "unknown"], "whether input and output table are one, recorded in the output"]


def known_step(step: str) -> str:
    """The step as in rows: empty if it is not known."""
    return "" if step == "main" else step
