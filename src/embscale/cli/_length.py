"""Flags that cut documents to their first tokens before they are scored."""

from __future__ import annotations

import argparse

from embscale.cli._numbers import count

ALL = "all"


def add_length(parser: argparse.ArgumentParser) -> None:
    """Declare ``--length``."""
    parser.add_argument(
        "--length", type=length, required=True, help=f"first tokens of each document that count, or {ALL}"
    )


def tokens_of(length: str) -> int | None:
    """The number of tokens; None for all."""
    return None if length == ALL else int(length)


def length(text: str) -> str:
    """A length as a flag has it: a number of tokens, or `ALL`.

    Raises:
        argparse.ArgumentTypeError: the text is neither.
    """
    try:
        return text if text == ALL else str(count(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text[:20]!r}: expected a number of tokens from 1, or {ALL}") from None
