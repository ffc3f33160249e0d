"""Scores of queries with rare and with frequent tokens, trained tables beside random ones of the same width.

A random table ranks by shared tokens alone, and shared rare tokens say more than shared frequent ones.  What training
adds may thus differ between queries of rare and of frequent words, which a mean over all queries hides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.scoring import beside_random
from embscale.scoring.beside_random import KEYS
from embscale.statistics.resampling import percentile_interval
from embscale.statistics.two_way import Resamples
from embscale.tables.variants import Context
from embscale.texts.tokens import TokenisedTexts

QUARTERS = 4
ALL = "all"
TRAINED, RANDOM, DIFFERENCE = "trained", "random", "difference"

COLUMNS = [
    *KEYS, "quarter", "frequency_low", "frequency_high", "table", "value", "ci_low", "ci_high", "runs", "draws", "n",
    "clusters",
]  # fmt: skip


def mean_log_frequency(documents: TokenisedTexts, queries: TokenisedTexts) -> np.ndarray:
    """Mean over a query's tokens of ``log(1 + document frequency)``, ``[queries]``; 0 for a query without tokens.

    Repeated tokens count each time, as in the mean of their rows.

    Args:
        documents: whole documents of the task.
        queries: of the same tokenizer.
    """
    rows = int(max(documents.ids.max(initial=-1), queries.ids.max(initial=-1))) + 1
    logs = np.log1p(Context.of(documents, rows).document_frequency.astype(np.float64))
    text = np.repeat(np.arange(len(queries)), queries.lengths)
    sums = np.bincount(text, weights=logs[queries.ids], minlength=len(queries))
    return sums / np.maximum(queries.lengths, 1)


def quarters(frequency: pd.Series) -> pd.Series:
    """The quarter of each query by its frequency, 1 for the rarest tokens; equal values are parted by name."""
    order = frequency.sort_index().sort_values(kind="stable").index
    parts = np.array_split(np.arange(len(order)), QUARTERS)
    number = np.repeat(np.arange(1, QUARTERS + 1), [len(part) for part in parts])
    return pd.Series(number, index=order).reindex(frequency.index)


def by_quarter(
    per_query: pd.DataFrame, frequency: pd.Series, *, variants: Sequence[str], resamples: int, seed: int
) -> pd.DataFrame:
    """Scores by quarter of the queries: of each model's last table, of random tables, and the difference.

    Args:
        per_query: rows of ``embscale score --per-query`` on one task.
        frequency: of each query, from `mean_log_frequency`.
        variants: treatments of the table to compare; the random tables are treated in the same way.
        resamples: of clusters of queries, and of runs.
        seed: of the resampling.

    Returns:
        Columns `COLUMNS`, for each quarter and for `ALL` queries: the geometric mean document frequency of the tokens
        of the rarest and of the most frequent query, and for the table `TRAINED`, `RANDOM` and their `DIFFERENCE` the
        mean over training runs or random draws, with a two-way interval over clusters of queries and runs or draws;
        of one cluster, none.

    Raises:
        EmbscaleError: a query has no frequency, or no model has random tables of its width beside it.
    """
    if unknown := set(per_query["query"]) - set(frequency.index):
        raise EmbscaleError(f"query {min(unknown)!r} is not in the task; give the task and tokens of these scores")
    clusters = per_query.drop_duplicates("query").set_index("query")["cluster"]
    parts = quarters(frequency.loc[sorted(clusters.index)])
    groups = {ALL: parts.index} | {number: parts.index[parts == number] for number in range(1, QUARTERS + 1)}
    resampled = {
        quarter: Resamples(clusters.loc[queries].to_numpy(), resamples=resamples, seed=seed)
        for quarter, queries in groups.items()
        if len(queries)
    }
    rows: list[dict[str, Any]] = []
    for named, control, *wide in beside_random.pairs(per_query, variants):
        for quarter, resample in resampled.items():
            queries = groups[quarter]
            of_both = [scores[queries].to_numpy() for scores in wide]
            draws = [resample.draws(values, name) for values, name in zip(of_both, (TRAINED, control), strict=True)]
            means = [values.mean() for values in of_both]
            of_queries = frequency[queries]
            shared = named | {
                "quarter": quarter, "frequency_low": math.expm1(of_queries.min()),
                "frequency_high": math.expm1(of_queries.max()),
                "runs": len(of_both[0]), "draws": len(of_both[1]), "n": len(queries), "clusters": resample.clusters,
            }  # fmt: skip
            for table, value, drawn, lowest in (
                (TRAINED, means[0], draws[0], 0),
                (RANDOM, means[1], draws[1], 0),
                (DIFFERENCE, means[0] - means[1], draws[0] - draws[1], -1),
            ):
                # Scores are from 0 to 1, and so is what can be said of them.
                ends = np.clip(percentile_interval(drawn), lowest, 1) if resample.clusters > 1 else [math.nan] * 2
                rows.append(shared | {"table": table, "value": value, "ci_low": ends[0], "ci_high": ends[1]})
    if not rows:
        raise EmbscaleError(
            f"no model has a table {' or '.join(variants)} and random tables of its width, treated alike, beside it"
        )
    return pd.DataFrame(rows, columns=COLUMNS)
