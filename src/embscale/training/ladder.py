"""The ladder: decoder-only language models that differ only in width, trained as part of the study.

Everything else is equal: texts and their order, tokenizer, depth, head width, steps, learning rate, seed.  So only
width changes along the ladder, which no public suite isolates.  Variations of the ladder change one more thing at a
time: whether the tables are tied, how the input table learns, the depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM

from embscale.errors import EmbscaleError
from embscale.parameters.training import Recipe

ADAM_BETAS = (0.9, 0.95)
GRADIENT_CLIP = 1.0
HELDOUT_TOKENS = 16_384  # enough for a standard error of the loss near 0.02 nats

Rung = GPTNeoXForCausalLM | GPT2LMHeadModel
Positions = Literal["rotary", "learned"]


@dataclass(frozen=True)
class Schedule:
    """How a model of the ladder is trained.

    Attributes:
        steps: optimiser steps.
        batch: sequences in a step.
        context: tokens of a sequence.
        learning_rate: the highest, reached after `warmup` steps.
        final_learning_rate: at the last step, as a share of the highest, by a cosine; 1 keeps the rate constant, which
            makes a shorter training the beginning of a longer one.
        warmup: steps of linear increase.
        seed: of the initial weights and of the order of the texts.
        embedding_rate: learning rate of the input table, as a multiple of that of the other weights.
        weight_decay: decoupled (AdamW), of all matrices but the input table; norms and biases have none.
        table_decay: the same of the input table, which is also the output table where they are tied.
    """

    steps: int
    batch: int
    context: int
    learning_rate: float
    final_learning_rate: float
    warmup: int
    seed: int
    embedding_rate: float = 1.0
    weight_decay: float = 0.0
    table_decay: float = 0.0

    @classmethod
    def of(cls, recipe: Recipe, *, steps: int, seed: int) -> Schedule:
        """The schedule of a recipe."""
        shared = {name: value for name, value in vars(recipe).items() if name in cls.__dataclass_fields__}
        return cls(**shared, steps=steps, seed=seed)

    @property
    def tokens(self) -> int:
        """Tokens seen in training."""
        return self.steps * self.batch * self.context

    def rate(self, step: int) -> float:
        """Learning rate of the step that follows `step` finished ones."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        cosine = (1 + math.cos(math.pi * progress)) / 2
        return self.learning_rate * (self.final_learning_rate + (1 - self.final_learning_rate) * cosine)


def shape(recipe: Recipe) -> dict[str, Any]:
    """The part of a recipe that `build` takes."""
    return {name: getattr(recipe, name) for name in ("blocks", "head_width", "context", "tied")}


def build(
    *,
    width: int,
    blocks: int,
    head_width: int,
    vocab_size: int,
    context: int,
    seed: int,
    positions: Positions,
    tied: bool = False,
) -> Rung:
    """An untrained model.

    Weights start with the standard deviation ``sqrt(2 / (5 width))`` of the smaller Pythia models
    ("small init"), which gives the rows of the table the same norm at every width.

    Args:
        width: columns of the table.
        blocks: how many.
        head_width: columns of an attention head.
        vocab_size: rows of the table.
        context: tokens of a sequence.
        seed: of the weights.
        positions: rotary uses GPT-NeoX blocks, like the ladder.  transformers has none with learned positions, so
            learned uses GPT-2 blocks, which differ in more ways: attention and feed-forward are sequential instead of
            parallel, and their output projections are initialised smaller by ``sqrt(2 blocks)``.
        tied: whether the output table is the input table.

    Raises:
        EmbscaleError: the width is no multiple of the head's.
    """
    if width > head_width and width % head_width:
        raise EmbscaleError(f"width {width} is no multiple of the head width, {head_width}")
    torch.manual_seed(seed)
    heads, spread = max(1, width // head_width), math.sqrt(2 / (5 * width))
    if positions == "learned":
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=vocab_size,
                n_embd=width,
                n_layer=blocks,
                n_head=heads,
                n_inner=4 * width,
                n_positions=context,
                activation_function="gelu",  # and no dropout: as GPT-NeoX has it
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                initializer_range=spread,
                tie_word_embeddings=tied,
                bos_token_id=0,
                eos_token_id=0,
                use_cache=False,
            )
        )
    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=vocab_size,
            hidden_size=width,
            num_hidden_layers=blocks,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=context,
            initializer_range=spread,
            tie_word_embeddings=tied,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        )
    )


