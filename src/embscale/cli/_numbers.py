"""Types of flags that are numbers and no parameters of a study: with bounds, so that no library meets an odd one."""

from __future__ import annotations

import argparse
import math

LARGEST = 2**31 - 1  # what every library takes


def count(text: str) -> int:
    """A whole number from 1.

    Raises:
        argparse.ArgumentTypeError: it is none, or beyond `LARGEST`.
    """
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number from 0, such as a seed; as `count`."""
    return _whole(text, 0)


def positive(text: str) -> float:
    """A finite number above 0; as `count`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text[:20]!r}: expected a number above 0")
    return value


def _whole(text: str, least: int) -> int:
    # The length first: to read a number of thousands of digits takes long, and is refused by Python.
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= LARGEST):
        raise argparse.ArgumentTypeError(f"{text[:20]!r}: expected a whole number from {least} to {LARGEST}")
    return int(text)
