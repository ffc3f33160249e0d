"""Intervals over splits of the same texts cover the truth; those of independent runs would not."""

import math

import numpy as np
import pytest

from embscale.statistics import repeated_splits

TEXTS, SPLITS, TRAINED = 80, 5, 0.75


@pytest.mark.parametrize("statistic", [np.mean, np.median, np.std], ids=["mean", "median", "deviation"])
def test_intervals_cover_what_other_texts_would_give(statistic):
    rng = np.random.default_rng(0)
    truth = {np.mean: 0, np.median: 0, np.std: 1}[statistic]
    repeats, covered, naive = 600, 0, 0
    for _ in range(repeats):
        texts = rng.standard_normal(TEXTS)
        values = [statistic(rng.permutation(texts)[: int(TRAINED * TEXTS)]) for _ in range(SPLITS)]
        low, high = repeated_splits.interval(np.array(values), shared=TRAINED)
        covered += low <= truth <= high
        low, high = repeated_splits.interval(np.array(values), shared=0)
        naive += low <= truth <= high
    assert 0.90 <= covered / repeats <= 0.985
    assert naive / repeats < 0.75


def test_independent_values_have_students_interval_and_one_value_none():
    low, high = repeated_splits.interval(np.array([1.0, 2.0, 3.0]), shared=0)
    assert (low, high) == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)), abs=1e-6)
    assert all(math.isnan(end) for end in repeated_splits.interval(np.array([1.0]), shared=0.75))
