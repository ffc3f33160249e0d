"""Which explanation of low scores stands: the first study named three, and the ladder asks each for what it predicts.

An explanation is about our ladder, and says so; published models are not asked.  Each prediction has parts with ranges,
decided by the rules of `embscale.claims.verdicts`: it *holds* or *fails* where the part that decides is certain after
Holm's correction over all predictions, and is *unresolved* where it is not, or where the study has not run what the
prediction is about.  Training that ends early refutes nothing: that tables do not cross is a failure only where the
loss no longer falls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from embscale.answers import curves, trained
from embscale.answers.curves import Curve
from embscale.answers.trained import Trained
from embscale.claims import verdicts
from embscale.claims.verdicts import ALPHA, FAILS, HOLDS, UNRESOLVED, NotRun, NotTestable, Part, Trend
from embscale.parameters.scores import Margins
from embscale.rows.selection import LADDER
from embscale.rows.treatments import FULL
from embscale.statistics.resampling import holm, percentile_interval, slope
from embscale.statistics.two_way import Resamples

FROZEN = f"{LADDER}-frozen"
EARLY = 4  # a rise is from this fraction of the tokens to all of them
LEAST_WIDTHS = 3  # a trend needs
COLUMNS = [
    "explanation", "prediction", "words", "verdict", "statistic", "unit", "expected", "margin", "effect", "ci_low",
    "ci_high", "p", "p_holm", "runs", "models", "n", "clusters", "against", "detail", "figure", "rows", "command",
]  # fmt: skip


@dataclass(frozen=True)
class Study:
    """What predictions are asked of.

    Attributes:
        curves: of each way of scoring (``full``, ``unit``, ``idf``), that of each suite and width.
        runs: all training runs.
        resampled: of the queries.
        margins: within which two numbers are the same.
    """

    curves: Mapping[str, Sequence[Curve]]
    runs: Sequence[Trained]
    resampled: Resamples
    margins: Margins

    def ladder(self, way: str = FULL, suite: str = LADDER) -> list[Curve]:
        """Curves of a suite from narrow to wide.

        Raises:
            NotRun: there are none.
        """
        found = [curve for curve in self.curves.get(way, ()) if curve.suite == suite]
        if not found:
            raise NotRun(
                f"the suite {suite} was not trained in this study"
                if way == FULL
                else f"no random tables were scored with {way}"
            )
        return sorted(found, key=lambda curve: curve.width)

    def less_random(self, curve: Curve) -> np.ndarray:
        """Trained less random ``[1 + resamples, steps]``; NaN in resamples where there are no independent queries."""
        return self.known(curves.differences(curve, self.resampled))

    def above_chance(self, curve: Curve, place: int) -> tuple[np.ndarray, ...]:
        """The trained and the random tables' scores less chance, ``[1 + resamples]`` each."""
        if not len(curve.chance):
            return ()
        found = (curve.scores[place] - curve.chance, curve.random - curve.chance)
        names = (curve.runs, curve.random_runs)
        return tuple(
            self.known(np.concatenate([[values.mean()], self.resampled.draws(values, name)]))
            for values, name in zip(found, names, strict=True)
        )

    def losses(self, curve: Curve, steps: Sequence[int]) -> np.ndarray:
        """Held-out losses ``[steps, runs]``."""
        return trained.losses(self.runs, curve.model, curve.seeds, steps)

    def of_runs(self, values: np.ndarray, runs: str) -> np.ndarray:
        """The mean over runs ``[..., runs]`` to ``[1 + resamples, ...]``; NaN in the resamples of one run."""
        found = curves.of_runs(values, self.resampled, runs)
        if values.shape[-1] == 1:
            found[1:] = np.nan
        return found

    def known(self, draws: np.ndarray) -> np.ndarray:
        """Draws over queries; NaN in resamples where there are no independent queries."""
        if self.resampled.clusters < 2:
            draws[1:] = np.nan
        return draws


def rises(study: Study) -> list[Part]:
    """Trained less random rises over the last three quarters of the training, at every width."""
    return _unless_unfinished(study, {curve.width: _rise(study, curve) for curve in study.ladder()}, "not rising")


