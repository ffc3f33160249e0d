"""Effect on retrieval of adding learned positions to the rows of a table.

The mean over a text of row plus position is the mean of its rows plus the mean of its positions, which depends only on
the text's length (`positions.with_positions`).  Random positions of the same scale show how large the effect of length
by itself is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from embscale.primer.positions import with_positions
from embscale.statistics.resampling import bootstrap_means, percentile_interval
from embscale.tables import random_tables
from embscale.texts.tokens import TokenisedTexts

if TYPE_CHECKING:
    from embscale.texts.beir import RetrievalData

ALONE, LEARNED, RANDOM, RANDOM_TABLE = "table alone", "learned positions", "random positions", "random table"
COLUMNS = ("kind", "seed", "quantity", "metric", "value", "ci_low", "ci_high", "n")


def first_tokens(texts: TokenisedTexts, count: int) -> TokenisedTexts:
    """Texts cut after `count` tokens."""
    place = np.arange(len(texts.ids)) - np.repeat(texts.offsets[:-1], texts.lengths)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(texts.lengths, count))])
    return TokenisedTexts(texts.ids[place < count], offsets)


def position_score_rows(
    data: RetrievalData,
    documents: TokenisedTexts,
    queries: TokenisedTexts,
    *,
    table: np.ndarray,
    vectors: np.ndarray,
    metric: str,
    seeds: Sequence[int],
    resamples: int,
    bootstrap_seed: int,
) -> pd.DataFrame:
    """Scores of a table alone and with positions added, and their differences.

    Args:
        data: a retrieval task.
        documents: its tokens; texts are cut where positions end.
        queries: the same.
        table: rows as block 1 receives them, without the positions, ``[tokens, width]``.
        vectors: the position vectors in order, ``[places, width]``.
        metric: MTEB's name of it.
        seeds: of random positions of the same scale, and of random tables without any.
        resamples: of the bootstrap over queries, the same for all, so that differences are paired.
        bootstrap_seed: of the resamples.

    Returns:
        `COLUMNS`: the ``score`` of each kind from 0 to 1, and of kinds with positions the ``change`` against the table
        alone, with their 95 % intervals over ``n`` queries.
    """
    from embscale.scoring.metrics import depth_of
    from embscale.scoring.retrieval import Scorer

    short = [first_tokens(texts, len(vectors)) for texts in (documents, queries)]
    placed = [with_positions(texts, len(table), len(vectors)) for texts in short]
    plain, added = (Scorer(data, *texts, depth=depth_of(metric), device="cpu") for texts in (short, placed))

    def scored(scorer: Scorer, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = scorer.per_query(rows, [metric])[metric].to_numpy()
        return found

    scale = np.sqrt(np.square(vectors, dtype=np.float64).mean())
    found: list[tuple[str, int | None, np.ndarray]] = [
        (ALONE, None, scored(plain, table)),
        (LEARNED, None, scored(added, np.concatenate([table, vectors]).astype(np.float32))),
    ]
    for seed in seeds:
        drawn = scale * np.random.default_rng(seed).standard_normal(vectors.shape)
        found.append((RANDOM, seed, scored(added, np.concatenate([table, drawn]).astype(np.float32))))
        found.append((RANDOM_TABLE, seed, scored(plain, random_tables.independent(len(table), table.shape[1], seed))))
    alone = found[0][2]
    columns = [("score", *one) for one in found]
    columns += [("change", kind, seed, values - alone) for kind, seed, values in found if kind in (LEARNED, RANDOM)]
    values = np.stack([column[3] for column in columns], axis=1)
    low, high = percentile_interval(bootstrap_means(values, resamples=resamples, seed=bootstrap_seed))
    about = pd.DataFrame([column[:3] for column in columns], columns=["quantity", "kind", "seed"])
    rows = about.assign(metric=metric, value=values.mean(axis=0), ci_low=low, ci_high=high, n=len(values))
    return rows.astype({"seed": "Int64"})[list(COLUMNS)]
