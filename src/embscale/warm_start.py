"""Whether it helps a language model to start from a table that knows something (Corey, "future work").

Runs of one rung differ in the input table alone: random or static at the start, trained with the rest or frozen.
Within a seed all else is equal, the other weights and the order of texts too, so that runs are compared in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from embscale.errors import EmbscaleError

HELDOUT_LOSS = "heldout_loss"

# The first is what the others are compared with.
STARTS = ("random", "random, frozen", "static", "static, frozen")

# What runs must share.
EQUAL = ("width", "blocks", "head_width", "context", "batch", "steps", "learning_rate", "warmup", "vocab_size")


def start_of(params: Mapping[str, Any]) -> str:
    """How a run's table starts, of the parameters in its note."""
    return ("static" if params["initial_table"] else "random") + (", frozen" if params["freeze_table"] else "")


def rows(
    runs: Mapping[str, Mapping[str, Any]], losses: Mapping[str, pd.DataFrame], scores: pd.DataFrame
) -> pd.DataFrame:
    """Held-out losses and scores of all runs as tidy rows.

    Args:
        runs: model to the parameters of its training.
        losses: model to the columns ``step`` and ``heldout_loss``, empty where it was not measured.
        scores: of `scores.summarise`; rows of variants and of other models are left out.

    Returns:
        ``start, seed, model, width, step, metric, value, ci_low, ci_high, n``: the loss in nats per token at each
        checkpoint, without an interval, and each score of a table, with the interval over queries.

    Raises:
        EmbscaleError: runs differ in more than start and seed, two are the same, or a model has no score.
    """
    frames = []
    first = next(iter(runs.values()))
    seen: dict[tuple[str, int], str] = {}
    for model, params in runs.items():
        differing = [name for name in EQUAL if params[name] != first[name]]
        if differing:
            raise EmbscaleError(
                f"{model}: differs from the other runs in {', '.join(differing)}; compare like with like"
            )
        key = start_of(params), params["seed"]
        if seen.setdefault(key, model) != model:
            raise EmbscaleError(f"{model} and {seen[key]}: the same start ({key[0]}) and seed ({key[1]})")
        measured = losses[model].dropna(subset=HELDOUT_LOSS)
        scored = scores[(scores["model"] == model) & (scores["variant"] == "full")]
        if scored.empty:
            raise EmbscaleError(f"{model}: no score of its table; give the output of embscale score --model {model}")
        loss = pd.DataFrame({"step": measured["step"], "metric": HELDOUT_LOSS, "value": measured[HELDOUT_LOSS]})
        both = pd.concat([loss, scored[["step", "metric", "value", "ci_low", "ci_high", "n"]]], ignore_index=True)
        about = {"start": key[0], "seed": key[1], "model": model, "width": params["width"]}
        frames.append(pd.DataFrame(about, index=both.index).join(both))
    return pd.concat(frames, ignore_index=True).astype({"n": "Int64"})
