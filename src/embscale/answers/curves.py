"""Scores along training: each width of the ladder and of its variations, beside random tables of the same width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows import treatments
from embscale.rows.selection import LADDER
from embscale.rows.treatments import FULL, INPUT, RANDOM, REFERENCE
from embscale.scoring.estimates import CHANCE, UNTRAINED
from embscale.scoring.scores import NONE, TaskScores
from embscale.statistics.resampling import percentile_interval
from embscale.statistics.two_way import Resamples

COLUMNS = [
    "suite", "model", "width", "step", "tokens", "treatment", "against", "task", "length", "metric", "value", "ci_low",
    "ci_high", "runs", "n", "clusters", "score", "control_score", "control_runs",
]  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """Scores of the tables of one model along its training.

    Attributes:
        suite: ``ladder``, or ``ladder-NAME`` of a variation.
        model: its name.
        width: columns of its table.
        treatment: of the tables, ``full`` as they are.
        steps: at which tables were scored, ascending, ``[steps]``.
        tokens: seen by then, ``[steps]``.
        seeds: of the training runs.
        scores: ``[steps, runs, queries]``.
        random: of random tables of this width that were treated alike, ``[draws, queries]``.
        chance: of a ranking in random order, ``[queries]``; empty if it was not scored.
    """

    suite: str
    model: str
    width: int
    treatment: str
    steps: np.ndarray
    tokens: np.ndarray
    seeds: tuple[int, ...]
    scores: np.ndarray
    random: np.ndarray
    chance: np.ndarray

    @property
    def runs(self) -> str:
        """Names the set of training runs as `embscale.scoring.estimates` does, so that intervals are the same."""
        return f"{self.suite} {self.model}"

    @property
    def random_runs(self) -> str:
        """The same of the random tables."""
        return f"{RANDOM} {RANDOM} {self.width}"

    def of(self, seeds: Sequence[int]) -> Curve:
        """The curve of some of the runs, in the order given."""
        places = [self.seeds.index(seed) for seed in seeds]
        values = vars(self) | {"seeds": tuple(seeds), "scores": self.scores[:, places]}
        return Curve(**values)

    def place(self, step: int) -> int:
        """Where a step is among the steps."""
        return int(np.searchsorted(self.steps, step))

    def less_random(self) -> np.ndarray:
        """The mean over queries of each run less that of the random tables, ``[steps, runs]``."""
        return np.asarray(self.scores.mean(axis=2) - self.random.mean())


class Compared(NamedTuple):
    """A curve less a control.

    Attributes:
        curve: of a model.
        against: ``random`` or ``untrained``, the table of the same run before training.
        draws: ``[1 + resamples, steps]``, as measured and from each resample, which has one curve.
        of_runs: as measured, ``[steps, runs]``.
        control: score of the control, and over how many draws or runs.
    """

    curve: Curve
    against: str
    draws: np.ndarray
    of_runs: np.ndarray
    control: tuple[float, int]


def compared(curve: Curve, resampled: Resamples) -> list[Compared]:
    """A curve less random tables, and less the table of each run before training if that was scored."""
    less_random = curve.less_random()
    control = float(curve.random.mean()), len(curve.random)
    found = [Compared(curve, RANDOM, differences(curve, resampled), less_random, control)]
    if curve.steps[0] == 0 and len(curve.steps) > 1:
        start = curve.scores[0]
        draws = np.stack([effect(scores, start, resampled, curve.runs) for scores in curve.scores], axis=1)
        of_start = float(start.mean()), len(start)
        found.append(Compared(curve, UNTRAINED, draws, less_random - less_random[0], of_start))
    return found


def curves(scored: TaskScores, tokens: Mapping[str, Mapping[int, int]], *, treatment: str = FULL) -> list[Curve]:
    """The curve of each width of the ladder and its variations, by suite and width, the ladder's first.

    Args:
        scored: of one task, tokenizer, pooling, length and metric.
        tokens: of each model, how many it has seen at each step.
        treatment: of the trained and of the random tables.

    Raises:
        EmbscaleError: a width has no random tables to compare with.
    """
    keys = treatments.treatments(scored.keys)
    alike = keys["treatment"] == treatment
    trained = keys[(keys["table"] == INPUT) & alike & keys["model"].isin(list(tokens)) & (keys["step"] != NONE)]
    # Variants with draws of their own (random columns) have several scores of one run; none of them is asked for.
    random = keys[(keys["table"] == RANDOM) & alike & (keys["suite"] == RANDOM)]
    chance = keys.index[(keys["table"] == REFERENCE) & (keys["model"] == CHANCE)]
    found = []
    for (suite, model, width), group in trained.groupby(["suite", "model", "width"], sort=False):
        places = group.reset_index().pivot_table(index="step", columns="run", values="index", aggfunc="first")
        # A run that ended early is compared up to where all have been.
        places = places.dropna().astype(int).sort_index().sort_index(axis=1)
        controls = random.index[random["width"] == width]
        if not len(controls):
            raise EmbscaleError(
                f"{model}: no random tables of width {width} to compare with; add it to scores.random.dims"
            )
        steps = places.index.to_numpy(np.int64)
        found.append(
            Curve(
                suite=str(suite),
                model=str(model),
                width=int(width),
                treatment=treatment,
                steps=steps,
                tokens=np.array([tokens[str(model)][int(step)] for step in steps], np.int64),
                seeds=tuple(int(run) for run in places.columns),
                scores=np.stack([scored.scores[:, row].T for row in places.to_numpy()]),
                random=scored.scores[:, controls].T,
                chance=scored.scores[:, chance[0]] if len(chance) else np.empty(0),
            )
        )
    return sorted(found, key=lambda curve: (curve.suite != LADDER, curve.suite, curve.width))


def differences(curve: Curve, resampled: Resamples) -> np.ndarray:
    """Trained less random tables: ``[1 + resamples, steps]``, as measured and from each resample.

    The same resamples at all steps, so that a row is a curve; each step has the interval of ``differences.csv``.
    """
    means = _means(curve, resampled)
    name = f"{curve.runs} {curve.random_runs}"
    of_runs = [resampled.of_two(scores, curve.random, name) for scores in curve.scores]
    return _with_first(curve.less_random().mean(axis=1), means + np.stack(of_runs, axis=1))


def paired(curve: Curve, resampled: Resamples, runs: str) -> np.ndarray:
    """As `differences`, but curves of other models with the same seeds, under the same name, vary together.

    Args:
        curve: of the model.
        resampled: of the queries.
        runs: a name of the seeds.
    """
    of_random = resampled.of_runs(curve.random, curve.random_runs)
    of_runs = np.stack([resampled.of_runs(scores, runs) for scores in curve.scores], axis=1)
    return _with_first(curve.less_random().mean(axis=1), _means(curve, resampled) + of_runs - of_random[:, None])


def effect(scores: np.ndarray, base: np.ndarray, resampled: Resamples, runs: str) -> np.ndarray:
    """A score less another of the same seeds, ``[1 + resamples]``.

    Args:
        scores: ``[runs, queries]``.
        base: the same, of the other.
        resampled: of the queries.
        runs: a name of the seeds.
    """
    apart = scores - base
    return np.concatenate([[apart.mean()], resampled.draws(apart, runs)])


def of_runs(values: np.ndarray, resampled: Resamples, runs: str) -> np.ndarray:
    """The mean of numbers that each run has one of (a loss), ``[..., runs]`` to ``[1 + resamples, ...]``.

    Runs vary by Student's t, and sets of numbers of the same runs vary together.  Of one run nothing varies.
    """
    flat = values.reshape(-1, values.shape[-1])
    # Every query of a run has its number: nothing varies with queries.
    whole = np.broadcast_to(flat[:, :, None], (*flat.shape, resampled.queries))
    drawn = np.stack([row.mean() + resampled.of_runs(row, runs) for row in whole], axis=1)
    found = _with_first(flat.mean(axis=1), drawn)
    return found.reshape(len(found), *values.shape[:-1])


def _means(curve: Curve, resampled: Resamples) -> np.ndarray:
    """Trained less random tables over resampled queries, ``[resamples, steps]``."""
    return resampled.means((curve.scores.mean(axis=1) - curve.random.mean(axis=0)).T)


def _with_first(measured: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return np.concatenate([measured[None], drawn])


def rows(found: Sequence[Compared], protocol: Mapping[str, str], resampled: Resamples) -> pd.DataFrame:
    """Rows of ``curves.csv`` with `COLUMNS`: trained tables less their controls by suite, width and tokens.

    Args:
        found: from `compared`.
        protocol: task, length and metric.
        resampled: of the queries.
    """
    lines: list[dict[str, Any]] = []
    for curve, against, draws, _, control in found:
        low, high = interval(draws, resampled)
        for place, step in enumerate(curve.steps):
            if against == UNTRAINED and not place:
                continue  # which it is
            score = float(curve.scores[place].mean())
            lines.append(
                {"suite": curve.suite, "model": curve.model, "width": curve.width, "step": int(step)}
                | {"tokens": int(curve.tokens[place]), "treatment": curve.treatment, "against": against}
                | dict(protocol)
                | {"value": float(draws[0, place]), "ci_low": low[place], "ci_high": high[place]}
                | {"runs": len(curve.seeds), "n": resampled.queries, "clusters": resampled.clusters}
                | {"score": score, "control_score": control[0], "control_runs": control[1]}
            )
    return pd.DataFrame(lines, columns=COLUMNS)


def interval(draws: np.ndarray, resampled: Resamples) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of each column of draws; NaN where queries are all one cluster."""
    if resampled.clusters < 2:
        return np.full(draws.shape[1], np.nan), np.full(draws.shape[1], np.nan)
    return percentile_interval(draws[1:])
