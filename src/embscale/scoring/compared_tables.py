"""Tables of one suite compared: with each other, by the dimensions that they fill, and for tokens without training.

Rows of tables with the same tokenizer belong to the same tokens, so two tables can be compared row by row, whatever
their widths.  Compared are rows of tokens that training has seen: the others keep their start, which says nothing of
what is learned.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from embscale.parameters.scores import Comparison
from embscale.scoring import undertrained
from embscale.statistics import intrinsic_dimension, similarity
from embscale.tables.table_files import INPUT, OUTPUT

RANDOM = "random"

# What differs between the two tables of a pair.
SEEDS, WIDTHS, STEPS, ENDS = "seeds", "widths", "steps", "input and output"

SIMILARITY = [
    "relation", "table", "model", "run", "step", "width", "other_model", "other_run", "other_step", "other_width",
    "other_table", "measure", "value", "null", "threshold", "calibrated", "p", "n",
]  # fmt: skip
DIMENSION = ["model", "run", "step", "width", "table", "value", "ci_low", "ci_high", "n"]
UNDERTRAINED = [
    "model", "run", "step", "width", "tied", "indicator", "chosen", "metric", "value", "chance", "unseen", "n",
]  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """The tables of one checkpoint.

    Attributes:
        model: the model's name, one for each width of the suite.
        run: the seed of the training run.
        step: of training.
        table: input rows, ``[tokens, width]``.
        output: output rows, ``[tokens, width]``; None if the model is tied.
    """

    model: str
    run: int
    step: int
    table: np.ndarray
    output: np.ndarray | None

    @property
    def keys(self) -> dict[str, Any]:
        """What identifies it in rows."""
        return {"model": self.model, "run": self.run, "step": self.step, "width": self.table.shape[1]}


class Side:
    """One table of a checkpoint, cut to the rows that are compared."""

    def __init__(self, checkpoint: Checkpoint, table: str, rows: np.ndarray, *, neighbours: int) -> None:
        values = checkpoint.table if table == INPUT else checkpoint.output
        assert values is not None
        self.keys = checkpoint.keys | {"table": table}
        self.vectors = similarity.Vectors(values[rows], neighbours=neighbours)


def chosen_rows(seen: np.ndarray, *, rows: int, seed: int) -> np.ndarray:
    """Tokens whose rows are compared, ascending: a random sample of those seen in training, or all if there are fewer.

    Args:
        seen: whether the training texts hold each token, ``[tokens]``.
        rows: how many to draw.
        seed: of the draw.
    """
    ids = np.flatnonzero(seen)
    return np.sort(np.random.default_rng(seed).choice(ids, min(rows, len(ids)), replace=False))


def similarities(checkpoints: list[Checkpoint], rows: np.ndarray, settings: Comparison) -> pd.DataFrame:
    """How alike the tables are, beside what chance gives.

    - ``seeds``: input tables of two runs of a model after the same step; output tables, too, after the last one.
    - ``widths``: last input tables of two models, every run with every other.
    - ``steps``: a run's input table after each step with its last one.
    - ``input and output``: the two tables of a run after the same step, unless they are one.

    Args:
        checkpoints: of one suite.
        rows: tokens whose rows are compared.
        settings: of the comparison.

    Returns:
        Columns `SIMILARITY`.
    """
    return pd.DataFrame(
        [
            {"relation": relation}
            | one.keys
            | {f"other_{key}": value for key, value in other.keys.items()}
            | {"measure": measure, "value": found.value, "null": found.null, "threshold": found.threshold}
            | {"calibrated": found.calibrated, "p": found.p, "n": len(rows)}
            for relation, one, other in _pairs(checkpoints, rows, settings.neighbours)
            for measure, found in similarity.compare(
                one.vectors, other.vectors, permutations=settings.permutations, seed=settings.seed
            ).items()
        ],
        columns=SIMILARITY,
    )


def _pairs(checkpoints: list[Checkpoint], rows: np.ndarray, neighbours: int) -> Iterator[tuple[str, Side, Side]]:
    last_steps: dict[str, int] = {}
    for checkpoint in checkpoints:
        last_steps[checkpoint.model] = max(checkpoint.step, last_steps.get(checkpoint.model, 0))

    def side(checkpoint: Checkpoint, table: str = INPUT) -> Side:
        return Side(checkpoint, table, rows, neighbours=neighbours)

    last: dict[tuple[str, int], Side] = {}
    for (model, step), group in itertools.groupby(_in_order(checkpoints), key=lambda c: (c.model, -c.step)):
        at_step = list(group)
        inputs = [side(checkpoint) for checkpoint in at_step]
        outputs = [side(checkpoint, OUTPUT) for checkpoint in at_step if checkpoint.output is not None]
        yield from ((SEEDS, *pair) for pair in itertools.combinations(inputs, 2))
        if -step == last_steps[model]:
            yield from ((SEEDS, *pair) for pair in itertools.combinations(outputs, 2))
            last |= {(model, checkpoint.run): one for checkpoint, one in zip(at_step, inputs, strict=True)}
        else:
            for checkpoint, one in zip(at_step, inputs, strict=True):
                if (model, checkpoint.run) in last:
                    yield STEPS, one, last[model, checkpoint.run]
        by_run = {one.keys["run"]: one for one in inputs}
        yield from ((ENDS, by_run[one.keys["run"]], one) for one in outputs)
    for ((model, _), one), ((other_model, _), other) in itertools.combinations(last.items(), 2):
        if model != other_model:
            yield WIDTHS, one, other


def _in_order(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """The narrowest model first, its last step first: so that few tables are at hand at a time."""
    return sorted(checkpoints, key=lambda c: (c.table.shape[1], c.model, -c.step, c.run))


def dimensions(checkpoints: list[Checkpoint], rows: np.ndarray, settings: Comparison) -> pd.DataFrame:
    """The intrinsic dimension of each input table, of the last output tables, and of random tables of each width.

    Args:
        checkpoints: of one suite.
        rows: tokens whose rows are measured.
        settings: of the comparison.

    Returns:
        Columns `DIMENSION`; a random table's ``run`` is its draw.
    """
    found = []

    def add(keys: dict[str, Any], values: np.ndarray) -> None:
        value, low, high, n = intrinsic_dimension.estimate(values, groups=settings.groups, seed=settings.seed)
        found.append(keys | {"value": value, "ci_low": low, "ci_high": high, "n": n})

    last = max(checkpoint.step for checkpoint in checkpoints)
    for checkpoint in checkpoints:
        add(checkpoint.keys | {"table": INPUT}, checkpoint.table[rows])
        if checkpoint.output is not None and checkpoint.step == last:
            add(checkpoint.keys | {"table": OUTPUT}, checkpoint.output[rows])
    for width, draw in itertools.product(dict.fromkeys(c.table.shape[1] for c in checkpoints), range(settings.draws)):
        values = np.random.default_rng([settings.seed, width, draw]).normal(size=(len(rows), width))
        add({"model": f"{RANDOM}-w{width}", "run": draw + 1, "step": np.nan, "width": width, "table": RANDOM}, values)
    return pd.DataFrame(found, columns=DIMENSION)


def undertrained_tokens(checkpoints: list[Checkpoint], seen: np.ndarray, known: np.ndarray) -> pd.DataFrame:
    """How well each indicator finds the tokens that the training texts do not hold.

    Args:
        checkpoints: of one suite.
        seen: whether the training texts hold each token, ``[tokens]``.
        known: tokens that the indicators may know never to occur; they are not among those to be found.  If one of
            them does occur, it is no byte but a character, and none is known.

    Returns:
        Columns `UNDERTRAINED`, ``chosen`` telling the indicator that its authors choose for such a model; no rows if
        no token is known or none remains to be found.
    """
    known = known if not seen[known].any() else known[:0]
    asked = np.setdiff1d(np.arange(len(seen)), known)
    unseen = ~seen[asked]
    rows = []
    for checkpoint in checkpoints if len(known) and unseen.any() and not unseen.all() else []:
        tied = checkpoint.output is None
        output = checkpoint.table if checkpoint.output is None else checkpoint.output
        chosen = undertrained.OF_TIED if tied else undertrained.OF_UNTIED
        for name, values in undertrained.indicators(checkpoint.table, output, known).items():
            for metric, (value, chance) in undertrained.marks(values[asked], unseen).items():
                rows.append(
                    checkpoint.keys
                    | {"tied": "yes" if tied else "no", "indicator": name, "chosen": name == chosen, "metric": metric}
                    | {"value": value, "chance": chance, "unseen": int(unseen.sum()), "n": len(asked)}
                )
    return pd.DataFrame(rows, columns=UNDERTRAINED)