def _rise(study: Study, curve: Curve) -> Part:
    early = int(np.searchsorted(curve.tokens, curve.tokens[-1] / EARLY))
    if early in (0, len(curve.steps) - 1):
        raise NotTestable(f"{curve.model} has no checkpoint at a quarter of the training")
    draws = study.known(curves.effect(curve.scores[-1], curve.scores[early], study.resampled, curve.runs))
    words = f"trained less random, last less {curve.tokens[early]:,} tokens, width {curve.width}"
    above = (*study.above_chance(curve, -1), *study.above_chance(curve, early))
    return Part(words, draws, above_chance=above)


def crosses(study: Study) -> list[Part]:
    """Trained tables pass random ones by the end of training, at every width."""
    parts = {}
    for curve in study.ladder():
        words = f"trained less random after {curve.tokens[-1]:,} tokens, width {curve.width}"
        draws = study.less_random(curve)[:, -1]
        parts[curve.width] = Part(words, draws, above_chance=study.above_chance(curve, -1))
    return _unless_unfinished(study, parts, "not above random tables")


def _unless_unfinished(study: Study, parts: Mapping[int, Part], words: str) -> list[Part]:
    """The parts by width, unless one is not certainly above zero though its training could go on.

    Raises:
        NotTestable: at some width more training could still bring it about.
    """
    unfinished = []
    for curve in study.ladder():
        draws = parts[curve.width].draws
        above = draws[0] > 0 if np.isnan(draws).any() else percentile_interval(draws[1:])[0] > 0
        if not above and (falls := _still_falls(study, curve)):
            unfinished.append(f"{curve.width} ({falls})")
    if unfinished:
        raise NotTestable(f"{words} when training ends, but the loss still falls, at width {', '.join(unfinished)}")
    return list(parts.values())


def _still_falls(study: Study, curve: Curve) -> str:
    """Whether the last doubling of tokens lowered the loss by more than the margin; by how much, or nothing."""
    half = int(np.searchsorted(curve.tokens, curve.tokens[-1] / 2))
    half = min(half, len(curve.steps) - 2)
    first, before, last = study.losses(curve, [int(curve.steps[place]) for place in (0, half, -1)]).mean(axis=1)
    if before - last <= study.margins.loss_share * (first - last):
        return ""
    return f"by {before - last:.2f} nats from {curve.tokens[half]:,} to {curve.tokens[-1]:,} tokens"


def freezing_is_cheap(study: Study) -> list[Part]:
    """A frozen random table costs little loss."""
    return [_cost(study, frozen, base) for frozen, base in _frozen(study)]


def _frozen(study: Study) -> list[tuple[Curve, Curve]]:
    """Curves with a frozen table beside those of the ladder, with the same seeds and the same last step."""
    bases = {curve.width: curve for curve in study.ladder()}
    pairs = []
    for frozen in study.ladder(suite=FROZEN):
        base = bases.get(frozen.width)
        seeds = [seed for seed in frozen.seeds if base is not None and seed in base.seeds]
        if base is not None and seeds and frozen.steps[-1] in base.steps:
            pairs.append((frozen.of(seeds), base.of(seeds)))
    if not pairs:
        raise NotRun("no width of the ladder was trained with a frozen table")
    return pairs


def _loss_of_freezing(study: Study, frozen: Curve, base: Curve) -> tuple[np.ndarray, float]:
    """What freezing adds to the loss ``[1 + resamples]``, and what training takes from it."""
    step = int(frozen.steps[-1])
    first, last = study.losses(base, [int(base.steps[0]), step])
    (kept,) = study.losses(frozen, [step])
    return study.of_runs(kept - last, base.runs), float(first.mean() - last.mean())


def _cost(study: Study, frozen: Curve, base: Curve) -> Part:
    draws, fall = _loss_of_freezing(study, frozen, base)
    share = study.margins.loss_share
    words = f"held-out loss, frozen less trained table, width {base.width}"
    stated = f"{share:g} of the {fall:.2f} nats by which training lowers the loss"
    return Part(words, draws, low=-np.inf, high=share * fall, unit="nats", margin=stated)


