"""Intervals over runs and clusters of queries, compared with formulas and with simulated truth."""

import numpy as np
import pytest
from scipy import stats

from embscale.statistics.two_way import Resamples

RESAMPLES = 400


def interval(draws):
    return np.quantile(draws, [0.025, 0.975])


def test_of_one_run_and_single_queries_it_is_the_bootstrap_of_the_mean():
    values = np.random.default_rng(0).random((1, 400))
    draws = Resamples(np.arange(400), resamples=20_000, seed=1).draws(values, "a")
    expected = stats.bootstrap(
        (values[0],), np.mean, n_resamples=20_000, method="percentile", rng=2
    ).confidence_interval
    assert interval(draws) == pytest.approx([expected.low, expected.high], abs=0.002)


def test_of_runs_that_differ_and_equal_queries_it_is_students_interval():
    means = np.array([0.1, 0.4, 0.25])
    draws = Resamples(np.arange(50) // 5, resamples=100_000, seed=1).draws(np.repeat(means[:, None], 50, axis=1), "a")
    low, high = stats.t.interval(0.95, 2, means.mean(), means.std(ddof=1) / np.sqrt(3))
    assert interval(draws) == pytest.approx([low, high], rel=0.05)


def test_a_resample_is_a_mean_over_queries_not_over_clusters():
    clusters = np.repeat([0, 1], [1, 9])
    values = np.where(clusters == 0, 1.0, 0.0)[:, None]
    draws = Resamples(clusters, resamples=4000, seed=0).means(values)[:, 0]
    assert set(np.round(draws, 12)) == {0.0, 0.1, 1.0}  # both clusters once is the sample itself
    assert np.isclose(draws, 0.1).mean() == pytest.approx(0.5, abs=0.03)


def test_the_difference_of_two_scores_varies_as_the_runs_differences_do():
    """Where the runs of two scores rise and fall together, their difference is certain."""
    rng = np.random.default_rng(0)
    runs, queries = rng.normal(0, 1, (3, 1)), np.zeros((1, 60))
    resamples = Resamples(np.arange(60), resamples=RESAMPLES, seed=0)
    same = resamples.draws(runs + queries, "a") - resamples.draws(runs + 1 + queries, "a")
    assert np.allclose(same, -1)
    others = resamples.draws(runs + queries, "a") - resamples.draws(runs + 1 + queries, "b")
    assert others.std() > 0.5


def test_of_two_sets_of_runs_that_differ_it_is_welchs_interval():
    one, two = np.array([0.1, 0.4, 0.25]), np.array([0.2, 0.22, 0.3, 0.25, 0.21])
    resamples = Resamples(np.arange(50) // 5, resamples=100_000, seed=1)
    draws = resamples.of_two(*(np.repeat(means[:, None], 50, axis=1) for means in (one, two)), "a")
    welch = stats.ttest_ind(one, two, equal_var=False).confidence_interval()
    apart = one.mean() - two.mean()
    assert interval(draws) + apart == pytest.approx([welch.low, welch.high], rel=0.05)


def test_runs_that_do_not_differ_add_nothing():
    resamples = Resamples(np.arange(20), resamples=10, seed=0)
    alike, single = np.ones((3, 20)), np.random.default_rng(0).random((1, 20))
    assert not resamples.of_two(alike, single, "a").any() and not resamples.of_runs(alike, "a").any()


def test_the_order_of_queries_does_not_matter_and_the_seed_does():
    rng = np.random.default_rng(3)
    values, clusters, order = rng.random((3, 90)), np.arange(90) // 4, rng.permutation(90)
    one, two = (
        Resamples(labels, resamples=50, seed=0).draws(some, "a")
        for labels, some in ((clusters, values), (clusters[order], values[:, order]))
    )
    assert np.allclose(one, two)
    assert not np.allclose(one, Resamples(clusters, resamples=50, seed=1).draws(values, "a"))


def simulated(rng, *, runs, clusters, queries, of_run, of_cluster, of_query, particular):
    """What runs share and what is their own of made-up scores with the mean 0, and the cluster of each query."""
    sizes = rng.geometric(clusters / queries, clusters)
    cluster = np.repeat(np.arange(clusters), sizes)
    shared = rng.normal(0, of_cluster, clusters)[cluster] + rng.normal(0, of_query, len(cluster))
    own = rng.normal(0, of_run, (runs, 1)) + rng.normal(0, particular, (runs, len(cluster)))
    return shared, own, cluster


CASES = {
    "three runs that differ": {"runs": 3, "of_run": 0.1, "of_cluster": 0.05, "of_query": 0.1, "particular": 0.1},
    "five runs that differ": {"runs": 5, "of_run": 0.1, "of_cluster": 0.05, "of_query": 0.1, "particular": 0.1},
    "clusters that differ": {"runs": 3, "of_run": 0.001, "of_cluster": 0.2, "of_query": 0.1, "particular": 0.1},
    "both": {"runs": 3, "of_run": 0.02, "of_cluster": 0.2, "of_query": 0.1, "particular": 0.1},
    "neither": {"runs": 3, "of_run": 0.0, "of_cluster": 0.01, "of_query": 0.01, "particular": 0.3},
    "one run": {"runs": 1, "of_run": 0.0, "of_cluster": 0.2, "of_query": 0.1, "particular": 0.1},
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_intervals_cover_the_truth_as_often_as_they_say(case):
    rng, repeats, covered = np.random.default_rng(5), 400, 0
    for number in range(repeats):
        shared, own, clusters = simulated(rng, clusters=100, queries=400, **case)
        low, high = interval(Resamples(clusters, resamples=RESAMPLES, seed=number).draws(shared + own, "a"))
        covered += low <= 0 <= high
    assert 0.90 <= covered / repeats <= 0.975


@pytest.mark.parametrize("of_run", [0.0, 0.03])
def test_intervals_of_differences_of_other_runs_cover_the_truth(of_run):
    """Trained tables of three runs against five random ones, on the same queries."""
    rng, repeats, covered = np.random.default_rng(6), 400, 0
    for number in range(repeats):
        shared, trained, clusters = simulated(
            rng, runs=3, clusters=100, queries=400, of_run=of_run, of_cluster=0.1, of_query=0.1, particular=0.1
        )
        random = rng.normal(0, of_run, (5, 1)) + rng.normal(0, 0.1, (5, len(clusters)))
        resamples = Resamples(clusters, resamples=RESAMPLES, seed=number)
        apart = (shared + trained.mean(axis=0) - shared / 2 - random.mean(axis=0))[:, None]
        draws = resamples.means(apart)[:, 0] + resamples.of_two(shared + trained, shared / 2 + random, "both")
        low, high = interval(draws)
        covered += low <= 0 <= high
    assert 0.90 <= covered / repeats <= 0.975


def test_resampling_three_runs_like_queries_would_give_intervals_that_are_too_short():
    """Why runs enter by Student's t."""
    rng, repeats, covered = np.random.default_rng(7), 300, 0
    for _ in range(repeats):
        means = rng.normal(0, 1, 3)
        low, high = interval(means[rng.integers(3, size=(RESAMPLES, 3))].mean(axis=1))
        covered += low <= 0 <= high
    assert covered / repeats < 0.85
