"""Do tables rank alike on two tasks?  Rank correlations of their scores, over tables.

A correlation over widths is high for random tables too, as wider ones score higher on any task.  So it stands beside
the correlation of what remains when the mean score of random tables of the same width is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from embscale.errors import EmbscaleError
from embscale.rows.selection import LADDER, last_checkpoint
from embscale.scoring.scores import NONE
from embscale.statistics import resampling
from embscale.statistics.two_way import Resamples

RANDOM, REFERENCE, FULL = "random", "reference", "full"
RUNS, WIDTHS, STATIC, DRAWS, ABOVE = "ladder", "ladder, mean of runs", "static", "random", "ladder above random"
SCORE, KENDALL, SPEARMAN = "score", "kendall", "spearman"

# Two tables are always in the same or the opposite order.
FEWEST = 3

IDENTITY = ["suite", "model", "run", "seed", "width"]
COLUMNS = [
    "population", *IDENTITY, "task", "metric", "length", "quantity", "value", "ci_low", "ci_high", "p", "smallest_p",
    "tables", "n", "clusters",
]  # fmt: skip


def correlations(per_query: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """Scores of tables on two tasks, and the rank correlation of these scores.

    Args:
        per_query: rows of ``embscale score --per-query`` on two tasks, of one metric and length; used are the last
            tables of the models and the random tables, all as they are.
        resamples: of clusters of queries, of each task independently.
        seed: of the resamples.

    Returns:
        Columns `COLUMNS`.  Rows with the quantity `SCORE`: a table of a population on a task, from 0 to 1, or above the
        mean of random tables of its width.  Rows with `KENDALL` (tau-b) and `SPEARMAN`: over the ``tables`` of a
        population, with a 95 % interval over clusters of queries for these very tables.  The ``p`` of Kendall's is that
        of the exact permutation distribution over tables, unless there are ties, and ``smallest_p`` the smallest one
        that so many tables can reach.  Runs of one width are similar, so the mean of runs is a population too.

    Raises:
        EmbscaleError: the rows are not of two tasks, or a table was scored twice on one.
    """
    tasks = sorted(per_query["task"].astype(str).unique())
    if len(tasks) != 2:
        raise EmbscaleError(f"scores of the tasks {', '.join(tasks)}: expected two; choose with --where and the files")
    # Two seeds, or tasks with equally many clusters would be resampled alike.
    both = [
        _scores(per_query[per_query["task"] == task], task, resamples, seed + number)
        for number, task in enumerate(tasks)
    ]
    common = both[0][0].index.intersection(both[1][0].index, sort=False).sort_values()
    found = [(means.loc[common], queries, clusters) for means, queries, clusters in both]
    same = {name: per_query[name].iloc[0] for name in ("metric", "length")}
    rows: list[dict[str, Any]] = []
    for population, index, values in _populations(found[0][0], found[1][0]):
        shared = same | {"population": population, "tables": len(index)}
        units = {"n": sum(part[1] for part in found), "clusters": sum(part[2] for part in found)}
        interval = min(part[2] for part in found) > 1
        for task, (_, queries, clusters), drawn in zip(tasks, found, values, strict=True):
            for identity, value, ends in zip(index, drawn[:, 0], drawn[:, 1:], strict=True):
                low, high = resampling.percentile_interval(ends) if interval else (math.nan, math.nan)
                keys = {name: pd.NA if part == NONE else part for name, part in zip(IDENTITY, identity, strict=True)}
                score = {"task": task, "quantity": SCORE, "value": value, "ci_low": low, "ci_high": high}
                rows.append(shared | keys | score | {"n": queries, "clusters": clusters})
        if len(index) < FEWEST:
            continue
        for quantity, statistic in ((KENDALL, resampling.kendall), (SPEARMAN, resampling.spearman)):
            drawn = np.array([statistic(x, y) for x, y in zip(values[0].T, values[1].T, strict=True)])
            # All resamples in one order give no interval, rather than one without width.
            varies = interval and np.ptp(drawn[1:]) > 0
            low, high = resampling.percentile_interval(drawn[1:]) if varies else (math.nan, math.nan)
            row = {"task": " and ".join(tasks), "quantity": quantity, "value": drawn[0], "ci_low": low, "ci_high": high}
            if quantity == KENDALL:
                row["p"] = float(stats.kendalltau(*(part[:, 0] for part in values)).pvalue)
                row["smallest_p"] = 2 / math.factorial(len(index))
            rows.append(shared | row | units)
    return pd.DataFrame(rows, columns=COLUMNS)


def _scores(rows: pd.DataFrame, task: str, resamples: int, seed: int) -> tuple[pd.DataFrame, int, int]:
    """Mean score of each table, first of all queries and then of each resample; how many queries and clusters."""
    trained = rows[~rows["suite"].isin([RANDOM, REFERENCE]) & (rows["variant"] == FULL)]
    trained = last_checkpoint(trained.assign(step=trained["step"].astype("Int64").mask(trained["step"] == NONE)))
    random = rows[(rows["suite"] == RANDOM) & (rows["variant"] == RANDOM)]
    used = pd.concat([trained, random])
    if used.duplicated([*IDENTITY, "query"]).any():
        raise EmbscaleError(f"task {task}: a table was scored twice; choose metric, length and tokenizer with --where")
    names = used[IDENTITY].astype({"suite": str, "model": str})
    wide = used.assign(**names).pivot(index="query", columns=IDENTITY, values="score").sort_index()
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"task {task}: tables were scored on different queries")
    clusters = used.drop_duplicates("query").set_index("query")["cluster"].loc[wide.index].to_numpy()
    resampled = Resamples(clusters, resamples=resamples, seed=seed)
    means = np.concatenate([wide.to_numpy().mean(axis=0)[None], resampled.means(wide.to_numpy())]).T
    return pd.DataFrame(means, index=wide.columns), resampled.queries, resampled.clusters


def _populations(
    one: pd.DataFrame, other: pd.DataFrame
) -> Iterator[tuple[str, pd.MultiIndex, tuple[np.ndarray, np.ndarray]]]:
    """Tables of each population that has any, and their mean scores on both tasks, ``[tables, 1 + resamples]``."""
    suite = one.index.get_level_values("suite")
    masks = {RUNS: suite == LADDER, STATIC: ~suite.isin([LADDER, RANDOM]), DRAWS: suite == RANDOM}
    for population, mask in masks.items():
        if mask.any():
            yield population, one.index[mask], (one[mask].to_numpy(), other[mask].to_numpy())
    runs = one.index[masks[RUNS]]
    if len(runs) > len(runs.droplevel(["run"]).unique()):
        of_widths = [means[masks[RUNS]].groupby(["suite", "model", "seed", "width"]).mean() for means in (one, other)]
        index = pd.MultiIndex.from_tuples([(s, m, NONE, d, w) for s, m, d, w in of_widths[0].index], names=IDENTITY)
        yield WIDTHS, index, (of_widths[0].to_numpy(), of_widths[1].to_numpy())
    widths = [means[masks[DRAWS]].groupby("width").mean() for means in (one, other)]
    matched = runs[runs.get_level_values("width").isin(widths[0].index)]
    if len(matched):
        at = matched.get_level_values("width")
        above = [
            means.loc[matched].to_numpy() - of.loc[at].to_numpy()
            for means, of in zip((one, other), widths, strict=True)
        ]
        yield ABOVE, matched, (above[0], above[1])