def input_table(model: Rung) -> torch.Tensor:
    """The input table of a model, ``[vocab_size, width]``."""
    embedding = model.get_input_embeddings()
    assert isinstance(embedding, torch.nn.Embedding)
    return embedding.weight


def start_from(model: Rung, table: np.ndarray) -> None:
    """Replace the initial table by a trained one, in place.

    The table is scaled so that its rows have the root mean square norm of the rows that they replace; angles and ratios
    of norms do not change.  Where it has a zero row, for a token not in its training texts, the random row is kept.

    Args:
        model: from `build`.
        table: ``[vocab_size, width]``.

    Raises:
        EmbscaleError: the table has another shape, or all its rows are zeros.
    """
    rows = input_table(model)
    if table.shape != tuple(rows.shape):
        raise EmbscaleError(
            f"the initial table has {table.shape[0]} rows and {table.shape[1]} columns, but the model {rows.shape[0]} "
            f"and {rows.shape[1]}; make one with the model's tokenizer and width"
        )
    initial = torch.from_numpy(table)
    known = initial.any(dim=1)
    if not known.any():
        raise EmbscaleError("the initial table holds zeros alone")
    with torch.no_grad():
        rows[known] = initial[known] * (rows[known].norm() / initial[known].norm())


def batches(tokens: np.ndarray, schedule: Schedule, done: int = 0) -> Iterator[torch.Tensor]:
    """Consecutive batches ``[batch, context]`` of the stream after `done` ones, from its start again when it ends."""
    size = schedule.batch * schedule.context
    if len(tokens) < size:
        raise EmbscaleError(f"the training texts hold {len(tokens)} tokens, fewer than one batch of {size}")
    per_pass = len(tokens) // size
    for step in range(done, schedule.steps):
        start = step % per_pass * size
        yield torch.from_numpy(tokens[start : start + size]).view(schedule.batch, schedule.context)


def optimiser(model: Rung, schedule: Schedule) -> torch.optim.AdamW:
    """AdamW with the learning rate and decay that the schedule gives each group of weights.

    A group's ``factor`` is its learning rate as a multiple of `Schedule.rate`.  Weights that do not learn are left out.
    """
    table = input_table(model)
    learnt = [weight for weight in model.parameters() if weight.requires_grad]
    matrices = [weight for weight in learnt if weight is not table and weight.ndim > 1]
    others = [weight for weight in learnt if weight.ndim == 1]
    groups = [
        {
            "params": [table] * table.requires_grad,
            "factor": schedule.embedding_rate,
            "weight_decay": schedule.table_decay,
        },
        {"params": matrices, "factor": 1.0, "weight_decay": schedule.weight_decay},
        {"params": others, "factor": 1.0, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=ADAM_BETAS, fused=True)


def train(
    model: Rung,
    tokens: np.ndarray,
    schedule: Schedule,
    *,
    reached: Callable[[int, float], None],
    optimizer: torch.optim.AdamW | None = None,
    done: int = 0,
) -> None:
    """Train in place with AdamW, from the beginning or from the state of an earlier training.

    Args:
        model: from `build`, on the device where it is to be trained.
        tokens: of `streams`.
        schedule: steps, batches and learning rates.
        reached: called with the number of finished steps and the last batch's loss in nats per token
            (NaN before the first), at 0 and after every step.
        optimizer: from `optimiser`, with its state after `done` steps; a new one by default.
        done: steps that the model has behind it.
    """
    optimizer = optimizer or optimiser(model, schedule)
    model.train()
    if not done:
        reached(0, math.nan)
    for step, batch in enumerate(batches(tokens, schedule, done), done):
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step) * group["factor"]
        batch = batch.to(model.device)
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_CLIP)
        optimizer.step()
        reached(step + 1, loss.item())


@torch.inference_mode()
def heldout_loss(model: Rung, tokens: np.ndarray, *, context: int, batch: int) -> float:
    """Mean loss in nats per token over consecutive sequences of held-out texts."""
    usable = len(tokens) // (context * batch) * context * batch
    if usable == 0:
        raise EmbscaleError(f"the held-out texts hold {len(tokens)} tokens, fewer than one batch of {context * batch}")
    was_training = model.training
    model.eval()
    parts = torch.from_numpy(tokens[:usable]).view(-1, batch, context).to(model.device)
    loss = float(np.mean([model(input_ids=part, labels=part).loss.item() for part in parts]))
    model.train(was_training)
    return loss
