"""Does it help a language model to start from a trained table (Corey, "future work")?

Runs of one model differ only in the input table: random or static at the start, trained with the rest or frozen. Within
a seed everything else is equal, including the other weights and the order of texts, so runs can be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.parameters.training import Start

if TYPE_CHECKING:
    from embscale.training.ladder import Schedule

HELDOUT_LOSS = "heldout_loss"
CHANCE = "chance"

# The others are compared with the first.
STARTS: tuple[str, ...] = get_args(Start)

COLUMNS = ("start", "seed", "width", "step", "tokens", "metric", "value", "n")

# A table's mean score, and the number of queries that it is over.
Score = Callable[[np.ndarray], tuple[float, int]]


def losses_and_tables(
    start: str,
    *,
    table: np.ndarray,
    training: np.ndarray,
    unseen: np.ndarray,
    shape: Mapping[str, Any],
    schedule: Schedule,
    checkpoints: Sequence[int],
) -> tuple[dict[int, float], dict[int, np.ndarray]]:
    """Train one model from one initial table.

    Args:
        start: one of `STARTS`.
        table: the static table, ``[vocab_size, width]``; its width is the model's.
        training: stream of tokens to learn from.
        unseen: held-out stream.
        shape: of the model but for its width, as `ladder.build` takes it.
        schedule: steps, batches, learning rates and seed.
        checkpoints: steps after which to evaluate.

    Returns:
        By checkpoint, the held-out loss in nats per token, and the input table ``[vocab_size, width]``.

    Raises:
        EmbscaleError: a checkpoint is after the last step, or the table does not fit.
    """
    from embscale.training import ladder

    if max(checkpoints) > schedule.steps:
        raise EmbscaleError(f"checkpoint {max(checkpoints)}: training ends after {schedule.steps} steps")
    model = ladder.build(**shape, width=table.shape[1], seed=schedule.seed, positions="rotary")
    if start.startswith("static"):
        ladder.start_from(model, table)
    rows = ladder.input_table(model)
    rows.requires_grad_(not start.endswith("frozen"))
    losses: dict[int, float] = {}
    found: dict[int, np.ndarray] = {}

    def reached(step: int, loss: float) -> None:
        if step in checkpoints:
            losses[step] = ladder.heldout_loss(model, unseen, context=schedule.context, batch=schedule.batch)
            found[step] = rows.detach().numpy().copy()

    ladder.train(model, training, schedule, reached=reached)
    return losses, found


def run_rows(
    starts: Sequence[str],
    *,
    table: np.ndarray,
    training: np.ndarray,
    unseen: np.ndarray,
    shape: Mapping[str, Any],
    schedule: Schedule,
    checkpoints: Sequence[int],
    metric: str,
    score: Score,
    chance: float,
) -> pd.DataFrame:
    """Train one model from several initial tables with one seed; losses and scores of its tables as tidy rows.

    Args:
        starts: of `STARTS`.
        table: the static table, ``[vocab_size, width]``.
        training: stream of tokens to learn from.
        unseen: held-out stream.
        shape: of the model but for its width.
        schedule: steps, batches, learning rates and seed.
        checkpoints: steps after which the loss is measured.
        metric: name of the metric that `score` returns.
        score: of tables at the first and the last checkpoint.
        chance: the expected score of a random ranking.

    Returns:
        `COLUMNS`: the held-out loss at each checkpoint, in nats per token, ``n`` its sequences; the score at both ends,
        from 0 to 1, ``n`` its queries, and the chance level, whose start is `CHANCE`; ``tokens`` of training up to
        there.  A row is of one run: intervals are over seeds, in the figure.
    """
    made = []
    for start in starts:
        losses, found = losses_and_tables(
            start,
            table=table,
            training=training,
            unseen=unseen,
            shape=shape,
            schedule=schedule,
            checkpoints=checkpoints,
        )
        keys = {"start": start, "seed": schedule.seed, "width": table.shape[1]}
        sequences = len(unseen) // (schedule.context * schedule.batch) * schedule.batch
        made += [
            keys | {"step": step, "metric": HELDOUT_LOSS, "value": loss, "n": sequences}
            for step, loss in losses.items()
        ]
        for step in (min(checkpoints), max(checkpoints)):
            value, queries = score(found[step])
            made.append(keys | {"step": step, "metric": metric, "value": value, "n": queries})
    about = {"start": CHANCE, "seed": schedule.seed, "width": table.shape[1], "step": min(checkpoints)}
    made.append(about | {"metric": metric, "value": chance, "n": made[-1]["n"]})
    rows = pd.DataFrame(made)
    return rows.assign(tokens=rows["step"] * schedule.batch * schedule.context)[list(COLUMNS)]
