"""What the training of a language model takes, from its shape alone: no model is built, and torch is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VALUE_BYTES = 4  # float32
MOMENTS = 2  # that AdamW keeps of the gradient of each weight


def _matrices(shape: Mapping[str, Any]) -> int:
    """Weights of the matrices that each token is multiplied with: those of the blocks, and the output table.

    A block has four of attention, ``width x width`` each, and two of the feed-forward layer, ``width x 4 width``.
    """
    return 12 * shape["blocks"] * shape["width"] ** 2 + shape["vocab_size"] * shape["width"]


def operations(shape: Mapping[str, Any], tokens: int) -> float:
    """Floating-point operations of training on so many tokens, of matrix products alone.

    Six for each weight of a matrix and token, two forward and four backward, and the products of attention over the
    whole context (Kaplan et al. 2020, appendix B; Chowdhery et al. 2022, appendix B).  Reading rows of the input table
    and of learned positions takes none.

    Args:
        shape: arguments of `embscale.training.ladder.build`.
        tokens: of training.
    """
    attention = 12 * shape["blocks"] * shape["width"] * shape["context"]
    return float(tokens) * (6 * _matrices(shape) + attention)


def parameters(shape: Mapping[str, Any]) -> int:
    """Weights of a model: matrices, tables, and the biases and norms of its blocks.

    Args:
        shape: arguments of `embscale.training.ladder.build`.
    """
    width, table = shape["width"], shape["vocab_size"] * shape["width"]
    positions = shape["context"] * width if shape["positions"] == "learned" else 0
    small = 13 * shape["blocks"] * width + 2 * width  # biases, two norms in each block, and the last norm
    return _matrices(shape) + (0 if shape["tied"] else table) + positions + small


def checkpoint_bytes(shape: Mapping[str, Any]) -> int:
    """Size of the weights that a checkpoint holds."""
    return VALUE_BYTES * parameters(shape)


def state_bytes(shape: Mapping[str, Any], input_table: str) -> int:
    """Size of the state that an interrupted training goes on from: weights, and moments of those that learn."""
    frozen = shape["vocab_size"] * shape["width"] if input_table == "frozen" else 0
    return VALUE_BYTES * (parameters(shape) + MOMENTS * (parameters(shape) - frozen))
