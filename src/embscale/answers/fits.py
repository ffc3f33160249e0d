"""Scaling laws: held-out loss by width and by tokens, score less random tables by width, each tested on unseen points.

A power law with an offset, ``a x^-b + c``, where there are points enough, and one without, which is a straight line on
two logarithmic axes, where there are not; scores follow a line in the logarithm of width.  Bands and predictions are
over training runs: each resample of the runs (and, of scores, of the clusters of queries) gives points, the points a
fit.  A prediction is of what was observed: resample by resample the fit's error less that of the point held out, which
runs of the same seed share, and the scatter of the points around the law by Student's t, with as many degrees of
freedom as the law has points to spare.  A law needs a point more than it has parameters, or it is not fitted, and the
row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from embscale.answers import curves, trained
from embscale.answers.curves import Curve
from embscale.answers.trained import Trained
from embscale.rows.selection import LADDER
from embscale.statistics.resampling import percentile_interval
from embscale.statistics.two_way import Resamples

FITTED_DRAWS = 300  # resamples that a law without a closed form is fitted to, since each takes a millisecond
SPARE = 1  # points that a law must have beyond its parameters
EARLIEST = 16  # laws in tokens begin at this fraction of the training, when the loss has left its start
HELD_OUT = 2  # and see this fraction of it
PREDICTED, MISSED, NOT_SUPPORTED = "predicted", "missed", "not supported"
COLUMNS = [
    "quantity", "by", "suite", "width", "law", "parameters", "points", "offset", "offset_low", "offset_high", "factor",
    "factor_low", "factor_high", "exponent", "exponent_low", "exponent_high", "residual", "held_out", "observed",
    "predicted", "predicted_low", "predicted_high", "verdict", "runs", "n", "clusters", "against", "detail",
]  # fmt: skip
POINTS = [
    "quantity", "by", "suite", "width", "law", "verdict", "x", "used", "value", "ci_low", "ci_high", "fitted",
    "band_low", "band_high", "predicted_low", "predicted_high",
]  # fmt: skip
LOSS, SCORE = "held-out loss", "score less random"


@dataclass(frozen=True)
class Law:
    """A function of one variable.

    Attributes:
        name: in words.
        terms: names of its parameters, some of offset, factor and exponent.
        fit: x and ``[draws, points]`` to parameters ``[draws, terms]``; NaN where it does not converge.
        value: x and ``[draws, terms]`` to ``[draws, points]``.
    """

    name: str
    terms: tuple[str, ...]
    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _line(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least squares of ``y`` on 1 and log2 x: ``[draws, 2]``."""
    design = np.stack([np.ones_like(x), np.log2(x)], axis=1)
    return np.asarray(y @ np.linalg.pinv(design).T)


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y = factor x^-exponent``: a line in logarithms."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = _line(x, np.log2(y))
    return np.stack([2 ** found[:, 0], -found[:, 1]], axis=1)