def freezing_is_cheaper_when_wide(study: Study) -> list[Part]:
    """What freezing costs falls with width."""
    pairs = _frozen(study)
    if len(pairs) < LEAST_WIDTHS:
        widths = ", ".join(str(base.width) for _, base in pairs)
        raise NotTestable(f"tables were frozen at width {widths} alone, and a trend needs {LEAST_WIDTHS} widths")
    costs = np.stack([_loss_of_freezing(study, *pair)[0] for pair in pairs], axis=1)
    draws = slope([base.width for _, base in pairs], costs)
    return [Part("rise of the cost of freezing per doubling of width", draws, -np.inf, 0.0, "nats per doubling")]


def falls_at_equal_loss(study: Study) -> list[Part]:
    """At equal held-out loss, wider models' tables stand lower against random ones."""
    ladder = study.ladder()
    if len(ladder) < LEAST_WIDTHS:
        raise NotTestable(f"{len(ladder)} widths, and a trend needs {LEAST_WIDTHS}")
    losses = {curve.width: study.losses(curve, [int(step) for step in curve.steps]).mean(axis=1) for curve in ladder}
    level = max(float(loss.min()) for loss in losses.values())
    draws, sizes, single, above = [], [], [], []
    for curve in ladder:
        weights, place = _at_loss(losses[curve.width], level)
        draws.append(study.less_random(curve) @ weights)
        of_runs = weights @ curve.less_random()
        single += of_runs.tolist()
        sizes += [float(curve.width)] * len(of_runs)
        above.append(study.above_chance(curve, place)[:1])
    trend = Trend(tuple(sizes), np.array([single]), ranks=False)
    words = f"rise of trained less random per doubling of width, at a held-out loss of {level:.2f} nats"
    chance = tuple(score for scores in above for score in scores)
    found = slope([curve.width for curve in ladder], np.stack(draws, axis=1))
    return [Part(words, found, -np.inf, 0.0, "score per doubling", above_chance=chance, trend=trend)]


def _at_loss(losses: np.ndarray, level: float) -> tuple[np.ndarray, int]:
    """Weights of the checkpoints by which a curve is interpolated where the loss first reaches a level.

    Returns:
        Weights ``[steps]`` of sum 1, and the place of the checkpoint that is nearest.
    """
    weights = np.zeros(len(losses))
    after = int(np.argmax(losses <= level + 1e-12))
    if after == 0:
        weights[0] = 1.0
    else:
        share = (losses[after - 1] - level) / (losses[after - 1] - losses[after])
        weights[[after - 1, after]] = 1 - share, share
    return weights, int(np.argmax(weights))


def order_changes(study: Study, way: str) -> list[Part]:
    """Scored in another way, the last table of the widest model is on the other side of random ones."""
    plain, other = study.ladder()[-1], study.ladder(way)[-1]
    if plain.width != other.width:
        raise NotRun(f"the widest model was not scored with {way}")
    before, after = study.less_random(plain)[:, -1], study.less_random(other)[:, -1]
    low, high = (np.nan, np.nan) if np.isnan(before).any() else percentile_interval(before[1:])
    if not (low > 0 or high < 0):
        raise NotTestable(f"as it is, the {plain.width}-wide table is not certainly above or below random ones")
    below, above = (-np.inf, 0.0), (0.0, np.inf)
    sides = (above, below) if low > 0 else (below, above)
    return [
        Part(f"as it is, width {plain.width}", before, *sides[0], above_chance=study.above_chance(plain, -1)),
        Part(f"{WAYS[way]}, width {plain.width}", after, *sides[1], above_chance=study.above_chance(other, -1)),
    ]


@dataclass(frozen=True)
class Prediction:
    """What an explanation predicts.

    Attributes:
        explanation: a key of `EXPLANATIONS`.
        name: of the prediction.
        words: what is predicted.
        statistic: its parts, or why there are none (`NotRun`, `NotTestable`).
        figure: module of `embscale.figures` that shows it.
    """

    explanation: str
    name: str
    words: str
    statistic: Callable[[Study], list[Part]]
    figure: str


