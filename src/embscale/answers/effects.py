"""The table of factors: what each variation of the ladder changes, at the last step that it shares with the ladder.

Runs of the same seed see the texts in the same order, so a variation and the ladder are compared in pairs of runs.
Both are compared with the same random tables, so what a variation adds to the score it adds to trained less random.

Each quantity is a family of tests, corrected by Holm's method (Holm 1979): once for "differs", once for "the same".
"The same" needs the difference to lie within a margin that was set before, by two one-sided tests (Schuirmann 1987);
a difference that is merely not significant is unresolved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from embscale.answers import curves, trained
from embscale.answers.crossings import NOT_BEFORE, crossing, interval, status
from embscale.answers.curves import Curve
from embscale.answers.trained import Trained
from embscale.parameters.scores import Margins
from embscale.rows.selection import LADDER
from embscale.statistics.resampling import ROUNDING, Estimate, holm, percentile_interval
from embscale.statistics.two_way import Resamples

SCORE, LOSS, TOKENS = "score less random", "held-out loss", "tokens to the crossing"
QUANTITIES = (SCORE, LOSS, TOKENS)
UNITS = {SCORE: "score", LOSS: "nats per token", TOKENS: "doublings"}
HIGHER, LOWER, SAME, UNRESOLVED, NOT_COMPARED = "higher", "lower", "the same", "unresolved", "not compared"
SLIGHTLY = "slightly"  # higher or lower, and certainly within the margin
ALPHA = 0.05
COLUMNS = [
    "suite", "model", "width", "step", "tokens", "quantity", "unit", "level", "level_low", "level_high", "base_level",
    "effect", "ci_low", "ci_high", "p", "p_holm", "margin", "p_same", "p_same_holm", "verdict", "runs", "n",
    "clusters", "against", "detail",
]  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """One number of a variation, and how far it is from the ladder's.

    Attributes:
        level: of the variation ``[1 + resamples]``, as measured and from each resample.
        base: of the ladder, as measured.
        draws: the effect ``[1 + resamples]``; NaN in resamples that do not tell; empty if there is none.
        margin: within which the two are the same.
        detail: why there is no effect, and what else to say.
    """

    level: np.ndarray
    base: float
    draws: np.ndarray
    margin: float
    detail: str = ""


def rows(
    found: Sequence[Curve], runs: Sequence[Trained], resampled: Resamples, margins: Margins, against: str = LADDER
) -> pd.DataFrame:
    """Rows of ``effects.csv`` with `COLUMNS`: the ladder itself, which has levels alone, then each variation.

    Args:
        found: curves of tables as they are, of the ladder and its variations.
        runs: of all models.
        resampled: of the queries.
        margins: within which two numbers are the same.
        against: the suite that variations are compared with.
    """
    bases = {curve.width: curve for curve in found if curve.suite == against}
    scale = score_range(list(bases.values()))
    lines: list[dict[str, Any]] = []
    for curve in found:
        base = bases.get(curve.width)
        if base is None:
            continue
        seeds = [seed for seed in curve.seeds if seed in base.seeds]
        steps = sorted(set(curve.steps) & set(base.steps))
        if not seeds or not steps:
            continue
        own, base, step = curve.of(seeds), base.of(seeds), int(steps[-1])
        shared = {"suite": curve.suite, "model": curve.model, "width": curve.width, "step": step}
        shared |= {"tokens": int(curve.tokens[curve.place(step)]), "runs": len(seeds)}
        itself = curve.suite == against
        for quantity, effect in _effects(own, base, runs, resampled, step, margins, scale).items():
            line = _line(quantity, effect, resampled, itself=itself)
            lines.append(shared | line | {"against": "" if itself else against})
    return _corrected(pd.DataFrame(lines, columns=COLUMNS))


def score_range(bases: Sequence[Curve]) -> float:
    """The highest score of a trained table of the ladder less chance, of which margins of scores are a share."""
    highest = max((float(scores.mean()) for curve in bases for scores in curve.scores), default=math.nan)
    chance = [float(curve.chance.mean()) for curve in bases if len(curve.chance)]
    return highest - (chance[0] if chance else 0.0)


def _effects(
    own: Curve, base: Curve, runs: Sequence[Trained], resampled: Resamples, step: int, margins: Margins, scale: float
) -> dict[str, Effect]:
    """The effects on each quantity; `own` and `base` have the same seeds."""
    ours, theirs = own.place(step), base.place(step)
    names = base.runs
    less_random = curves.differences(own, resampled)
    scores = curves.effect(own.scores[ours], base.scores[theirs], resampled, names)
    found = {
        SCORE: Effect(
            less_random[:, ours], float(base.less_random()[theirs].mean()), scores, margins.score_share * scale
        )
    }
    seeds = own.seeds
    loss = trained.losses(runs, own.model, seeds, [step])
    before, after = trained.losses(runs, base.model, seeds, [int(base.steps[0]), step])
    found[LOSS] = Effect(
        curves.of_runs(loss, resampled, names)[:, 0],
        float(after.mean()),
        curves.of_runs(loss - after, resampled, names)[:, 0],
        margins.loss_share * float(before.mean() - after.mean()),
        "one run: no interval" if len(seeds) == 1 else "",
    )
    return found | {TOKENS: _tokens(own, base, less_random, resampled, margins)}


def _tokens(own: Curve, base: Curve, less_random: np.ndarray, resampled: Resamples, margins: Margins) -> Effect:
    """The effect on the tokens to the crossing, in doublings; nothing if either has none."""
    level = crossing(own.tokens, less_random)
    measured = {"ladder": (base, crossing(base.tokens, base.less_random().mean(axis=1))), "variation": (own, level[0])}
    words = [
        f"the {name}: {status(float(tokens))}"
        + (f" {curve.tokens[-1]:,} tokens" if status(float(tokens)) == NOT_BEFORE else "")
        for name, (curve, tokens) in measured.items()
        if not 0 < tokens < np.inf
    ]
    base_level, margin = float(measured["ladder"][1]), math.log2(margins.tokens_factor)
    if words:
        return Effect(level, base_level, np.empty(0), margin, "; ".join(words))
    both = [crossing(c.tokens, curves.paired(c, resampled, base.runs)) for c in (own, base)]
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.log2(both[0]) - np.log2(both[1])
    return Effect(level, base_level, draws, margin)


def _line(quantity: str, effect: Effect, resampled: Resamples, *, itself: bool) -> dict[str, Any]:
    """The columns of one effect, before families are corrected."""
    level, low, high = float(effect.level[0]), np.nan, np.nan
    if resampled.clusters > 1 and not (quantity == LOSS and effect.detail):
        ends = interval(effect.level[1:], np.inf) if quantity == TOKENS else percentile_interval(effect.level[1:])
        low, high = (float(end) for end in ends)
    line: dict[str, Any] = {"quantity": quantity, "unit": UNITS[quantity]}
    line |= {"level": _known(level), "level_low": _known(low), "level_high": _known(high)}
    if quantity != LOSS:  # which no query has
        line |= {"n": resampled.queries, "clusters": resampled.clusters}
    if itself:
        return line | {"verdict": "", "detail": ""}
    line |= {"detail": effect.detail}
    line |= {"base_level": _known(effect.base), "margin": effect.margin, "verdict": NOT_COMPARED}
    if not len(effect.draws):
        return line
    found = estimate(effect.draws)
    line |= {"effect": found.value, "verdict": UNRESOLVED}
    if resampled.clusters < 2 or effect.detail:
        return line
    same = max(estimate(effect.draws, null=end).p for end in (-effect.margin, effect.margin))
    line |= {"ci_low": _known(found.low), "ci_high": _known(found.high), "p": found.p}
    return line | {"p_same": same if abs(found.value) < effect.margin else 1.0}


def estimate(draws: np.ndarray, *, null: float = 0.0) -> Estimate:
    """As `embscale.statistics.resampling.estimate`, of draws ``[1 + resamples]`` some of which are not known.

    An unknown draw may be anything: the interval reaches as far as it can, and the p-value counts it on both sides.
    """
    value, drawn = float(draws[0]), draws[1:]
    unknown = np.isnan(drawn)
    low = interval(np.where(unknown, -np.inf, drawn), np.inf)[0]
    high = interval(np.where(unknown, np.inf, drawn), np.inf)[1]
    below = int((unknown | (drawn <= null + ROUNDING)).sum())
    above = int((unknown | (drawn >= null - ROUNDING)).sum())
    return Estimate(value, low, high, min(1.0, 2 * (min(below, above) + 1) / (len(drawn) + 1)))


def _known(value: float) -> float:
    return value if math.isfinite(value) else math.nan


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """p-values corrected within each quantity, and the verdicts that they give."""
    table = table.astype(dict.fromkeys(("p", "p_holm", "p_same", "p_same_holm", "effect", "margin"), float))
    for p, corrected in (("p", "p_holm"), ("p_same", "p_same_holm")):
        for _, family in table[table[p].notna()].groupby("quantity", sort=False):
            table.loc[family.index, corrected] = holm(family[p].to_list())
    differs, same = table["p_holm"] < ALPHA, table["p_same_holm"] < ALPHA
    table.loc[same, "verdict"] = SAME
    # A difference may be certain and too small to matter.
    for side, word in ((table["effect"] > 0, HIGHER), (table["effect"] < 0, LOWER)):
        table.loc[differs & side, "verdict"] = word
        table.loc[differs & side & same, "verdict"] = f"{SLIGHTLY} {word}"
    return table
