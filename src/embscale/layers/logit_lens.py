"""The logit lens (nostalgebraist 2020): what a model would predict if it ended at an earlier layer.

Each layer's vectors go through the model's own final norm and output table.  Huang et al. doubt the method: the output
table is trained for the last layer only, so its predictions for other layers may be meaningless.  The lens serves as
background here: how often it predicts the same token as the model, and how far its distribution is from the model's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from embscale.checkpoints.families import ENCODERS, anatomy, family
from embscale.errors import EmbscaleError
from embscale.layers.geometry import JACKKNIFE, indices_from, measured
from embscale.layers.hidden_states import HiddenStates
from embscale.layers.names import FINAL_NORM
from embscale.layers.running import from_files, read_config
from embscale.statistics import jackknife
from embscale.statistics.vectors import chunks

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

COLUMNS = ["layer", "layer_index", "metric", "value", "ci_low", "ci_high", "n", "reference", "interval_over"]

Head = Callable[["torch.Tensor"], "torch.Tensor"]


def why_not(model_type: str) -> str:
    """The reason why a family has no logit lens; empty if it has one."""
    return f"{model_type} is an encoder: no output table predicts the next token from its blocks" * (
        model_type in ENCODERS
    )


def load_model(folder: Path) -> PreTrainedModel:
    """A checkpoint with its output head, in float32, ready to run.

    Raises:
        EmbscaleError: the family is unknown or an encoder, a file is broken, or a weight is missing.
    """
    import transformers

    config = read_config(folder)
    family(config.model_type)
    if reason := why_not(config.model_type):
        raise EmbscaleError(f"{folder}: {reason}")
    return from_files(folder, transformers.AutoModelForCausalLM, config, precision="float32")


def heads(model: PreTrainedModel) -> tuple[Head, Head]:
    """Logits ``[vectors, tokens]`` of a block's output, and of the final norm's.

    What follows the last block is applied as the model does: the final norm, a projection (opt-350m), the output
    table, a cap on the logits (Gemma 2).
    """
    import torch

    final_norm = anatomy(model).final_norm
    project = getattr(getattr(model.base_model, "decoder", None), "project_out", None)
    table = model.get_output_embeddings()
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)

    def after_norm(vectors: torch.Tensor) -> torch.Tensor:
        logits = table(vectors if project is None else project(vectors))
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def of_block(vectors: torch.Tensor) -> torch.Tensor:
        return after_norm(vectors if final_norm is None else final_norm(vectors))

    return of_block, after_norm


def lens(
    model: PreTrainedModel,
    states: HiddenStates,
    *,
    first_position: int,
    vectors: int,
    chunk: int,
    groups: int,
    seed: int,
) -> pd.DataFrame:
    """Compare each layer's predictions with those of the model.

    Args:
        model: from `load_model`, the one that made the states.
        states: its hidden states.
        first_position: vectors of earlier positions are left out.
        vectors: how many to use, the same at each layer.
        chunk: vectors at a time; needs ``2 x chunk x vocabulary size x 4`` bytes of memory.
        groups: of texts, for the jackknife.
        seed: of the choice of vectors and of the groups.

    Returns:
        Columns `COLUMNS`, two rows for each layer: ``agreement``, the share of vectors for which layer and model rank
        the same token first (the reference is the value for independent predictions with the same token frequencies);
        and ``kl_divergence`` in nats of the layer's distribution from the model's, the mean of KL(model || layer) (the
        reference is the value for the model's mean distribution).

    Raises:
        EmbscaleError: the states are of another model.
    """
    import torch

    of_block, after_norm = heads(model)
    layers = measured(states)
    last, vocabulary = states.classes[-1], model.get_output_embeddings().weight.shape[0]
    blocks = len(anatomy(model).blocks)
    if last != f"block {blocks}" or states.width != model.config.get_text_config().hidden_size:
        raise EmbscaleError(
            f"the states end with {last} of width {states.width}, but the checkpoint has {blocks} blocks of width "
            f"{model.config.get_text_config().hidden_size}: they are of another model"
        )
    used = indices_from(states, first_position=first_position)
    chosen = np.sort(np.random.default_rng(seed).permutation(used)[:vectors])
    group = jackknife.text_groups(states.text[chosen], groups=groups, seed=seed)
    final = np.empty(len(chosen), np.int64)
    first = np.empty((len(layers), len(chosen)), np.int64)
    divergence = np.empty((len(layers), len(chosen)))
    summed, entropy = torch.zeros(vocabulary, dtype=torch.float64), 0.0
    with torch.inference_mode():
        for part in chunks(len(chosen), chunk):
            batch = torch.from_numpy(states.take(layers, chosen[part]))
            model_says = of_block(batch[layers.index(last)]).log_softmax(-1)
            weight = model_says.exp()
            final[part] = model_says.argmax(-1).numpy()
            negative = (weight * model_says).sum(-1, dtype=torch.float64)
            summed += weight.sum(0, dtype=torch.float64)
            entropy -= float(negative.sum())
            for number, layer in enumerate(layers):
                logits = (after_norm if layer == FINAL_NORM else of_block)(batch[number])
                first[number, part] = logits.argmax(-1).numpy()
                crossed = (weight * logits.log_softmax(-1)).sum(-1, dtype=torch.float64)
                divergence[number, part] = (negative - crossed).numpy()
    mean = (summed / len(chosen)).numpy()
    constant = -float(mean[mean > 0] @ np.log(mean[mean > 0])) - entropy / len(chosen)
    named = np.bincount(final, minlength=vocabulary) / len(chosen)
    rows: list[dict[str, Any]] = []
    for number, layer in enumerate(layers):
        chance = float(np.bincount(first[number], minlength=vocabulary) / len(chosen) @ named)
        shared = {"layer": layer, "layer_index": states.layers.index(layer)}
        agreed = (first[number] == final).astype(np.float64)
        rows.append(shared | _mean("agreement", agreed, group, chance))
        rows.append(shared | _mean("kl_divergence", divergence[number], group, constant))
    return pd.DataFrame(rows, columns=COLUMNS)


def _mean(metric: str, values: np.ndarray, group: np.ndarray, reference: float) -> dict[str, Any]:
    sums = jackknife.left_out(np.bincount(group, weights=values)) / jackknife.left_out(np.bincount(group))
    low, high = jackknife.interval(sums)
    numbers = {"value": float(sums[0]), "ci_low": float(low), "ci_high": float(high), "reference": reference}
    return {"metric": metric, "n": len(values), "interval_over": JACKKNIFE} | numbers
