"""Training runs as they went: losses on held-out texts by step, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embscale.errors import EmbscaleError
from embscale.rows import tidy

LOSSES, COSTS = "losses.csv", "costs.json"


@dataclass(frozen=True)
class Trained:
    """A training run.

    Attributes:
        suite: ``ladder``, or ``ladder-NAME`` of a variation.
        model: its name, without the seed.
        width: columns of its table.
        seed: of the run.
        tokens: seen at each checkpoint, by its step.
        loss: on held-out texts in nats per token, by the step.
        cost: ``tokens``, ``operations`` and ``seconds`` up to the study's last step.
    """

    suite: str
    model: str
    width: int
    seed: int
    tokens: Mapping[int, int]
    loss: Mapping[int, float]
    cost: Mapping[str, float]


def read(suite: str, width: int, seed: int, folder: Path) -> Trained:
    """Read a run from the folder that ``embscale train`` wrote.

    A run that another study has trained further cost this study its own share of tokens.

    Raises:
        EmbscaleError: a file is missing or is not what training writes.
    """
    path, costs = folder / LOSSES, folder / COSTS
    try:
        rows = tidy.load(path)[["step", "tokens", "heldout_loss"]]
        cost = json.loads(costs.read_text("utf-8"))
        whole = {name: float(cost[name]) for name in ("tokens", "operations", "seconds")}
    except FileNotFoundError as error:
        raise EmbscaleError(f"{error.filename}: no such file; make it with embscale train") from None
    except (ValueError, KeyError, TypeError) as error:
        raise EmbscaleError(f"{folder}: {LOSSES} or {COSTS} is damaged ({error}); train again") from None
    seen = float(rows["tokens"].max())
    share = seen / whole["tokens"] if whole["tokens"] else 0.0
    saved = rows.dropna(subset="heldout_loss")
    return Trained(
        suite=suite,
        model=f"{suite}-w{width}",
        width=width,
        seed=seed,
        tokens={int(step): int(count) for step, count in zip(saved["step"], saved["tokens"], strict=True)},
        loss={int(step): float(loss) for step, loss in zip(saved["step"], saved["heldout_loss"], strict=True)},
        cost={name: value * share for name, value in whole.items()},
    )


def losses(runs: Sequence[Trained], model: str, seeds: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """Held-out losses of a model, ``[steps, runs]`` by the seeds given.

    Raises:
        EmbscaleError: a run or a step is missing.
    """
    known = {run.seed: run for run in runs if run.model == model}
    try:
        return np.array([[known[seed].loss[int(step)] for seed in seeds] for step in steps])
    except KeyError as error:
        raise EmbscaleError(f"{model}: no held-out loss of the seed or step {error}; give every run of --run") from None
