"""The flag of commands that read tidy rows."""

from __future__ import annotations

import argparse


def add_where(parser: argparse.ArgumentParser) -> None:
    """Declare the flag that chooses rows."""
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="keep only rows with this value; repeatable",
    )
