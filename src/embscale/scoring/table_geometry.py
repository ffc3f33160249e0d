"""Geometry of the rows of an embedding table: mean direction, spread, outlier columns, norms, duplicates.

A direction that all rows share, or a column that is much larger than the others, affects every cosine between rows.
These measures quantify such effects.  They describe all rows of a table, not a sample, so they have no interval; the
reference beside a value is the value for as many Gaussian rows.

A table is read in blocks of rows.  Memory holds one square matrix over the table's columns in float64 (1.6 GB for
14,336 columns) and a few numbers per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg, special
from scipy.linalg import blas

from embscale.statistics import spectra
from embscale.statistics.vectors import RAW, SCALINGS, UNIT, chunks, scaled
from embscale.tables.table_files import Stored

# Partition isotropy needs all eigenvectors: a second square matrix and, for wide tables, hours.
WIDEST_EXACT = 5120
# A column is an outlier if its standard deviation is this many standard deviations above the mean column's (Kovaleva et
# al. 2021).
OUTLIER = 3.0
BLOCK_BYTES = 16 * 2**20  # of a block of rows in float64

STRATA = ("all", "unseen", "rare", "frequent")
COLUMNS = ["rows", "width", "stratum", "scaling", "quantity", "value", "n", "reference", "reason"]


def strata(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Strata of rows by token frequency: never seen, and the rarer and the more frequent half of the rest.

    Args:
        counts: occurrences of each row's token in a set of texts, ``[rows]``.

    Returns:
        Masks ``[rows]`` by name, ``all`` first; strata without rows are left out.
    """
    seen = counts > 0
    middle = np.median(counts[seen]) if seen.any() else 0
    masks = (np.ones(len(counts), bool), ~seen, seen & (counts <= middle), counts > max(middle, 0))
    return {name: mask for name, mask in zip(STRATA, masks, strict=True) if mask.any()}