UNDERTRAINED, NEEDS_LESS, WRONG_METRIC = "undertrained", "needs it less", "wrong metric"
EXPLANATIONS = {
    UNDERTRAINED: "Trained too short: with more tokens, tables pass random ones",
    NEEDS_LESS: "Wide models need their tables less, as their layers take over",
    WRONG_METRIC: "The wrong metric: whether tables pass random ones depends on how they are scored",
}
MAX_POOLING = "max pooling"
TREATMENTS = {"unit": "rows of norm 1", "idf": "idf weights"}
WAYS = TREATMENTS | {MAX_POOLING: "the maximum in place of the mean"}
PREDICTIONS = [
    Prediction(UNDERTRAINED, "rises", rises.__doc__ or "", rises, "training"),
    Prediction(UNDERTRAINED, "crosses", crosses.__doc__ or "", crosses, "crossings"),
    Prediction(NEEDS_LESS, "cheap", freezing_is_cheap.__doc__ or "", freezing_is_cheap, "effects"),
    Prediction(
        NEEDS_LESS,
        "cheaper when wide",
        freezing_is_cheaper_when_wide.__doc__ or "",
        freezing_is_cheaper_when_wide,
        "effects",
    ),
    Prediction(NEEDS_LESS, "equal loss", falls_at_equal_loss.__doc__ or "", falls_at_equal_loss, "training"),
    *(
        Prediction(
            WRONG_METRIC,
            way,
            f"With {words}, the widest model's last table is on the other side of random ones than as it is.",
            lambda study, way=way: order_changes(study, way),  # type: ignore[misc]
            "table_controls",
        )
        for way, words in WAYS.items()
    ),
]


def rows(study: Study, *, files: str, command: str) -> pd.DataFrame:
    """Rows of ``explanations.csv`` with `COLUMNS`: each prediction with its verdict and the numbers behind it.

    Args:
        study: what is asked.
        files: the rows that it was computed from.
        command: that recomputes it.
    """
    lines: list[dict[str, Any]] = []
    ladder = study.ladder()
    for prediction in PREDICTIONS:
        line: dict[str, Any] = dict.fromkeys(COLUMNS) | {"p": np.nan, "p_holm": np.nan, "verdict": UNRESOLVED}
        line |= {"explanation": prediction.explanation, "prediction": prediction.name, "words": prediction.words}
        line |= {"figure": prediction.figure, "rows": files, "command": command}
        try:
            finding = verdicts.decide(prediction.statistic(study))
        except (NotRun, NotTestable) as reason:
            lines.append(line | {"detail": f"{reason}."})
            continue
        part, found = finding.part, finding.estimate
        line |= {"verdict": finding.word, "statistic": part.words, "unit": part.unit, "expected": part.expected}
        line |= {"margin": part.margin, "effect": found.value, "ci_low": found.low, "ci_high": found.high, "p": found.p}
        line |= {"runs": min(len(curve.seeds) for curve in ladder), "models": " ".join(c.model for c in ladder)}
        if part.unit.startswith("score"):
            line |= {"n": study.resampled.queries, "clusters": study.resampled.clusters, "against": "random"}
        else:
            line |= {"against": LADDER}
        lines.append(line | {"detail": finding.detail})
    table = pd.DataFrame(lines, columns=COLUMNS).astype({"p": float, "p_holm": float})
    tested = table["p"].notna()
    if tested.any():
        table.loc[tested, "p_holm"] = holm(table.loc[tested, "p"].to_list())
    table.loc[table["p_holm"] >= ALPHA, "verdict"] = UNRESOLVED
    # Without an interval there is no telling.
    table.loc[~table["verdict"].isin([HOLDS, FAILS]), "verdict"] = UNRESOLVED
    return table


STANDS, FALLS = "stands", "does not stand"


def standing(table: pd.DataFrame) -> dict[str, str]:
    """Whether each explanation stands: if none of its predictions fails and more than half hold.

    *Wrong metric* predicts that some other way of scoring turns the order round: one is enough, and it does not stand
    if all that could be tested fail.
    """
    found = {}
    for name, group in table.groupby("explanation", sort=False):
        holds, fails = (int((group["verdict"] == word).sum()) for word in (HOLDS, FAILS))
        if name == WRONG_METRIC:
            tested = int(group["p"].notna().sum())
            found[str(name)] = STANDS if holds else FALLS if tested and fails == tested else UNRESOLVED
        else:
            found[str(name)] = FALLS if fails else STANDS if 2 * holds > len(group) else UNRESOLVED
    return found
