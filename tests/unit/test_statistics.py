"""The bootstrap and what is made of it against scipy's, against exact tests and against cases worked by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from embscale.statistics.resampling import (
    argmax_distribution,
    bootstrap_means,
    confounds,
    holm,
    kendall,
    paired_difference,
    percentile_interval,
    regression,
    seed_band,
    slope,
    spearman,
    two_sided_p,
)


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


def test_paired_difference_agrees_with_scipys():
    generator = np.random.default_rng(0)
    a = generator.beta(0.5, 2, size=300)
    b = np.clip(a + generator.normal(0.02, 0.1, size=300), 0, 1)
    found = paired_difference(a, b, resamples=20_000, seed=0)
    reference = stats.bootstrap(
        (a, b),
        lambda x, y: np.mean(x) - np.mean(y),
        paired=True,
        vectorized=False,
        n_resamples=5000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert found.value == pytest.approx(np.mean(a - b))
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=0.001)


@pytest.mark.long
@pytest.mark.parametrize("shift", [0.0, 0.3, 0.8, 1.5, 2.2])
def test_bootstrap_p_is_near_that_of_the_permutation_test_and_of_the_t_test(shift):
    """Independent normal differences, where the exact sign-flip test and Student's agree."""
    values = np.random.default_rng(3).normal(size=200)
    values += shift / np.sqrt(200) - values.mean()
    found = paired_difference(values, np.zeros(200), resamples=20_000, seed=0)
    permuted = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(1)
    )
    assert found.p == pytest.approx(permuted.pvalue, abs=0.03)
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.03)


@pytest.mark.long
def test_p_is_uniform_where_there_is_no_difference():
    generator = np.random.default_rng(5)
    found = [paired_difference(generator.normal(size=150), np.zeros(150), resamples=400, seed=i).p for i in range(400)]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.08)


def test_p_has_a_floor_a_ceiling_and_counts_ties_on_both_sides():
    assert two_sided_p(np.ones(999)) == 2 / 1000
    assert two_sided_p(np.zeros(999)) == 1
    assert two_sided_p(np.array([-1.0, 0, 1, 2, 3, 4, 5, 6, 7])) == pytest.approx(2 * (2 + 1) / 10)
    assert two_sided_p(np.full(99, 3.0), null=3.0) == 1


@pytest.mark.long
def test_p_and_interval_agree_on_zero():
    generator = np.random.default_rng(0)
    for mean in np.linspace(-0.4, 0.4, 41):
        values = generator.normal(mean, 1, size=100)
        found = paired_difference(values, np.zeros(100), resamples=5000, seed=1)
        if not 0.045 < found.p < 0.055:
            assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def test_holm_on_the_example_of_the_literature():
    """p 0.01, 0.04, 0.03, 0.005 of four tests: times 3, 1, 2, 4 in their order, made monotone."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]).tolist() == []


def test_holm_on_numbers_of_another_implementation():
    """R 4.3: p.adjust(c(.0001, .0004, .0019, .0095, .0201, .0278, .0298, .0344, .0459, .3240), "holm")."""
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240]
    expected = [0.001, 0.0036, 0.0152, 0.0665, 0.1206, 0.139, 0.139, 0.139, 0.139, 0.324]
    assert holm(p) == pytest.approx(expected)


def test_argmax_distribution_by_hand():
    """Two queries: a resample has both, or one twice; the middle column wins by the first query alone."""
    values = np.array([[0.0, 1.0, 0.4], [0.9, 0.0, 0.7]])
    # First query twice (1/4): column 1.  Second twice (1/4): column 0.  Both (1/2): means .45, .5, .55: column 2.
    shares = argmax_distribution(bootstrap_means(values, resamples=40_000, seed=0))
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.01)


def test_equal_columns_share_the_arg_max():
    assert argmax_distribution(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])).tolist() == [0.25, 0.75, 0.0]


@pytest.mark.parametrize(("ours", "theirs"), [(kendall, stats.kendalltau), (spearman, stats.spearmanr)])
def test_rank_correlations_agree_with_scipys(ours, theirs):
    generator = np.random.default_rng(0)
    sizes = [128, 256, 512, 2048, 2048, 4096]
    scores = np.round(generator.random((50, 6)), 1)  # rounded, so that some are equal
    assert ours(sizes, scores) == pytest.approx([theirs(sizes, row).statistic for row in scores])
    assert ours(sizes, np.ones(6)) == 0


def test_slope_is_the_rise_per_doubling():
    sizes = [64, 128, 512, 4096]
    assert slope(sizes, np.log2(sizes) * 0.3 + 1) == pytest.approx(0.3)
    scores = np.random.default_rng(0).random((5, 4))
    assert slope(sizes, scores) == pytest.approx([stats.linregress(np.log2(sizes), row).slope for row in scores])


def test_seed_band_agrees_with_scipys_interval_of_a_mean():
    values = [0.031, 0.029, 0.035, 0.03, 0.033]
    band = seed_band(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (band.low, band.high) == pytest.approx((expected.low, expected.high))
    assert (band.lowest, band.highest, band.seeds) == (0.029, 0.035, 5)
    assert np.isnan(seed_band([0.1]).sd) and np.isnan(seed_band([0.1]).low)


def test_regression_finds_what_the_scores_were_made_of():
    generator = np.random.default_rng(0)
    groups = ["a"] * 6 + ["b"] * 6
    width, tokens = generator.random(12) * 5, generator.random(12) * 3
    tied = np.array([0.0] * 6 + [1.0] * 6)
    score = 0.02 * width - 0.01 * tokens + 0.3 * tied
    means = np.vstack([score, score + generator.normal(0, 0.001, size=(500, 12))])
    found = regression({"width": width, "tied": tied, "tokens": tokens}, groups, means)
    assert found.coefficients["width"].value == pytest.approx(0.02)
    assert found.coefficients["tokens"].value == pytest.approx(-0.01)
    assert found.unidentified == ("tied",) and found.models == 12
    assert found.coefficients["width"].low < 0.02 < found.coefficients["width"].high


def test_regression_agrees_with_the_dummy_variable_solution():
    generator = np.random.default_rng(1)
    groups = ["a", "a", "a", "b", "b", "b", "c", "c"]
    x, y = generator.random(8), generator.random(8)
    dummies = np.array([[g == name for name in "abc"] for g in groups], float)
    expected = np.linalg.lstsq(np.column_stack([dummies, x]), y, rcond=None)[0][-1]
    found = regression({"x": x}, groups, np.vstack([y, y]))
    assert found.coefficients["x"].value == pytest.approx(expected)


def test_confounds_tell_what_varies_with_width():
    facts = pd.DataFrame(
        {
            "suite": ["a"] * 4 + ["b"] * 3,
            "model": list("pqrstuv"),
            "dims": [1, 2, 4, 8, 16, 32, 64],
            "tokens": [10.0, 20, 40, 80, 5, 5, 5],
            "precision": ["fp16"] * 3 + ["bf16"] + [None] * 3,
        }
    )
    found = confounds(facts).set_index(["suite", "fact"])
    assert found.loc[("a", "tokens"), "correlation"] == pytest.approx(1)
    assert found.loc[("a", "precision"), "correlation"] == pytest.approx(stats.pearsonr([0, 1, 2, 3], [0, 0, 0, 1])[0])
    assert not found.loc[("b", "tokens"), "varies"] and np.isnan(found.loc[("b", "tokens"), "correlation"])
    assert ("b", "precision") not in found.index and found.loc[("a", "precision"), "known"] == "fp16 (3); bf16 (1)"
