"""Score rows: their columns, aggregation over queries, reading and writing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from embscale.errors import EmbscaleError
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

COLUMNS = [*KEYS, "value", "ci_low", "ci_high", "n", "clusters"]


def summarise(per_query: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """One row per score of one table, with its mean over queries and a 95 % interval over clusters of queries.

    The interval describes this table; another training run or another draw would score otherwise
    (`embscale.scoring.estimates`).

    Args:
        per_query: columns `KEYS`, ``query``, ``cluster`` and ``score``; one row per score and query.
        resamples: bootstrap resamples, shared by all scores of a task.
        seed: of the resamples.

    Raises:
        EmbscaleError: two scores of a task cover different queries, or one occurs twice.
    """
    frames = [_summarise_task(task, group, resamples=resamples, seed=seed) for task, group in per_query.groupby("task")]
    return without_none(pd.concat(frames).sort_values(KEYS, kind="stable", ignore_index=True)[COLUMNS])


def without_none(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with placeholders replaced by missing values, and whole numbers as integers."""
    numbers = {name: rows[name].astype("Int64") for name in ("run", "step", "variant_dims", "seed", "dim", "width")}
    numbers["strength"] = rows["strength"]
    return rows.assign(**{name: column.mask(column == NONE) for name, column in numbers.items()})


def _summarise_task(task: object, group: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """Summarise one task."""
    wide, clusters = by_query(group, task)
    values = wide.to_numpy()
    resampled = Resamples(clusters, resamples=resamples, seed=seed)
    rows = wide.columns.to_frame(index=False).assign(value=values.mean(axis=0), n=len(values))
    # Queries that all belong together are one unit, which gives no interval.
    ends = percentile_interval(resampled.means(values)) if resampled.clusters > 1 else (math.nan, math.nan)
    return rows.assign(ci_low=ends[0], ci_high=ends[1], clusters=resampled.clusters)


def by_query(group: pd.DataFrame, task: object) -> tuple[pd.DataFrame, np.ndarray]:
    """The scores of one task, a row per query and a column per score, and the cluster of each query.

    Queries and columns are sorted, so the order of files does not matter.

    Raises:
        EmbscaleError: two scores cover different queries, or one occurs twice.
    """
    if group.duplicated([*KEYS, "query"]).any():
        raise EmbscaleError(f"task {task}: a score occurs twice for one query")
    wide = group.set_index(["query", *KEYS])["score"].unstack(KEYS).sort_index().sort_index(axis=1)
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"task {task}: scores were made on different queries, or some are missing")
    clusters = group.drop_duplicates("query").set_index("query")["cluster"]
    return wide, clusters.loc[wide.index].to_numpy()


def write_parquet(rows: pd.DataFrame, path: Path) -> None:
    """Write rows with a checksum for each page, so that reading detects damage."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def read_parquet(path: Path) -> pd.DataFrame:
    """Read rows, every checksum verified.

    Raises:
        EmbscaleError: the file is missing or damaged.
    """
    try:
        return pq.read_table(path, page_checksum_verification=True).to_pandas()
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale score") from None
    except (OSError, pa.ArrowException) as error:
        raise EmbscaleError(f"{path}: damaged ({error}); remove it and make it again") from error


def long_rows(
    per_query: pd.DataFrame, keys: dict[str, object], metrics: Sequence[str], clusters: Mapping[str, int]
) -> pd.DataFrame:
    """A table's scores as one row per query and metric."""
    cluster = per_query.index.map(clusters)
    long = per_query.assign(cluster=cluster).reset_index().melt(["query", "cluster"], list(metrics), "metric", "score")
    return long.assign(**keys)
