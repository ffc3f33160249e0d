"""Flags that cut documents to their first tokens before they are scored."""

from __future__ import annotations

import argparse

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
    if text != ALL and not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of tokens from 1, or {ALL}")
    return text
