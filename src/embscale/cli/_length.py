"""The flag that cuts documents to their first tokens before they are scored."""

from __future__ import annotations

import argparse

ALL = "all"


def add_length(parser: argparse.ArgumentParser) -> None:
    """Declare ``--length``."""
    parser.add_argument(
        "--length", type=_length, required=True, help=f"first tokens of each document that count, or {ALL}"
    )


def tokens_of(length: str) -> int | None:
    """The number of tokens; None for all."""
    return None if length == ALL else int(length)


def _length(text: str) -> str:
    if text != ALL and not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of tokens from 1, or {ALL}")
    return text
