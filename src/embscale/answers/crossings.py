"""How many tokens of training it takes until a trained table stays above random ones.

**Of a run:** the first number of tokens after which its difference to the random tables stays above zero up to the
last checkpoint, interpolated on the logarithm of tokens between checkpoints.  A run that is not above at its last
checkpoint is right-censored there: all that is known is that it does not cross before.

**Of a width:** the median over runs, which is where the middle run's difference is zero; as runs scatter around their
mean on both sides alike, that is where the mean curve crosses.  With three runs this is what can be known: an interval
from the order of three crossings reaches 75 % at most, and resampling them no more, whatever the estimator (Kaplan and
Meier's median is reported beside it, of the runs as they are).  Curves do better, since a run that has not crossed
still has a score at every checkpoint, and scores have the variance that Student's t needs.  So each resample of runs
and clusters of queries (`embscale.statistics.two_way`) gives a whole curve, the curve a crossing, and the crossings
an interval, without an upper end if more than 2.5 % of the curves have not crossed when training ends.  The interval
ends where the band around the mean curve meets zero for good.

**The control** is random tables, or the table of the same run before training.  That is a random table, too, of which
there is one for each run: it takes off what the run's start gives, and asks when training has added something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from embscale.answers.curves import Compared
from embscale.statistics.resampling import CONFIDENCE
from embscale.statistics.two_way import Resamples

ALL_RUNS = "all"
CROSSED, NOT_BEFORE, FROM_THE_START = "crossed", "not before", "from the start"
COLUMNS = [
    "suite", "model", "width", "run", "status", "tokens", "ci_low", "ci_high", "median", "crossed_runs", "runs", "n",
    "clusters", "last_tokens", "against", "task", "length", "metric",
]  # fmt: skip


def crossing(tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Tokens after which values stay above zero up to the end: infinity if they do not, 0 if they always are.

    Before the first checkpoint with tokens the interpolation is linear in tokens, as there is no logarithm of 0.

    Args:
        tokens: ascending, ``[steps]``.
        values: ``[..., steps]``.

    Returns:
        ``[...]``.
    """
    tokens = np.asarray(tokens, np.float64)
    flat = np.asarray(values, np.float64).reshape(-1, len(tokens))
    above = flat > 0
    found = np.full(len(flat), np.inf)
    found[above.all(axis=1)] = 0.0
    crossed = np.flatnonzero(above[:, -1] & ~above.all(axis=1))
    # The last checkpoint that is not above, and the next one.
    before = len(tokens) - 1 - np.argmax(~above[crossed, ::-1], axis=1)
    low, high = flat[crossed, before], flat[crossed, before + 1]
    share = np.abs(low) / (high - low)
    start, end = tokens[before], tokens[before + 1]
    with np.errstate(divide="ignore"):
        geometric = np.exp(np.log(start) * (1 - share) + np.log(end) * share)
    found[crossed] = np.where(start > 0, geometric, end * share)
    return found.reshape(np.shape(values)[:-1])


def median(crossings: np.ndarray, last: float) -> float:
    """Kaplan and Meier's median of crossings; infinity if half of the runs or more have not crossed.

    Args:
        crossings: of runs, ``[runs]``; infinity for a run that is censored at `last`.
        last: tokens when training ends.
    """
    censored = np.isinf(crossings)
    if censored.all():
        return np.inf
    data = stats.CensoredData.right_censored(np.where(censored, last, crossings), censored)
    survival = stats.ecdf(data).sf
    reached = survival.quantiles[survival.probabilities <= 0.5 + 1e-12]
    return float(reached[0]) if len(reached) else np.inf


def interval(draws: np.ndarray, last: float) -> tuple[float, float]:
    """The 95 % interval of a crossing from its resamples; an end that is not reached is `last`, or infinity above."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], method="inverted_cdf")
    return float(min(low, last)), float(high)


def status(tokens: float) -> str:
    """What is known of a crossing, in words."""
    if np.isinf(tokens):
        return NOT_BEFORE
    return CROSSED if tokens > 0 else FROM_THE_START


def rows(found: Sequence[Compared], protocol: Mapping[str, str], resampled: Resamples) -> pd.DataFrame:
    """Rows of ``crossings.csv`` with `COLUMNS`: a row for each width (``run`` is ``all``) and one for each of its runs.

    ``tokens`` is that of the last checkpoint where ``status`` is ``not before``; ``ci_high`` is empty where the
    interval has no upper end.

    Args:
        found: from `embscale.answers.curves.compared`.
        protocol: task, length and metric.
        resampled: of the queries.
    """
    lines: list[dict[str, Any]] = []
    for curve, against, draws, single, _ in found:
        last = float(curve.tokens[-1])
        shared = {"suite": curve.suite, "model": curve.model, "width": curve.width, "last_tokens": last}
        shared |= {"against": against, "n": resampled.queries, "clusters": resampled.clusters} | dict(protocol)
        crossed = crossing(curve.tokens, draws)
        of_runs = crossing(curve.tokens, single.T)
        low, high = interval(crossed[1:], last) if resampled.clusters > 1 else (np.nan, np.nan)
        lines.append(
            shared
            | {"run": ALL_RUNS, "status": status(crossed[0]), "tokens": min(crossed[0], last), "ci_low": low}
            | {"ci_high": _finite(high), "median": _finite(median(of_runs, last))}
            | {"crossed_runs": int(np.isfinite(of_runs).sum()), "runs": len(curve.seeds)}
        )
        for seed, tokens in zip(curve.seeds, of_runs, strict=True):
            own = {"run": str(seed), "status": status(tokens), "tokens": min(tokens, last), "runs": 1}
            lines.append(shared | own | {"crossed_runs": int(np.isfinite(tokens))})
    return pd.DataFrame(lines, columns=COLUMNS)


def _finite(tokens: float) -> float:
    return tokens if np.isfinite(tokens) else np.nan
