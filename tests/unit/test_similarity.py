"""Similarity of two sets of vectors, against formulas on all pairs and against what independence gives."""

import math

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from embscale.statistics import similarity
from embscale.statistics.similarity import Vectors


def vectors(values, neighbours=5):
    return Vectors(values, neighbours=neighbours)


def gaussian(seed, rows=60, width=7):
    return np.random.default_rng(seed).normal(size=(rows, width)) * np.arange(1, width + 1)


def hsic(x, y):
    """Song et al. 2012, eq. 5, with all pairs of vectors."""
    n = len(x)
    of_x, of_y = x @ x.T, y @ y.T
    np.fill_diagonal(of_x, 0)
    np.fill_diagonal(of_y, 0)
    ones = np.ones(n)
    ends = ones @ of_x @ ones * (ones @ of_y @ ones) / ((n - 1) * (n - 2))
    return (np.trace(of_x @ of_y) + ends - 2 / (n - 2) * ones @ of_x @ of_y @ ones) / (n * (n - 3))


def linear_map(seed, width):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def test_cka_is_the_formula_on_all_pairs_of_vectors():
    x, y = gaussian(0), gaussian(1, width=4) + 3
    y[:, 0] += x[:, 6]
    expected = hsic(x, y) / math.sqrt(hsic(x, x) * hsic(y, y))
    assert expected > 0.05
    assert similarity.cka(vectors(x), vectors(y)) == pytest.approx(expected, rel=1e-9)
    order = np.random.default_rng(2).permutation(60)
    dealt = hsic(x, y[order]) / math.sqrt(hsic(x, x) * hsic(y, y))
    assert similarity.cka(vectors(x), vectors(y), order) == pytest.approx(dealt, rel=1e-9)


def test_both_measures_know_rotations_and_scales():
    x = gaussian(0)
    rotated = 2.5 * x @ linear_map(1, 7)
    assert similarity.cka(vectors(x), vectors(rotated)) == pytest.approx(1)
    assert similarity.cka(vectors(x), vectors(rotated + 4)) == pytest.approx(1)
    assert similarity.mutual_neighbours(vectors(x), vectors(rotated)) == 1
    assert similarity.cka(vectors(x), vectors(x * [9, 1, 1, 1, 1, 1, 1])) < 0.9
    assert math.isnan(similarity.cka(vectors(x), vectors(np.ones((60, 3)))))


@pytest.mark.parametrize("exponent", [120, -100])
def test_neither_measure_depends_on_scale_at_the_limits_of_float32(exponent):
    x, y = gaussian(0).astype(np.float32), gaussian(0) + gaussian(1)
    scaled = np.ldexp(x, exponent)
    for measure in (similarity.cka, similarity.mutual_neighbours):
        assert measure(vectors(x), vectors(y)) == measure(vectors(scaled), vectors(y))
        assert measure(vectors(scaled), vectors(scaled)) == pytest.approx(1)


def test_mutual_neighbours_are_those_of_scikit_learn():
    x, y = gaussian(0), gaussian(0) + gaussian(1)
    order = np.random.default_rng(2).permutation(60)

    def near(values):
        found = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(values)
        return found.kneighbors(return_distance=False)

    def share(of_x, of_y):
        return np.mean([len({*a} & {*b}) / 5 for a, b in zip(of_x, of_y, strict=True)])

    assert 0.1 < share(near(x), near(y)) < 0.9
    assert similarity.mutual_neighbours(vectors(x), vectors(y)) == pytest.approx(share(near(x), near(y)))
    dealt = share(near(x), near(y[order]))
    assert similarity.mutual_neighbours(vectors(x), vectors(y), order) == pytest.approx(dealt)


def test_independent_vectors_are_no_more_alike_than_chance_at_any_width():
    """Chance grows with width where estimates are biased, as the plain estimate of CKA is."""
    found = [
        similarity.compare(
            vectors(gaussian(2 * number, 200, width)), vectors(gaussian(2 * number + 1, 200, width)),
            permutations=99, seed=number,
        )
        for number, width in enumerate([2, 4, 8, 16, 32, 64] * 5)
    ]  # fmt: skip
    for measure, chance in ((similarity.CKA, 0), (similarity.NEIGHBOURS, 5 / 199)):
        values = [of_pair[measure] for of_pair in found]
        assert np.mean([value.null for value in values]) == pytest.approx(chance, abs=1e-3)
        # A twentieth of 30 pairs is above the threshold on average; more than 5 has a probability of 0.003.
        assert sum(value.calibrated > 0 for value in values) <= 5
        assert max(value.calibrated for value in values) < 0.05


def test_a_shared_part_is_found_and_grows():
    x = gaussian(0, 200, 16)
    shares = [0, 0.5, 1, 4]
    for measure in (similarity.CKA, similarity.NEIGHBOURS):
        values = [
            similarity.compare(vectors(x), vectors(gaussian(1, 200, 16) + share * x), permutations=39, seed=0)[measure]
            for share in shares
        ]
        assert all(np.diff([value.calibrated for value in values]) > 0)
        assert values[-1].p == pytest.approx(1 / 40)


def test_calibration_is_that_of_the_authors_algorithm():
    """Algorithm 1 of arXiv:2602.14486: the value counts among the permuted ones."""
    null = np.arange(1, 20) / 100  # 0.01 to 0.19
    found = similarity.calibrate(0.6, null)
    assert found.threshold == 0.19 and found.p == pytest.approx(1 / 20) and found.null == pytest.approx(0.1)
    assert found.calibrated == pytest.approx((0.6 - 0.19) / (1 - 0.19))
    among = similarity.calibrate(0.185, null)
    assert among.threshold == 0.185 and among.calibrated == 0 and among.p == pytest.approx(2 / 20)
    assert similarity.calibrate(-0.1, null).calibrated == 0
    assert similarity.calibrate(1.0, np.ones(19)).calibrated == 0


@pytest.mark.parametrize(("rows", "neighbours"), [(3, 1), (10, 10), (10, 0)])
def test_too_few_vectors_are_no_set_to_compare(rows, neighbours):
    with pytest.raises(ValueError, match=f"{rows} vectors, {neighbours} neighbours"):
        Vectors(np.ones((rows, 2)), neighbours=neighbours)
