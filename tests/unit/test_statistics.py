"""The bootstrap against scipy's and against what is known of it."""

import numpy as np
import pytest
from scipy import stats

from embscale.statistics import bootstrap_means, percentile_interval


def test_interval_agrees_with_scipys():
    values = np.random.default_rng(0).beta(0.5, 2, size=(400, 1))
    low, high = percentile_interval(bootstrap_means(values, resamples=10_000, seed=0))
    reference = stats.bootstrap(
        (values[:, 0],), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    )
    assert low[0] == pytest.approx(reference.confidence_interval.low, abs=0.001)
    assert high[0] == pytest.approx(reference.confidence_interval.high, abs=0.001)


def test_columns_share_their_resamples():
    values = np.random.default_rng(0).normal(size=(50, 1))
    means = bootstrap_means(np.hstack([values, values + 3]), resamples=500, seed=0)
    assert np.allclose(means[:, 1] - means[:, 0], 3)


def test_spread_is_the_standard_error():
    values = np.random.default_rng(0).normal(size=(200, 1))
    means = bootstrap_means(values, resamples=20_000, seed=0)
    assert means.std() == pytest.approx(values.std() / np.sqrt(200), rel=0.02)


def test_the_number_of_resamples_and_the_seed_are_kept():
    values = np.random.default_rng(0).normal(size=(20, 2))
    means = bootstrap_means(values, resamples=1500, seed=7)
    assert means.shape == (1500, 2)
    assert np.array_equal(means, bootstrap_means(values, resamples=1500, seed=7))
    assert not np.array_equal(means, bootstrap_means(values, resamples=1500, seed=8))
