"""Score rows: their columns, aggregation over queries, reading and writing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from embscale.errors import EmbscaleError
from embscale.statistics.resampling import bootstrap_means, percentile_interval

# The columns that identify a score, in order; workflow/README.md describes each.
KEYS = [
    "suite",
    "model",
    "step",
    "tokenizer",
    "variant",
    "variant_dims",
    "strength",
    "seed",
    "dim",
    "pooling",
    "special_tokens",
    "task",
    "metric",
    "table_sha256",
    "tokenizer_sha256",
    "data_sha256",
]
# Placeholder for a key that does not apply (the seed of a trained table) while scores are grouped; written as empty.
NONE = -1

COLUMNS = [*KEYS, "value", "ci_low", "ci_high", "n"]


def summarise(per_query: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """One row per score, with its mean over queries, 95 % bootstrap interval and number of queries.

    Args:
        per_query: columns `KEYS`, ``query`` and ``score``; one row per score and query.
        resamples: bootstrap resamples, shared by all scores of a task.
        seed: of the resamples.

    Raises:
        EmbscaleError: two scores of a task cover different queries, or one occurs twice.
    """
    frames = [_summarise_task(task, group, resamples=resamples, seed=seed) for task, group in per_query.groupby("task")]
    return without_none(pd.concat(frames).sort_values(KEYS, kind="stable", ignore_index=True)[COLUMNS])


def without_none(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with placeholders replaced by missing values, and whole numbers as integers."""
    numbers = {name: rows[name].astype("Int64") for name in ("step", "variant_dims", "seed", "dim")}
    numbers["strength"] = rows["strength"]
    return rows.assign(**{name: column.mask(column == NONE) for name, column in numbers.items()})


def _summarise_task(task: object, group: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """Summarise one task; queries and columns are sorted, so the order of files does not matter."""
    if group.duplicated([*KEYS, "query"]).any():
        raise EmbscaleError(f"task {task}: a score occurs twice for one query")
    wide = group.set_index(["query", *KEYS])["score"].unstack(KEYS).sort_index().sort_index(axis=1)
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"task {task}: scores were made on different queries, or some are missing")
    values = wide.to_numpy()
    low, high = percentile_interval(bootstrap_means(values, resamples=resamples, seed=seed))
    rows = wide.columns.to_frame(index=False)
    return rows.assign(value=values.mean(axis=0), ci_low=low, ci_high=high, n=len(values))


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


def long_rows(per_query: pd.DataFrame, keys: dict[str, object], metrics: Sequence[str]) -> pd.DataFrame:
    """A table's scores as one row per query and metric."""
    long = per_query.reset_index().melt("query", list(metrics), "metric", "score")
    return long.assign(**keys)
