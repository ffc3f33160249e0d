"""Scores of single queries of trained tables, each beside random tables of its tokenizer and width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows.selection import last_checkpoint
from embscale.scoring.scores import NONE

RANDOM, FULL = "random", "full"

# Groups of scores that are compared: the same task in the same way.
SAME = ("task", "length", "metric", "tokenizer", "pooling", "special_tokens")
KEYS = ("suite", "model", "width", "variant", *SAME)


class Pair(NamedTuple):
    """A model's last table and random tables of its width, treated alike.

    Attributes:
        named: values of `KEYS`.
        control: the treatment of the random tables, as in the column ``variant``.
        trained: ``[training runs, queries]``.
        random: ``[random draws, queries]``, the same queries in the same order.
    """

    named: dict[str, Any]
    control: str
    trained: pd.DataFrame
    random: pd.DataFrame


def pairs(per_query: pd.DataFrame, variants: Sequence[str]) -> Iterator[Pair]:
    """The last tables of all models that have random tables of their width beside them.

    Args:
        per_query: rows of ``embscale score --per-query``.
        variants: treatments of the table; the random tables are treated in the same way.

    Raises:
        EmbscaleError: a score occurs twice, or runs were scored on different queries.
    """
    trained = per_query[~per_query["suite"].isin([RANDOM, "reference"])]
    trained = last_checkpoint(trained.assign(step=trained["step"].astype("Int64").mask(trained["step"] == NONE)))
    for keys, own in trained[trained["variant"].isin(variants)].groupby(list(KEYS), sort=True):
        named = dict(zip(KEYS, keys, strict=True))
        control = RANDOM if named["variant"] == FULL else f"{RANDOM}+{named['variant']}"
        other = per_query[(per_query["suite"] == RANDOM) & (per_query["variant"] == control)]
        for name in ("width", *SAME):
            other = other[other[name] == named[name]]
        if other.empty:
            continue
        wide, drawn = _wide(own, "run", named), _wide(other, "seed", named)
        if not wide.columns.equals(drawn.columns):
            raise EmbscaleError(f"{named['model']}, {named['variant']}: random tables were scored on other queries")
        yield Pair(named, control, wide, drawn)


def _wide(rows: pd.DataFrame, column: str, named: dict[str, Any]) -> pd.DataFrame:
    """Scores of one table, a row for each run or draw and a column for each query."""
    if rows.duplicated([column, "query"]).any():
        raise EmbscaleError(f"{named['model']}, {named['variant']}: a score of a {column} occurs twice; check --where")
    wide = rows.pivot(index=column, columns="query", values="score")
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"{named['model']}, {named['variant']}: a {column} was scored on other queries")
    return wide
