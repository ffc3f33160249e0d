"""Score rows: their columns, aggregation over queries, reading and writing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from embscale.errors import EmbscaleError, words_of
from embscale.statistics.resampling import percentile_interval
from embscale.statistics.two_way import Resamples

# The columns that identify a score, in order; workflow/README.md describes each.
KEYS = [
    "suite",
    "model",
    "run",
    "step",
    "tokenizer",
    "variant",
    "variant_dims",
    "strength",
    "seed",
    "dim",
    "width",
    "pooling",
    "special_tokens",
    "task",
    "length",
    "metric",
    "table_sha256",
    "tokenizer_sha256",
    "data_sha256",
]
# Placeholder for a key that does not apply (the seed of a trained table) while scores are grouped; written as empty.
NONE = -1

# What is known of a query, whatever is scored.
OF_QUERIES = ("cluster", "heldout")
NAN = float("nan")

COLUMNS = [*KEYS, "value", "ci_low", "ci_high", "n", "clusters"]


@dataclass(frozen=True)
class TaskScores:
    """All scores on one task.

    Attributes:
        task: its name.
        keys: columns `KEYS`, a row per score, sorted.
        scores: ``[queries, scores]``, from 0 to 1.
        clusters: of each query, ``[queries]``.
        heldout: whether neither the query nor a document that is relevant to it was trained on, ``[queries]``.
    """

    task: str
    keys: pd.DataFrame
    scores: np.ndarray
    clusters: np.ndarray
    heldout: np.ndarray


def by_task(frames: Iterable[pd.DataFrame]) -> list[TaskScores]:
    """Gather scores of every query by task; the order of the frames and of their rows does not matter.

    Args:
        frames: columns `KEYS`, ``query``, ``cluster``, ``heldout`` and ``score``; a row per score and query.

    Raises:
        EmbscaleError: two scores of a task cover different queries, or one occurs twice or is not a number.
    """
    parts: dict[str, list[tuple[pd.DataFrame, pd.DataFrame]]] = {}
    for frame in frames:
        for task, group in frame.groupby("task", observed=True):
            parts.setdefault(str(task), []).append(_wide(group, task))
    found = []
    for task, members in sorted(parts.items()):
        queries = members[0][1]
        if any(not queries.equals(own) for _, own in members):
            raise EmbscaleError(f"task {task}: scores were made on different queries, or some are missing")
        wide = pd.concat([scores for scores, _ in members], axis=1).sort_index(axis=1)
        if wide.columns.duplicated().any():
            raise EmbscaleError(f"task {task}: a score occurs twice for one query")
        keys = wide.columns.to_frame(index=False)
        found.append(TaskScores(task, keys, wide.to_numpy(), *(queries[name].to_numpy() for name in OF_QUERIES)))
    return found


def _wide(group: pd.DataFrame, task: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores with a row per query and a column per score, and what is known of each query."""
    if group["score"].isna().any():
        raise EmbscaleError(f"task {task}: a score is not a number; make it again with embscale score")
    number = group.groupby(KEYS, sort=False, dropna=False, observed=True).ngroup()
    wide = group.assign(number=number).pivot_table(
        index="query", columns="number", values="score", aggfunc="sum", observed=True
    )
    if len(group) != wide.notna().to_numpy().sum():
        raise EmbscaleError(f"task {task}: a score occurs twice for one query")
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"task {task}: scores were made on different queries, or some are missing")
    first = group[KEYS].assign(number=number).drop_duplicates("number").set_index("number")
    names = [name for name in KEYS if isinstance(first[name].dtype, pd.CategoricalDtype)]
    wide.columns = pd.MultiIndex.from_frame(first.astype(dict.fromkeys(names, "str")).loc[wide.columns, KEYS])
    wide.index = wide.index.astype("str")
    queries = group.drop_duplicates("query").astype({"query": "str"}).set_index("query")[list(OF_QUERIES)].sort_index()
    return wide.sort_index(), queries


def summarise(tasks: Iterable[TaskScores], *, resamples: int, seed: int) -> pd.DataFrame:
    """One row per score of one table, with its mean over queries and a 95 % interval over clusters of queries.

    The interval describes this table; another training run or another draw would score otherwise
    (`embscale.scoring.estimates`).  Queries that all belong together are one unit, which gives no interval.

    Args:
        tasks: from `by_task`.
        resamples: bootstrap resamples, shared by all scores of a task.
        seed: of the resamples.
    """
    frames = []
    for scored in tasks:
        resampled = Resamples(scored.clusters, resamples=resamples, seed=seed)
        low, high = percentile_interval(resampled.means(scored.scores)) if resampled.clusters > 1 else (NAN, NAN)
        rows = scored.keys.assign(value=scored.scores.mean(axis=0), ci_low=low, ci_high=high)
        frames.append(rows.assign(n=len(scored.scores), clusters=resampled.clusters))
    return without_none(pd.concat(frames).sort_values(KEYS, kind="stable", ignore_index=True)[COLUMNS])


def without_none(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with placeholders replaced by missing values, and whole numbers as integers."""
    numbers = {name: rows[name].astype("Int64") for name in ("run", "step", "variant_dims", "seed", "dim", "width")}
    numbers["strength"] = rows["strength"]
    return rows.assign(**{name: column.mask(column == NONE) for name, column in numbers.items()})


def write_parquet(rows: pd.DataFrame, path: Path) -> None:
    """Write rows with a checksum for each page, so that reading detects damage."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def read_parquet(path: Path, where: Sequence[tuple[str, str]] = ()) -> pd.DataFrame:
    """Read rows, every checksum verified; names are read as categories, since they repeat for every query.

    Args:
        path: the file.
        where: columns with a value in words; only rows that have all of them are read.

    Raises:
        EmbscaleError: the file is missing or damaged, or lacks a column.
    """
    try:
        schema = pq.read_schema(path)
        for column, _ in where:
            if column not in schema.names:
                raise EmbscaleError(f"{path}: no column {column!r}; it has {', '.join(schema.names)}")
        names = [
            field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        table = pq.read_table(path, page_checksum_verification=True, read_dictionary=names)
        for column, value in where:
            table = table.filter(pc.equal(pc.cast(table[column], pa.large_string()), value))
        return table.to_pandas()
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale score") from None
    except (OSError, pa.ArrowException) as error:
        raise EmbscaleError(f"{path}: damaged ({words_of(error)}); remove it and make it again") from error


def long_rows(
    per_query: pd.DataFrame, keys: dict[str, object], metrics: Sequence[str], queries: pd.DataFrame
) -> pd.DataFrame:
    """A table's scores as one row per query and metric.

    Args:
        per_query: a column per metric, by query.
        keys: the other columns.
        metrics: to take.
        queries: columns `OF_QUERIES`, by query.
    """
    known = per_query.join(queries).reset_index()
    return known.melt(["query", *OF_QUERIES], list(metrics), "metric", "score").assign(**keys)
