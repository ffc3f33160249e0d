"""What tables score in the mean over training runs or random draws, and how far above or below their controls.

A trained table is compared with tables of the same width that went through the same treatment: random ones, the
untrained table of the same runs, and the trained table with its rows shuffled among the tokens.  Intervals are over
runs and clusters of queries at once (`embscale.statistics.two_way`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from embscale.rows import treatments
from embscale.rows.treatments import FULL, INPUT, RANDOM, REFERENCE, SHUFFLED
from embscale.scoring.scores import NONE, TaskScores
from embscale.statistics.resampling import Estimate, estimate, percentile_interval
from embscale.statistics.two_way import Resamples

CHANCE = "chance"
UNTRAINED = "untrained"
# What a trained table is compared with, the chance level last.
CONTROLS = (RANDOM, UNTRAINED, SHUFFLED, CHANCE)
# Which queries a score is over: all, or by whether their documents were trained on.
ALL, HELDOUT, SEEN = "all", "heldout", "trained on"

PROTOCOL = ["tokenizer", "pooling", "special_tokens", "task", "length", "metric"]
CELL = ["suite", "model", "step", "width", "table", "treatment", "dim", "variant_seed", *PROTOCOL]
ESTIMATE = ["value", "ci_low", "ci_high", "runs", "n", "clusters"]
COLUMNS = [*(name for name in CELL if name != "variant_seed"), "queries", *ESTIMATE]
DIFFERENCES = [*COLUMNS, "p", "against", "score", "control_score", "control_runs"]


class Cell(NamedTuple):
    """All scores of one kind of table.

    Attributes:
        keys: columns `CELL`.
        scores: ``[runs, queries]``, by ascending number of the run or seed of the draw.
        runs: names the set of runs, for `Resamples.draws`.
    """

    keys: dict[str, Any]
    scores: np.ndarray
    runs: str


def estimates(tasks: Iterable[TaskScores], *, resamples: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The mean of each kind of table over its runs, and its differences from its controls.

    Args:
        tasks: from `embscale.scoring.scores.by_task`.
        resamples: of runs and clusters of queries.
        seed: of the resamples.

    Returns:
        Scores with `COLUMNS` and differences with `DIFFERENCES`.  ``runs`` is the number of training runs, or of draws
        of random tables; with one of them the interval is over queries alone.  ``table`` is ``input``, ``output``,
        ``effective``, ``random``, ``shuffled`` or ``reference``; ``queries`` is ``all``, ``heldout`` or ``trained on``.
        A difference is ``score`` less ``control_score``; its ``p`` is two-sided.
    """
    found: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    for scored in tasks:
        cells = list(_cells(scored))
        for name, chosen in _subsets(scored.heldout):
            resampled = Resamples(scored.clusters[chosen], resamples=resamples, seed=seed)
            # Of some of the queries, tables as they are.
            some = [cell._replace(scores=cell.scores[:, chosen]) for cell in cells if name == ALL or _as_it_is(cell)]
            # Resampled queries of all cells at once.
            means = resampled.means(np.stack([cell.scores.mean(axis=0) for cell in some], axis=1))
            place = {tuple(cell.keys[key] for key in CELL): number for number, cell in enumerate(some)}
            for number, cell in enumerate(some):
                found.append(cell.keys | {"queries": name} | _estimate(resampled, means[:, number], cell))
                for against, other in _controls(cell, place):
                    difference = _difference(resampled, means[:, number] - means[:, other], cell, some[other])
                    differences.append(cell.keys | {"queries": name, "against": against} | difference)
    return _table(found, COLUMNS), _table(differences, DIFFERENCES)


