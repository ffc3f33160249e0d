"""TwoNN, against the law of the ratios and sets of points of known dimension."""

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from embscale.statistics import intrinsic_dimension


def ball(dimension, points=2000, seed=0):
    """Points drawn uniformly from a ball."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(points, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * generator.random((points, 1)) ** (1 / dimension)


def ratios(values):
    apart, _ = NearestNeighbors(n_neighbors=2).fit(values).kneighbors()
    return apart[:, 1] / apart[:, 0]


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_ball_has_its_dimension_wherever_it_lies(dimension):
    within = np.linalg.qr(np.random.default_rng(1).normal(size=(12, dimension)))[0].T
    value, low, high, n = intrinsic_dimension.estimate(7 * ball(dimension) @ within + 3, groups=20, seed=0)
    assert n == 2000 and low < value < high
    assert value == pytest.approx(dimension, rel=0.1)
    # The edge of a ball costs some: the interval holds the dimension with a margin of a twentieth.
    assert 0.95 * low < dimension < 1.05 * high and high - low < 0.4 * dimension


def test_the_estimate_is_the_formula_on_scikit_learns_neighbours():
    values = np.random.default_rng(0).normal(size=(300, 6))
    value, *_ = intrinsic_dimension.estimate(values, groups=10, seed=0)
    assert value == pytest.approx(intrinsic_dimension.two_nn(ratios(values)), rel=1e-9)


def test_ratios_of_a_pareto_law_give_its_shape():
    """Facco et al. 2017, eq. 3: the ratios follow a Pareto law whose shape is the dimension."""
    exact = stats.pareto(b=3.5).ppf(np.arange(1, 10_001) / 10_001)
    assert intrinsic_dimension.two_nn(exact) == pytest.approx(3.5, rel=2e-3)
    drawn = stats.pareto(b=20).rvs(5000, random_state=0)
    shape, _, _ = stats.pareto.fit(drawn, floc=0, fscale=1)
    assert intrinsic_dimension.two_nn(drawn) == pytest.approx(shape, rel=0.05)
    assert np.isnan(intrinsic_dimension.two_nn(np.ones(10))) and np.isnan(intrinsic_dimension.two_nn(np.array([2.0])))


def test_the_interval_is_of_sets_with_a_group_of_points_left_out():
    values = np.random.default_rng(0).normal(size=(200, 4))
    value, low, high, _ = intrinsic_dimension.estimate(values, groups=10, seed=3)
    group = intrinsic_dimension.jackknife.text_groups(np.arange(200), groups=10, seed=3)
    ordered = np.unique(values, axis=0)
    without = [intrinsic_dimension.two_nn(ratios(ordered[group != number])) for number in range(10)]
    half = stats.t.ppf(0.975, 9) * np.sqrt(9 / 10 * np.square(without - np.mean(without)).sum())
    assert (low, high) == pytest.approx((value - half, value + half))


def test_equal_points_count_once():
    values = ball(3, points=400)
    doubled = np.concatenate([values, values[:200], np.zeros((5, 3))])
    value, *_, n = intrinsic_dimension.estimate(doubled, groups=10, seed=0)
    assert n == 401 and value == pytest.approx(3, rel=0.25)
