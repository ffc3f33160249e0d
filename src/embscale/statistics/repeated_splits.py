"""Intervals of quantities that are measured on several random splits of the same texts.

Splits of one set of texts are no independent runs: their training sets overlap.  What is computed from training sets
that have a share of their texts in common is correlated by about that share, so that the variance of the mean over
splits is their variance times ``1 / splits + shared / (1 - shared)`` instead of ``1 / splits`` (Nadeau and Bengio 2003,
doi:10.1023/A:1024068626366, section 4, for training sets instead of test sets).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from embscale.statistics.resampling import CONFIDENCE


def interval(values: np.ndarray, *, shared: float) -> tuple[float, float]:
    """95 % interval of the mean over splits, for other texts of the same kind; Student's t.

    Args:
        values: one for each split.
        shared: mean share of the texts of one training set that are in another one: with training sets drawn at random,
            the share of all texts that they hold.

    Returns:
        Both ends; NaN for a single split.
    """
    values, splits = np.asarray(values, np.float64), len(values)
    if splits == 1:
        return math.nan, math.nan
    error = values.std(ddof=1) * math.sqrt(1 / splits + shared / (1 - shared))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, splits - 1)) * error
    return float(values.mean() - half), float(values.mean() + half)