def measure(table: Stored, masks: dict[str, np.ndarray]) -> pd.DataFrame:
    """Measure a table, or strata of its rows.

    Of the unscaled rows (``raw``):

    - ``shortest``, ``mean_length``, ``median_length``, ``longest``, and ``variation_of_length``, their standard
      deviation over their mean.
    - ``duplicate_rows``: rows that equal an earlier row; ``zero_rows``.
    - ``outlier_columns``: columns whose standard deviation is more than `OUTLIER` standard deviations above that of
      the mean column; ``largest_column_share``: share of the total variance in the column with the largest variance.

    of the rows scaled to norm 1 (``unit``):

    - ``mean_cosine``: of two different rows, all pairs; ``largest_cosine_share``: largest share of it from a single
      column (Timkey and van Schijndel 2021, eq. 3), if the mean cosine is not zero.

    and of both:

    - ``mean_share``: squared norm of the mean row divided by the mean squared norm.
    - ``effective_rank`` and ``participation_ratio`` of the centred rows, as in `embscale.statistics.spectra`.
    - ``partition_isotropy``: smallest over largest sum over rows of ``exp(c . row)``, c being the eigenvectors of
      ``X.T @ X``, both signs (Mu and Viswanath 2018, eq. 1 to 3): close to 1 if no direction is preferred.

    Args:
        table: on disk.
        masks: boolean masks ``[rows]`` by stratum.

    Returns:
        Columns `COLUMNS`; ``reason`` says why a value is missing.

    Raises:
        EmbscaleError: a value of the table is not finite.
    """
    rows = []
    keys = _row_keys(table)
    for stratum, mask in masks.items():
        shared = {"rows": table.shape[0], "width": table.shape[1], "stratum": stratum, "n": int(mask.sum())}
        rows += [shared | row for row in _lengths(table, mask)]
        duplicates = int(mask.sum()) - len(np.unique(keys[mask]))
        rows.append(shared | _row(RAW, "duplicate_rows", duplicates, 0))
        for scaling in SCALINGS:
            rows += [shared | row for row in _spread(table, mask, scaling)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(
    scaling: str, quantity: str, value: float | np.ndarray, reference: float = np.nan, reason: str = ""
) -> dict[str, Any]:
    return {
        "scaling": scaling,
        "quantity": quantity,
        "value": float(value),
        "reference": float(reference),
        "reason": reason,
    }


def _blocks(table: Stored) -> Iterator[tuple[slice, np.ndarray]]:
    for part in chunks(len(table), max(1, BLOCK_BYTES // (8 * table.shape[1]))):
        yield part, table[part]


def _row_keys(table: Stored) -> np.ndarray:
    """A 64-bit hash of each row's values, ``[rows]``: equal for equal rows; collisions are rare.

    Multilinear hashing (Lemire and Kaser 2014): the probability of a collision among a million rows is 1e-7.
    """
    multipliers = np.random.default_rng(0).integers(2**64, size=table.shape[1] + 1, dtype=np.uint64)
    keys = np.empty(len(table), np.uint64)
    for part, block in _blocks(table):
        bits = np.ascontiguousarray(block + np.float32(0)).view(np.uint32)  # turns negative zero into zero
        keys[part] = (bits * multipliers[1:]).sum(axis=1, dtype=np.uint64) + multipliers[0]
    return keys


def _lengths(table: Stored, mask: np.ndarray) -> Iterator[dict[str, Any]]:
    norms = np.concatenate([np.linalg.norm(block.astype(np.float64), axis=1) for _, block in _blocks(table)])[mask]
    yield _row(RAW, "shortest", norms.min())
    yield _row(RAW, "mean_length", norms.mean())
    yield _row(RAW, "median_length", np.median(norms))
    yield _row(RAW, "longest", norms.max())
    # A chi distribution's.
    width = table.shape[1]
    mean = np.sqrt(2) * np.exp(special.gammaln((width + 1) / 2) - special.gammaln(width / 2))
    chance = np.sqrt(max(width - mean**2, 0)) / mean
    yield _row(RAW, "variation_of_length", norms.std() / norms.mean() if norms.any() else np.nan, chance)
    yield _row(RAW, "zero_rows", (norms == 0).sum(), 0)


def _spread(table: Stored, mask: np.ndarray, scaling: str) -> Iterator[dict[str, Any]]:
    """Measures computed from the sum of the rows and from ``X.T @ X``."""
    n, width = int(mask.sum()), table.shape[1]
    mean, products = np.zeros(width), np.zeros((width, width), order="F")
    for part, block in _blocks(table):
        values = scaled(block[mask[part]], scaling)
        mean += values.sum(axis=0) / n
        # Only the upper triangle is added, in place, to avoid a second such matrix.
        products = blas.dsyrk(1 / n, values, beta=1.0, c=products, trans=1, overwrite_c=True)
    squares = products.diagonal().copy()
    total = squares.sum()
    if total == 0:
        yield _row(scaling, "mean_share", np.nan, reason="all rows are zero")
        return
    yield _row(scaling, "mean_share", mean @ mean / total, 1 / n)
    if scaling == UNIT:
        reason = "" if n > 1 else "there is one row only"
        yield _row(UNIT, "mean_cosine", (n * mean @ mean - total) / (n - 1) if n > 1 else np.nan, 0, reason)
        yield _row(UNIT, "largest_cosine_share", np.square(mean).max() / (mean @ mean))
    else:
        variance = squares - np.square(mean)
        spread = np.sqrt(variance.clip(min=0))
        high = spread > spread.mean() + OUTLIER * spread.std()
        yield _row(RAW, "outlier_columns", high.sum())
        share = variance.max() / variance.sum() if n > 1 else np.nan
        yield _row(RAW, "largest_column_share", share, 1 / width, "" if n > 1 else "there is one row only")
    yield _partition_isotropy(table, mask, scaling, products)
    products = blas.dsyr(-1.0, mean, a=products, overwrite_a=True)
    eigenvalues = linalg.eigh(products, lower=False, eigvals_only=True, overwrite_a=True, check_finite=False)
    chance = spectra.isotropic(n, width)
    for quantity in (spectra.effective_rank, spectra.participation_ratio):
        value = quantity(eigenvalues) if n > 1 else np.nan
        reason = "" if n > 1 else "there is one row only"
        yield _row(scaling, quantity.__name__, value, chance[quantity.__name__], reason)


def _partition_isotropy(table: Stored, mask: np.ndarray, scaling: str, products: np.ndarray) -> dict[str, Any]:
    """Smallest over largest partition function; sums of exponentials are computed in log space to avoid overflow."""
    if (width := table.shape[1]) > WIDEST_EXACT:
        reason = f"it needs the eigenvectors of {width} columns; exact up to {WIDEST_EXACT}"
        return _row(scaling, "partition_isotropy", np.nan, reason=reason)
    _, directions = linalg.eigh(products, lower=False, check_finite=False)
    sums = np.full(2 * width, -np.inf)
    for part, block in _blocks(table):
        along = scaled(block[mask[part]], scaling) @ directions
        if len(along):
            both = np.concatenate([special.logsumexp(along, axis=0), special.logsumexp(-along, axis=0)])
            sums = np.logaddexp(sums, both)
    return _row(scaling, "partition_isotropy", np.exp(sums.min() - sums.max()))
