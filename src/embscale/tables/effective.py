"""The effective table: rows as block 1 receives them, after all steps between lookup and the first block.

`embscale.checkpoints.families` describes these steps, this module applies them: a projection (opt-350m), a scale
(Gemma), a token type (BERT), learned positions (GPT-2, OPT, BERT), a LayerNorm (BLOOM, BERT).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from embscale.checkpoints.families import Norm, Positions, family
from embscale.errors import EmbscaleError
from embscale.tables.table_files import BLOCK_ROWS

# Reads a small tensor of the checkpoint, given suffixes of its name in order of preference; None if there is none.
Read = Callable[[tuple[str, ...]], np.ndarray | None]
Place = Literal["none", "mean"] | int

# From rows [n, dims] to rows [n, width], in float64.
Step = Callable[[np.ndarray], np.ndarray]


def effective_table(
    table: np.ndarray, config: Mapping[str, Any], read: Read, positions: Place
) -> tuple[np.ndarray, list[str]]:
    """The input of block 1 for every token.

    With learned positions there is no single such table: the added vector depends on the position, and a vector common
    to all rows changes their cosines.  So the caller chooses.

    Args:
        table: the input table as stored, float32 ``[rows, dims]``.
        config: ``config.json`` of the checkpoint; its ``model_type`` says which family's facts hold.
        read: reads the other tensors.
        positions: of learned positions, ``none`` leaves them out, ``mean`` adds the mean of all of them,
            their common component, and a number adds the vector of that position, counted from 0.  Ignored for families
            without learned positions.

    Returns:
        The table, float32 ``[rows, width]``, and a description of each step applied, in order.  If a family applies
        nothing, the table itself.

    Raises:
        EmbscaleError: the family is unknown, a tensor is missing or has another shape, there is no such position, or
            the config names an unknown dtype.
    """
    facts = family(config["model_type"])
    width = table.shape[1]
    steps: dict[str, Step] = {}
    if facts.projection and (wide := config.get("hidden_size", width)) != width:
        matrix = _tensor(read, facts.projection, (wide, width))
        width = wide
        steps[f"projection to {width}"] = lambda rows: rows @ matrix.T
    if facts.root_scale:
        scale = _rounded(width**0.5, config.get("dtype") or config.get("torch_dtype") or "float32")
        steps[f"scale {scale:g}"] = lambda rows: rows * scale
    if facts.token_types:
        token_type = _tensor(read, facts.token_types, (None, width))[0]
        steps["token type 0"] = lambda rows: rows + token_type
    if facts.positions and positions != "none":
        position = _position(read, facts.positions, positions, width)
        steps[f"positions {positions}"] = lambda rows: rows + position
    if facts.norm:
        steps["layer norm"] = _layer_norm(read, facts.norm, config, width)
    if not steps:
        return table, []
    result = np.empty((len(table), width), dtype=np.float32)
    # One block at a time, since float64 copies of the whole table would need far more memory than the table.
    for start in range(0, len(table), BLOCK_ROWS):
        rows = table[start : start + BLOCK_ROWS].astype(np.float64)
        for step in steps.values():
            rows = step(rows)
        result[start : start + BLOCK_ROWS] = rows
    return result, list(steps)


def _tensor(read: Read, endings: tuple[str, ...], shape: tuple[int | None, ...]) -> np.ndarray:
    """A tensor as float64; None in `shape` means any size."""
    tensor = read(endings)
    if tensor is None:
        raise EmbscaleError(f"no tensor's name ends with {' or '.join(endings)}; is the checkpoint whole?")
    if tensor.ndim != len(shape) or any(
        want not in (None, have) for want, have in zip(shape, tensor.shape, strict=True)
    ):
        expected = " × ".join("any" if length is None else str(length) for length in shape)
        raise EmbscaleError(
            f"{endings[0]}: expected the shape {expected}, found {' × '.join(map(str, tensor.shape))}; are table, "
            "config.json and weights of the same checkpoint?"
        )
    return tensor.astype(np.float64)


def _rounded(value: float, dtype: str) -> float:
    """Round to the nearest value of a dtype.

    The library multiplies by the root in the dtype of the weights (Gemma as released: 50.5 for 50.596).
    A model loaded in another dtype has a slightly different scale; cosines do not depend on it.
    """
    if dtype == "bfloat16":
        # The upper half of a float32's bits; numpy has no such dtype.  No root of a width below 257² is a tie.
        bits = (int(np.float32(value).view(np.uint32)) + 0x8000) & 0xFFFF0000
        return float(np.uint32(bits).view(np.float32))
    if dtype not in ("float16", "float32"):
        raise EmbscaleError(f"config.json: the dtype is {dtype!r}; expected float32, float16 or bfloat16")
    return float(np.dtype(dtype).type(value))


def _position(read: Read, facts: Positions, place: Literal["mean"] | int, width: int) -> np.ndarray:
    """The learned vector of a position, or the mean of all, ``[width]``."""
    vectors = _tensor(read, facts.table, (None, width))[facts.offset :]
    if place == "mean":
        return vectors.mean(axis=0)
    if not 0 <= place < len(vectors):
        raise EmbscaleError(f"position {place}: the model has {len(vectors)} learned positions, the first being 0")
    return vectors[place]


def _layer_norm(read: Read, facts: Norm, config: Mapping[str, Any], width: int) -> Step:
    """LayerNorm of each row: centred, divided by its standard deviation, times weight plus bias (Ba et al. 2016)."""
    weight, bias = (_tensor(read, endings, (width,)) for endings in (facts.weight, facts.bias))
    epsilon = config.get(facts.epsilon_key, facts.epsilon)

    def apply(rows: np.ndarray) -> np.ndarray:
        centred = rows - rows.mean(axis=1, keepdims=True)
        variance = np.square(centred).mean(axis=1, keepdims=True)
        return centred / np.sqrt(variance + epsilon) * weight + bias

    return apply
