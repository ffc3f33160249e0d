"""The rule for how much of each document counts: as much as leaves the scores of random tables off the floor.

Trained tables have no part in it, so the choice cannot favour them.
"""

from __future__ import annotations

import pandas as pd

from embscale.rows.labels import ordered_lengths
from embscale.rows.selection import LADDER, random_tables, references
from embscale.scoring.estimates import CHANCE

# Random tables of the ladder's narrowest width score at least so many times chance,
TIMES_CHANCE = 10.0
# and those of its middle width, of two the wider, at least this share of BM25.
SHARE_OF_BM25 = 0.25
BM25 = "bm25"
COLUMNS = ["length", "narrowest", "chance", "times_chance", "middle", "bm25", "share_of_bm25", "off_floor"]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """How far random tables are off the floor at each length.

    Args:
        rows: of `embscale.scoring.estimates.estimates`, of one task, one metric, one tokenizer and all queries.

    Returns:
        `COLUMNS`, the shortest length first: the score of random tables of the narrowest width, chance, and the first
        over the second; the score of random tables of the middle width, BM25, and their ratio; whether both ratios
        are large enough.
    """
    widths = sorted(set(rows.loc[rows["suite"] == LADDER, "width"].dropna()))
    narrowest, middle = widths[0], widths[len(widths) // 2]
    found = []
    for length in ordered_lengths(rows["length"]):
        cut = rows[rows["length"] == length]
        random, levels = random_tables(cut).set_index("width")["value"], references(cut)["value"]
        times, share = random[narrowest] / levels[CHANCE], random[middle] / levels[BM25]
        off = bool(times >= TIMES_CHANCE and share >= SHARE_OF_BM25)
        found.append((length, random[narrowest], levels[CHANCE], times, random[middle], levels[BM25], share, off))
    return pd.DataFrame(found, columns=COLUMNS)


def choice(lengths: pd.DataFrame) -> str | None:
    """The longest length of `ratios` that is off the floor, None if none is."""
    off = lengths.loc[lengths["off_floor"], "length"]
    return str(off.iloc[-1]) if len(off) else None
