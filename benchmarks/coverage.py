"""How often the 95 % intervals of the study contain the truth, by simulation: one row for each kind of interval.

    python benchmarks/coverage.py [--repeats COUNT]

Made-up measurements of a known mean: scores of runs and clusters of queries, accuracies of vectors of texts, quantities
from splits of the same texts, entries made of pairs.  With 2,000 repeats the share is known to about one point.
"""

import argparse

import numpy as np

from embscale.answers import crossings, curves
from embscale.statistics import repeated_splits, shared_units
from embscale.statistics.resampling import bootstrap_means, percentile_interval, seed_band
from embscale.statistics.two_way import Resamples

RESAMPLES = 500
CROSSING = 3e6  # tokens at which the mean curve over all runs crosses
QUERIES, CLUSTERS = 400, 100
SPREAD = {  # standard deviations: of runs, of clusters, of queries, of what is particular to a run and a query
    "runs differ most": (0.1, 0.05, 0.1, 0.1),
    "clusters differ most": (0.001, 0.2, 0.1, 0.1),
    "both differ": (0.02, 0.2, 0.1, 0.1),
    "neither differs": (0.0, 0.01, 0.01, 0.3),
}


def scores(rng, runs, spread):
    """Scores ``[runs, queries]`` of mean 0, what the runs share of them, and the cluster of each query."""
    of_run, of_cluster, of_query, particular = spread
    cluster = np.repeat(np.arange(CLUSTERS), rng.geometric(CLUSTERS / QUERIES, CLUSTERS))
    shared = rng.normal(0, of_cluster, CLUSTERS)[cluster] + rng.normal(0, of_query, len(cluster))
    own = rng.normal(0, of_run, (runs, 1)) + rng.normal(0, particular, (runs, len(cluster)))
    return shared + own, shared, cluster


def of_score(rng, runs, spread):
    values, _, cluster = scores(rng, runs, spread)
    return np.quantile(resampled(rng, cluster).draws(values, "a"), [0.025, 0.975])


def of_paired_difference(rng, spread):
    """Trained less untrained: the same three runs."""
    values, shared, cluster = scores(rng, 3, spread)
    before = shared + rng.normal(0, spread[3], values.shape)
    return np.quantile(resampled(rng, cluster).draws(values - before, "a"), [0.025, 0.975])


def of_difference(rng, spread):
    """Three trained less five random tables."""
    values, shared, cluster = scores(rng, 3, spread)
    random = shared / 2 + rng.normal(0, spread[0], (5, 1)) + rng.normal(0, spread[3], (5, len(cluster)))
    both = resampled(rng, cluster)
    apart = (values.mean(axis=0) - random.mean(axis=0))[:, None]
    return np.quantile(both.means(apart)[:, 0] + both.of_two(values, random, "a b"), [0.025, 0.975])


def resampled(rng, cluster):
    return Resamples(cluster, resamples=RESAMPLES, seed=int(rng.integers(2**31)))


def of_accuracy(rng):
    """Layer accuracy: 60 vectors of each of 50 test texts, by resampled texts."""
    chance = np.clip(rng.normal(0.8, 0.1, 50), 0, 1)
    right = rng.binomial(60, chance)[:, None] / 60
    low, high = percentile_interval(bootstrap_means(right, resamples=RESAMPLES, seed=int(rng.integers(2**31))))
    return low[0] - 0.8, high[0] - 0.8


def of_splits(rng):
    """A quantity of five training sets that each hold three quarters of the same 80 texts."""
    texts = rng.standard_normal(80)
    return repeated_splits.interval(np.array([rng.permutation(texts)[:60].mean() for _ in range(5)]), shared=0.75)


def of_pairs(rng, count):
    """Percentiles of analogies, each made of two of a few pairs."""
    effects = rng.normal(0, 1, count)
    units = np.array([(a, b) for a in range(count) for b in range(count) if a != b])
    values = effects[units].sum(axis=1) + rng.normal(0, 2, len(units))
    low, high, _ = shared_units.interval(lambda some: float(some.mean()), values, units, unit="pairs")
    return low, high


def of_crossing(rng, end, spread):
    """Tokens until three runs' mean curve stays above five random tables, from checkpoints up to an end.

    Less the truth, on a logarithm; without an upper end where curves have not crossed.
    """
    tokens = np.geomspace(25_000, end, 16)
    _, shared, cluster = scores(rng, 1, spread)
    rise = 0.03 * np.maximum(np.log2(tokens / CROSSING), -3)
    of_run = rng.normal(0, spread[0], (1, 3)) + rng.normal(0, spread[0] / 4, (16, 3))
    trained = shared + (rise[:, None] + of_run)[:, :, None] + rng.normal(0, spread[3], (16, 3, len(cluster)))
    random = shared / 2 + rng.normal(0, spread[0] / 2, (5, 1)) + rng.normal(0, spread[3], (5, len(cluster)))
    curve = curves.Curve("a", "a", 1, "full", np.arange(16), tokens, (1, 2, 3), trained, random, np.empty(0))
    found = crossings.crossing(tokens, curves.differences(curve, resampled(rng, cluster)))
    return np.log(np.maximum(crossings.interval(found[1:], end), 1)) - np.log(CROSSING)


def of_runs(rng):
    """Warm starts: a loss of three runs."""
    band = seed_band(rng.standard_normal(3))
    return band.low, band.high


def kinds():
    for name, spread in SPREAD.items():
        yield f"score, three runs; {name}", lambda rng, spread=spread: of_score(rng, 3, spread)
    yield "score, one run", lambda rng: of_score(rng, 1, (0.0, *SPREAD["both differ"][1:]))
    for name, spread in SPREAD.items():
        yield f"trained less random; {name}", lambda rng, spread=spread: of_difference(rng, spread)
    yield "trained less untrained; both differ", lambda rng: of_paired_difference(rng, SPREAD["both differ"])
    yield "accuracy of layers, by texts", of_accuracy
    yield "weights of classifiers, five splits", of_splits
    for count in (6, 10, 20):
        yield f"analogies of {count} pairs", lambda rng, count=count: of_pairs(rng, count)
    yield "warm start, three runs", of_runs
    ends = {"all runs cross": 12e6, "half of the runs cross": CROSSING, "no run crosses": CROSSING / 3}
    for name, end in ends.items():
        yield (
            f"tokens to the crossing, three runs; {name}",
            lambda rng, end=end: of_crossing(rng, end, SPREAD["both differ"]),
        )
    yield (
        "tokens to the crossing, three runs; all cross, runs differ most",
        lambda rng: of_crossing(rng, 12e6, SPREAD["runs differ most"]),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000)
    args = parser.parse_args()
    print("| interval | coverage, % |\n|---|---|")
    for name, interval in kinds():
        rng = np.random.default_rng(0)
        covered = sum(low <= 0 <= high for low, high in (interval(rng) for _ in range(args.repeats)))
        print(f"| {name} | {100 * covered / args.repeats:.1f} |", flush=True)


if __name__ == "__main__":
    main()
