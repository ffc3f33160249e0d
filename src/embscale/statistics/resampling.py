"""Intervals, p-values, trends and regressions, all from one bootstrap over queries.

Every score of a task is measured on the same queries, so a resample of the queries gives all of them new means at
once (`bootstrap_means`), and anything computed from means, whether difference, rank correlation or arg-max, gets its
distribution by being recomputed from each resample's means (Efron and Tibshirani 1993, chapters 13 and 16).  Functions
that take means take them as ``[..., models]``, one row for each resample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

CONFIDENCE = 0.95

# Resamples per batch: bounds memory at 1,000 x queries x 8 bytes.
RESAMPLES_PER_CHUNK = 1000

# Means closer than this count as equal: rounding must not decide which is the highest.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty.

    Attributes:
        value: from the original queries.
        low: end of the 95 % percentile interval.
        high: the other end.
        p: two-sided p-value of the tested hypothesis.
    """

    value: float
    low: float
    high: float
    p: float


def bootstrap_means(values: np.ndarray, *, resamples: int, seed: int) -> np.ndarray:
    """Means of resampled queries, the same resamples for every column, so that columns stay paired.

    Args:
        values: ``[queries, columns]``.
        resamples: how many samples of the queries to draw with replacement.
        seed: of the draws.

    Returns:
        ``[resamples, columns]``.
    """
    queries = len(values)
    return np.concatenate([counts @ values for counts in _resampled_counts(queries, resamples, seed)]) / queries


def percentile_interval(means: np.ndarray, *, confidence: float = CONFIDENCE) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap interval of each column of `bootstrap_means`."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high


def two_sided_p(draws: np.ndarray, null: float = 0.0) -> float:
    """Two-sided p-value of a hypothesis that a quantity is `null`, from its bootstrap distribution.

    Twice the smaller share of resamples on either side of `null`, `null` itself counted on both, with one more on
    each side for the sample itself (Davison and Hinkley 1997, section 4.2): never below 2 / (resamples + 1).  It is
    below 0.05 approximately when the 95 % percentile interval excludes `null`.

    Args:
        draws: ``[resamples]``.
        null: the value under test.
    """
    below, above = np.sum(draws <= null + ROUNDING), np.sum(draws >= null - ROUNDING)
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(draws) + 1)))


def estimate(value: float, draws: np.ndarray, *, null: float = 0.0) -> Estimate:
    """A number with the interval and p-value from its resampled values.

    Args:
        value: from the queries as they are.
        draws: ``[resamples]``, the same from resampled queries.
        null: what the p-value tests against.
    """
    low, high = percentile_interval(draws)
    return Estimate(float(value), float(low), float(high), two_sided_p(draws, null))


def paired_difference(a: np.ndarray, b: np.ndarray, *, resamples: int, seed: int) -> Estimate:
    """Mean of ``a - b`` for two scores of the same queries ``[queries]``, tested against 0."""
    difference = np.asarray(a - b, np.float64)[:, None]
    return estimate(difference.mean(), bootstrap_means(difference, resamples=resamples, seed=seed)[:, 0])


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted for a family of tests by Holm's step-down method (Holm 1979), in the given order."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def argmax_distribution(means: np.ndarray) -> np.ndarray:
    """How often each column is the highest, from 0 to 1; ties are shared equally.

    Args:
        means: ``[resamples, models]``.

    Returns:
        ``[models]``, summing to 1.
    """
    highest = means >= means.max(axis=1, keepdims=True) - ROUNDING
    return (highest / highest.sum(axis=1, keepdims=True)).mean(axis=0)


def kendall(sizes: Sequence[float], means: np.ndarray) -> np.ndarray:
    """Kendall's tau-b between sizes and scores (Kendall 1945); 0 if all scores are equal.

    Args:
        sizes: ``[models]``.
        means: ``[..., models]``.

    Returns:
        ``[...]``, from -1 to 1.
    """
    first, second = np.triu_indices(len(sizes), 1)
    x = np.sign(np.asarray(sizes, np.float64)[second] - np.asarray(sizes, np.float64)[first])
    gaps = means[..., second] - means[..., first]
    y = np.where(np.abs(gaps) <= ROUNDING, 0, np.sign(gaps))
    return _ratio(y @ x, np.sqrt((x != 0).sum() * (y != 0).sum(axis=-1)))


def permutation_test(sizes: Sequence[float], scores: np.ndarray) -> Estimate:
    """Kendall's tau-b with a permutation p-value over models, exact if there are no ties; no interval.

    The bootstrap over queries tests whether these models are in this order; this test asks whether so few models could
    be in this order by chance.
    """
    from scipy import stats  # takes a second, and most commands that resample need none of it

    result = stats.kendalltau(sizes, scores)
    return Estimate(float(result.statistic), math.nan, math.nan, float(result.pvalue))


def spearman(sizes: Sequence[float], means: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation between sizes and scores; arguments and result as those of `kendall`."""
    from scipy import stats  # takes a second, and most commands that resample need none of it

    x = stats.rankdata(sizes)
    y = stats.rankdata(np.round(means, 12), axis=-1)
    x = x - x.mean()
    y = y - y.mean(axis=-1, keepdims=True)
    return _ratio(y @ x, np.sqrt((x @ x) * (y * y).sum(axis=-1)))


def slope(sizes: Sequence[float], means: np.ndarray) -> np.ndarray:
    """Least-squares rise of the score for each doubling of the size; arguments and result as those of `kendall`."""
    x = np.log2(np.asarray(sizes, np.float64))
    x = x - x.mean()
    return _ratio(means @ x, np.asarray(x @ x))


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """0 if the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator > 0)