def _cells(scored: TaskScores) -> Iterator[Cell]:
    """The cells of a task."""
    keys = treatments.treatments(scored.keys)
    random = keys["table"].str.startswith(RANDOM)
    # The seed of a random table tells draws apart; the seed of a trained table's variant is part of the variant.
    keys["member"] = keys["run"].where(~random, keys["seed"])
    keys["variant_seed"] = keys["seed"].where(~random, NONE)
    for values, places in keys.groupby(CELL, sort=True, dropna=False).indices.items():
        cell = dict(zip(CELL, values, strict=True))
        members = places[np.argsort(keys["member"].to_numpy()[places], kind="stable")]
        runs = f"{cell['suite']} {cell['model']}" + (f" {cell['width']}" if cell["suite"] == RANDOM else "")
        yield Cell(cell, scored.scores[:, members].T, runs)


def _subsets(heldout: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """All queries, and if some are held out, those and the others."""
    yield ALL, np.ones(len(heldout), bool)
    if heldout.any() and not heldout.all():
        yield HELDOUT, heldout
        yield SEEN, ~heldout


def _as_it_is(cell: Cell) -> bool:
    return bool(cell.keys["treatment"] == FULL or cell.keys["table"] == REFERENCE)


def _controls(cell: Cell, place: dict[tuple[Any, ...], int]) -> Iterator[tuple[str, int]]:
    """The places of the cells that a trained table is compared with, each with its name."""
    keys = cell.keys
    if keys["table"] != INPUT:
        return

    def find(**changes: Any) -> int | None:  # noqa: ANN401 (values of keys)
        return place.get(tuple((keys | changes)[key] for key in CELL))

    candidates = {
        RANDOM: find(suite=RANDOM, model=RANDOM, step=NONE, table=RANDOM, variant_seed=NONE),
        UNTRAINED: find(step=0) if keys["step"] > 0 else None,
        SHUFFLED: find(table=SHUFFLED),
        CHANCE: find(
            suite=REFERENCE,
            model=CHANCE,
            step=NONE,
            width=NONE,
            table=REFERENCE,
            treatment=CHANCE,
            dim=NONE,
            variant_seed=NONE,
        ),
    }
    yield from ((name, control) for name, control in candidates.items() if control is not None)


def _estimate(resampled: Resamples, means: np.ndarray, cell: Cell) -> dict[str, Any]:
    """The mean of a cell; `means` are those of resampled queries."""
    ends = (np.nan, np.nan)
    if resampled.clusters > 1:
        # Scores are from 0 to 1, and so is what can be said of them.
        low, high = percentile_interval(means + resampled.of_runs(cell.scores, cell.runs))
        ends = max(0.0, float(low)), min(1.0, float(high))
    value = float(cell.scores.mean())
    return {"value": value, "ci_low": ends[0], "ci_high": ends[1], "runs": len(cell.scores)} | _units(resampled)


def _difference(resampled: Resamples, means: np.ndarray, cell: Cell, control: Cell) -> dict[str, Any]:
    """A cell less its control; runs that both have are paired."""
    score, of_control = float(cell.scores.mean()), float(control.scores.mean())
    found = Estimate(score - of_control, np.nan, np.nan, np.nan)
    if resampled.clusters > 1:
        if cell.runs == control.runs and len(cell.scores) == len(control.scores):
            of_runs = resampled.of_runs(cell.scores - control.scores, cell.runs)
        else:
            of_runs = resampled.of_two(cell.scores, control.scores, f"{cell.runs} {control.runs}")
        found = estimate(found.value, means + of_runs)
    return (
        {"value": found.value, "ci_low": found.low, "ci_high": found.high, "p": found.p, "runs": len(cell.scores)}
        | {"score": score, "control_score": of_control, "control_runs": len(control.scores)}
        | _units(resampled)
    )


def _units(resampled: Resamples) -> dict[str, int]:
    return {"n": resampled.queries, "clusters": resampled.clusters}


def _table(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    """Rows without placeholders."""
    table = pd.DataFrame(rows, columns=columns)
    numbers = {name: table[name].astype("Int64") for name in ("step", "width", "dim")}
    return table.assign(**{name: column.mask(column == NONE) for name, column in numbers.items()})