def _offset(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y = offset + factor (x / first x)^-exponent``, by `scipy.optimize.curve_fit`, none of them negative."""
    from scipy.optimize import curve_fit

    scaled = x / x[0]
    start = [float(y[0].min()) / 2, float(y[0].max()) / 2, 0.5]
    found = np.full((len(y), 3), np.nan)
    for place, values in enumerate(y):
        try:
            found[place] = curve_fit(_at_offset, scaled, values, start, bounds=(0, [np.inf, np.inf, 5.0]))[0]
        except (RuntimeError, ValueError):
            continue
        if not place:
            start = np.clip(found[0], 1e-6, [np.inf, np.inf, 4.9]).tolist()
    found[:, 1] *= x[0] ** found[:, 2]
    return found


def _at_offset(x: np.ndarray, offset: float, factor: float, exponent: float) -> np.ndarray:
    return np.asarray(offset + factor * x**-exponent)


POWER = Law("power law", ("factor", "exponent"), _power, lambda x, p: p[:, :1] * x ** -p[:, 1:])
POWER_OFFSET = Law(
    "power law with an offset",
    ("offset", "factor", "exponent"),
    _offset,
    lambda x, p: p[:, :1] + p[:, 1:2] * x ** -p[:, 2:],
)
LOGARITHM = Law("line in log2", ("offset", "factor"), _line, lambda x, p: p[:, :1] + p[:, 1:] * np.log2(x))


@dataclass(frozen=True)
class Points:
    """What a law is fitted to.

    Attributes:
        x: ``[points]``.
        y: ``[1 + resamples, points]``, as measured and from each resample.
        used: whether the law sees each point; the last point is held out.
        keys: columns of the rows.
    """

    x: np.ndarray
    y: np.ndarray
    used: np.ndarray
    keys: dict[str, Any]


def fits(found: Sequence[Curve], runs: Sequence[Trained], resampled: Resamples) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of ``fits.csv`` and ``fitted.csv``, with `COLUMNS` and `POINTS`.

    Args:
        found: curves of tables as they are.
        runs: all training runs.
        resampled: of the queries.
    """
    ladder = [curve for curve in found if curve.suite == LADDER]
    lines, points = [], []
    for made, laws in _sets(ladder, runs, resampled):
        law = next((law for law in laws if _enough(law, made)), laws[-1])
        line, own = _fit(law, made, resampled)
        lines.append(line)
        points.append(own)
    return pd.DataFrame(lines, columns=COLUMNS), pd.concat([pd.DataFrame(columns=POINTS), *points])[POINTS]


def _sets(ladder: Sequence[Curve], runs: Sequence[Trained], resampled: Resamples) -> list[tuple[Points, Sequence[Law]]]:
    """The points of each law with the laws that could be fitted, the first that has points enough being taken."""
    widths = np.array([float(curve.width) for curve in ladder])
    wide = np.arange(len(ladder)) < len(ladder) - 1
    seeds = min(len(curve.seeds) for curve in ladder)
    shared: dict[str, Any] = {"suite": LADDER, "runs": seeds}
    of_queries = {"n": resampled.queries, "clusters": resampled.clusters, "against": "random"}
    losses = {
        curve.width: curves.of_runs(
            trained.losses(runs, curve.model, curve.seeds, [int(step) for step in curve.steps]),
            resampled,
            # Runs of one seed have the same held-out texts at every width.
            f"{LADDER} {curve.seeds}",
        )
        for curve in ladder
    }
    last = np.stack([losses[curve.width][:, -1] for curve in ladder], axis=1)
    apart = np.stack([curves.differences(curve, resampled)[:, -1] for curve in ladder], axis=1)
    sets: list[tuple[Points, Sequence[Law]]] = [
        (Points(widths, last, wide, shared | {"quantity": LOSS, "by": "width"}), (POWER_OFFSET, POWER)),
        (Points(widths, apart, wide, shared | {"quantity": SCORE, "by": "width"} | of_queries), (LOGARITHM,)),
    ]
    for curve in ladder:
        end = curve.tokens[-1]
        chosen = (curve.tokens > 0) & (curve.tokens >= end / EARLIEST)
        tokens = curve.tokens[chosen].astype(float)
        keys = shared | {"quantity": LOSS, "by": "tokens", "width": curve.width, "runs": len(curve.seeds)}
        used = tokens <= end / HELD_OUT
        sets.append((Points(tokens, losses[curve.width][:, chosen], used, keys), (POWER_OFFSET, POWER)))
    return sets


def _enough(law: Law, made: Points) -> bool:
    return int(made.used.sum()) >= len(law.terms) + SPARE


def _fit(law: Law, made: Points, resampled: Resamples) -> tuple[dict[str, Any], pd.DataFrame]:
    """A row of the law, and its points with the band."""
    several = made.keys["runs"] > 1 and (resampled.clusters > 1 or made.keys["quantity"] == LOSS)
    ends = percentile_interval(made.y[1:]) if several else np.full((2, len(made.x)), np.nan)
    points = pd.DataFrame(
        {"x": made.x, "used": made.used, "value": made.y[0], "ci_low": ends[0], "ci_high": ends[1]}
    ).assign(**{name: made.keys.get(name) for name in ("quantity", "by", "suite", "width")}, law=law.name)
    points = points.reindex(columns=POINTS)
    line: dict[str, Any] = made.keys | {"law": law.name, "parameters": len(law.terms), "points": int(made.used.sum())}
    line |= {"held_out": made.x[-1], "observed": made.y[0, -1], "verdict": NOT_SUPPORTED, "detail": ""}
    if not _enough(law, made):
        line["detail"] = f"a {law.name} needs {len(law.terms) + SPARE} points beside the one held out"
        return line, points.assign(verdict=NOT_SUPPORTED)
    draws = made.y[: 1 + FITTED_DRAWS] if law is POWER_OFFSET else made.y
    found = law.fit(made.x[made.used], draws[:, made.used])
    if np.isnan(found[0]).any() or (many := np.isnan(found).any(axis=1).mean()) > 0.05:
        line["detail"] = (
            "the fit does not converge" if np.isnan(found[0]).any() else f"{many:.0%} of fits do not converge"
        )
        return line, points.assign(verdict=NOT_SUPPORTED)
    converged = ~np.isnan(found).any(axis=1)
    found, draws = found[converged], draws[converged]
    values = law.value(made.x, found)
    spare = line["points"] - len(law.terms)
    residual = float(np.sqrt(np.square(made.y[0] - values[0])[made.used].sum() / spare))
    scatter = np.random.default_rng(resampled.seed).standard_t(spare, len(values) - 1) * residual
    line |= {"residual": residual, "predicted": values[0, -1]}
    errors = (values - draws)[:, -1]
    low, high = values[0, -1] + np.array(percentile_interval(errors[1:] - errors[0] + scatter))
    line |= {"predicted_low": low, "predicted_high": high}
    line["verdict"] = PREDICTED if low <= made.y[0, -1] <= high else MISSED
    details = ["one point to spare, so the prediction is wide"] if spare == 1 else []
    details += [] if several else ["one run: the prediction has the scatter of the points alone"]
    for place, term in enumerate(law.terms):
        line[term] = found[0, place]
        if several:
            line[f"{term}_low"], line[f"{term}_high"] = percentile_interval(found[1:, place])
    band = percentile_interval(values[1:]) if several else np.full((2, len(made.x)), np.nan)
    points = points.assign(fitted=values[0], band_low=band[0], band_high=band[1], verdict=line["verdict"])
    points.loc[points.index[-1], ["predicted_low", "predicted_high"]] = low, high
    return line | {"detail": "; ".join(details)}, points
