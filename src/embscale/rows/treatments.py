"""What a score is of: which table, and what was done to it before it was scored."""

from __future__ import annotations

import pandas as pd

# Tables that a variant's name can begin with; without one it is the input table of a model.
INPUT = "input"
RANDOM = "random"
SHUFFLED = "shuffled"
REFERENCE = "reference"
FULL = "full"
OTHER_TABLES = (RANDOM, f"{RANDOM}_legacy", f"{RANDOM}_current", SHUFFLED, "output", "effective")


def split(variant: str) -> tuple[str, str]:
    """Table and kind of treatment of a score row's ``variant``: ``random+idf`` is (``random``, ``idf``)."""
    table, _, kind = variant.partition("+")
    if table in OTHER_TABLES:
        return table, kind or FULL
    return INPUT, variant


def treatments(rows: pd.DataFrame) -> pd.DataFrame:
    """Score rows with the columns ``table`` and ``treatment``, the latter with its numbers: ``crop:16``, ``sif:0.001``.

    What was done to a random or a shuffled table has the same name as done to a trained one, so they can be compared.

    Args:
        rows: with ``suite``, ``variant``, ``variant_dims`` and ``strength``; numbers that do not apply are negative or
            missing.
    """
    forms = rows[["suite", "variant", "variant_dims", "strength"]].drop_duplicates()
    named = []
    for suite, variant, dims, strength in forms.itertuples(index=False):
        table, kind = split(str(variant))
        # The columns of a random table as it is are its width.
        numbers = () if kind == FULL else (dims, strength)
        words = [f"{number:g}" for number in numbers if pd.notna(number) and number >= 0]
        named.append((REFERENCE if suite == REFERENCE else table, ":".join([kind, *words])))
    forms = forms.assign(table=[table for table, _ in named], treatment=[treatment for _, treatment in named])
    return rows.merge(forms, on=["suite", "variant", "variant_dims", "strength"], how="left")
