"""How the rows of an embedding table lie: mean direction, spread, outlying columns, lengths, equal rows.

Cosine scores compare rows of one table, and a direction that all rows share, or a column that is much larger than the
others, is in every one of these cosines.  These measures tell how much of that a table has.  They describe all rows
that there are, so they have no interval; the reference beside a value is what as many Gaussian rows would give.

A table is read by blocks of rows.  What is held is one square matrix of the table's columns in float64, 1.6 GB for
14,336 columns, and a few numbers for each row.
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

# Partition isotropy needs all eigenvectors, which take a second square matrix and, for wide tables, hours.
WIDEST_EXACT = 5120
# Columns that spread so many standard deviations more than the mean column are outliers (Kovaleva et al. 2021).
OUTLIER = 3.0
BLOCK_BYTES = 16 * 2**20  # of a block of rows in float64

STRATA = ("all", "unseen", "rare", "frequent")
COLUMNS = ["rows", "width", "stratum", "scaling", "quantity", "value", "n", "reference", "reason"]


def strata(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Rows by how often their token occurs: never, and of the others the rarer and the more frequent half.

    Args:
        counts: of each row's token in some texts, ``[rows]``.

    Returns:
        Masks ``[rows]`` by name, ``all`` first; strata without rows are left out.
    """
    seen = counts > 0
    middle = np.median(counts[seen]) if seen.any() else 0
    masks = (np.ones(len(counts), bool), ~seen, seen & (counts <= middle), counts > max(middle, 0))
    return {name: mask for name, mask in zip(STRATA, masks, strict=True) if mask.any()}


def measure(table: Stored, masks: dict[str, np.ndarray]) -> pd.DataFrame:
    """Measures of a table, or of some of its rows.

    Of the rows as they are (``raw``):

    - ``shortest``, ``mean_length``, ``median_length``, ``longest``, and ``variation_of_length``, their standard
      deviation over their mean.
    - ``duplicate_rows``: rows that equal an earlier row; ``zero_rows``.
    - ``outlier_columns``: columns whose standard deviation is more than `OUTLIER` standard deviations above that of
      the mean column; ``largest_column_share``: share of all variance in the column that has most.

    of the rows at length one (``unit``):

    - ``mean_cosine``: of two different rows, all pairs; ``largest_cosine_share``: share of it that one column
      makes up (Timkey and van Schijndel 2021, eq. 3), where the mean cosine is not zero.

    and of both:

    - ``mean_share``: share of the mean squared length that the squared length of the mean row makes up.
    - ``effective_rank`` and ``participation_ratio`` of the centred rows, as in `embscale.statistics.spectra`.
    - ``partition_isotropy``: smallest over largest sum over rows of ``exp(c . row)``, c being the eigenvectors of
      ``X.T @ X``, both signs (Mu and Viswanath 2018, eq. 1 to 3): towards 1 where no direction is preferred.

    Args:
        table: on disk.
        masks: rows ``[rows]`` by the name of their stratum.

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
    """A 64-bit hash of each row's values, ``[rows]``: equal for equal rows, and for no others but by rare chance.

    Multilinear hashing (Lemire and Kaser 2014): among a million rows two different ones meet with probability 1e-7.
    """
    multipliers = np.random.default_rng(0).integers(2**64, size=table.shape[1] + 1, dtype=np.uint64)
    keys = np.empty(len(table), np.uint64)
    for part, block in _blocks(table):
        bits = np.ascontiguousarray(block + np.float32(0)).view(np.uint32)  # there is a negative zero
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
    """What follows from the rows' sum and from ``X.T @ X``."""
    n, width = int(mask.sum()), table.shape[1]
    mean, products = np.zeros(width), np.zeros((width, width), order="F")
    for part, block in _blocks(table):
        values = scaled(block[mask[part]], scaling)
        mean += values.sum(axis=0) / n
        # Added in place, the upper triangle alone: a second such matrix is never held.
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
    """Smallest over largest partition function; sums of exponentials are taken as logarithms, or they overflow."""
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
