"""Flags of the form NAME=VALUE, and the links of a page, which are such."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from embscale.errors import EmbscaleError

LINK = "TITLE=URL"


def add_links(parser: argparse.ArgumentParser) -> None:
    """Declare the other pages of the site."""
    parser.add_argument(
        "--link",
        dest="links",
        action="append",
        default=[],
        metavar=LINK,
        help="another page of the site, for the navigation; repeatable",
    )


def links(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Titles and addresses of the other pages, from the flags of `add_links`."""
    return pairs("--link", texts, LINK)


def pairs(flag: str, texts: Sequence[str], form: str) -> list[tuple[str, str]]:
    """Names and values of a flag's texts; a value may hold further equals signs.

    Raises:
        EmbscaleError: a text is not of this form.
    """
    parts = [text.partition("=") for text in texts]
    if wrong := ["".join(part) for part in parts if not all(part)]:
        raise EmbscaleError(f"{flag} {wrong[0]}: expected {form}")
    return [(name, value) for name, _, value in parts]