@dataclass(frozen=True)
class Band:
    """Scores of one kind of random table over seeds.

    Attributes:
        mean: over seeds.
        sd: standard deviation of one seed, with n - 1; NaN for a single seed.
        low: end of the 95 % Student interval of the mean; NaN for a single seed.
        high: the other end.
        lowest: of the seeds.
        highest: of the seeds.
        seeds: how many.
    """

    mean: float
    sd: float
    low: float
    high: float
    lowest: float
    highest: float
    seeds: int


def seed_band(scores: Sequence[float] | np.ndarray) -> Band:
    """The band over seeds; uncertainty over queries is separate."""
    from scipy import stats

    values = np.asarray(scores, np.float64)
    count = len(values)
    sd = float(values.std(ddof=1)) if count > 1 else math.nan
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * sd / math.sqrt(count) if count > 1 else math.nan
    mean = float(values.mean())
    return Band(mean, sd, mean - half, mean + half, float(values.min()), float(values.max()), count)


@dataclass(frozen=True)
class Regression:
    """Least squares over models.

    Attributes:
        coefficients: by name of the term.
        models: how many scores it was fitted to.
        unidentified: terms that are linear combinations of others, such as a suite's constant; they have no
            coefficient.
    """

    coefficients: dict[str, Estimate]
    models: int
    unidentified: tuple[str, ...]


def regression(terms: Mapping[str, np.ndarray], groups: Sequence[str], means: np.ndarray) -> Regression:
    """Regress scores on facts of the models, with a constant for each group (suite).

    Intervals are over queries, for fixed models: they describe how well the line through these models is known, not
    what other models would do.  A term that is a linear combination of the constants and earlier terms is dropped and
    reported.

    Args:
        terms: name -> ``[models]``.
        groups: ``[models]``, the suite of each.
        means: ``[1 + resamples, models]``; first the scores over the original queries.
    """
    constants = np.stack([np.asarray(groups) == group for group in dict.fromkeys(groups)], axis=1).astype(np.float64)
    design = constants
    kept: list[str] = []
    for name, values in terms.items():
        # The residual of a redundant term, centred within its suite, is zero up to rounding.
        column = np.asarray(values, np.float64)[:, None]
        residual = column - design @ np.linalg.lstsq(design, column, rcond=None)[0]
        if np.abs(residual).max() > 1e-9 * max(1.0, np.abs(column).max()):
            design = np.hstack([design, column])
            kept.append(name)
    solved = (np.linalg.pinv(design) @ means.T)[constants.shape[1] :]
    coefficients = {name: estimate(row[0], row[1:]) for name, row in zip(kept, solved, strict=True)}
    return Regression(coefficients, len(groups), tuple(name for name in terms if name not in kept))


def confounds(facts: pd.DataFrame) -> pd.DataFrame:
    """Facts that vary together with the width of the table in each suite.

    Args:
        facts: a row for each model with ``suite``, ``model``, ``dims`` and further facts; NaN where not known.

    Returns:
        A row for each suite and fact: ``suite``, ``fact``, ``models`` (for which it is known), ``correlation`` of
        log2 width with log2 of a number, or with whether a word is that of the narrowest model (empty if the fact does
        not vary or fewer than three models have it), ``varies``, and what is ``known`` in words.
    """
    rows = []
    for suite, group in facts.groupby("suite", sort=False):
        for fact in facts.columns.drop(["suite", "model", "dims"]):
            known = group.dropna(subset=[fact]).sort_values("dims")
            if known.empty:
                continue
            values = known[fact]
            numeric = pd.api.types.is_numeric_dtype(facts[fact]) and not pd.api.types.is_bool_dtype(facts[fact])
            varies = bool((values != values.iloc[0]).any())
            y = np.log2(values.astype(float)) if numeric else (values != values.iloc[0]).astype(float)
            x = np.log2(known["dims"].astype(float))
            correlated = varies and len(known) > 2 and x.iloc[0] < x.iloc[-1]
            rows.append(
                {
                    "suite": suite,
                    "fact": fact,
                    "models": len(known),
                    "varies": varies,
                    "correlation": float(np.corrcoef(x, y)[0, 1]) if correlated else math.nan,
                    "known": _in_words(values, numeric),
                }
            )
    return pd.DataFrame(rows, columns=["suite", "fact", "models", "varies", "correlation", "known"])


def _in_words(values: pd.Series, numeric: bool) -> str:
    if numeric:
        low, high = values.min(), values.max()
        return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return "; ".join(f"{value} ({count})" for value, count in values.value_counts(sort=False).items())


def _resampled_counts(queries: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each query occurs in each resample: rows of a multinomial distribution."""
    generator = np.random.default_rng(seed)
    chances = np.full(queries, 1 / queries)
    for start in range(0, resamples, RESAMPLES_PER_CHUNK):
        size = min(RESAMPLES_PER_CHUNK, resamples - start)
        yield generator.multinomial(queries, chances, size=size).astype(np.float64)
