"""How a linear layer and an embedding table learn: derivatives by hand, and by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import log_softmax

from embscale.errors import EmbscaleError
from embscale.primer.lookup import encode, lookup, lookup_gradient, one_hot

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def linear_derivatives(weights: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of ``y = W x + b``: "dy/dW = x" and "dy/dx = W" with their indices.

    Args:
        weights: W, ``[outputs, inputs]``.
        x: ``[inputs]``.

    Returns:
        ``dy_i / dW_jk``, which is ``x_k`` where i is j and else 0, ``[outputs, outputs, inputs]``; and
        ``dy_i / dx_k``, which is ``W_ik``, ``[outputs, inputs]``.
    """
    return np.eye(len(weights))[:, :, None] * x, weights


def finite_differences(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, *, step: float) -> np.ndarray:
    """Derivatives of any function by central differences, with an error of the order of ``step ** 2``.

    Args:
        function: from an array of the shape of `at` to an array.
        at: where.
        step: in each direction.

    Returns:
        Derivative of each output with respect to each input, ``[*output shape, *at.shape]``.
    """
    steps = step * np.eye(at.size).reshape(at.size, *at.shape)
    slopes = [(function(at + change) - function(at - change)) / (2 * step) for change in steps]
    return np.stack(slopes, axis=-1).reshape(*np.shape(slopes[0]), *at.shape)


def next_token_gradients(
    inputs: np.ndarray, outputs: np.ndarray, ids: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss and gradients of a minimal language model: look up a token, score every token as the next one.

    The logits at a place are ``outputs @ inputs[token]``, the loss is the mean cross-entropy of the next token.  With
    p the predicted probabilities and h the one-hot vectors of the next tokens, the gradient with respect to the logits
    is ``(p - h) / places``.

    Args:
        inputs: the input table, ``[rows, dims]``.
        outputs: the table before the softmax, ``[rows, dims]``; the same one if they are tied.
        ids: of a text's tokens, at least two.

    Returns:
        The loss in nats per token, and the gradients with respect to the two tables.  Those of a tied table add up.
    """
    before, after = ids[:-1], ids[1:]
    vectors = lookup(inputs, before)
    log_probabilities = log_softmax(vectors @ outputs.T, axis=1)
    loss = -log_probabilities[np.arange(len(after)), after].mean()
    errors = (np.exp(log_probabilities) - one_hot(after, len(outputs))) / len(after)
    return float(loss), lookup_gradient(errors @ outputs, before, len(inputs)), errors.T @ vectors


def gradient_rows(tokenizer: Tokenizer, table: np.ndarray, text: str) -> pd.DataFrame:
    """Which rows of a tied table receive gradients from a text, by way of the input and of the output.

    Returns:
        A row for each of the table's: ``id``, ``token`` as it reads in the text (empty if not in it), ``uses`` as an
        input, and the length of the row's gradient by way of the lookup, ``by_input``, and of the softmax,
        ``by_output``.

    Raises:
        EmbscaleError: the text has fewer than two tokens, or one without a row.
    """
    ids, words = encode(tokenizer, text)
    if len(ids) < 2:
        raise EmbscaleError(f"text {text!r}: has one token, so there is no next one to predict")
    table = table.astype(np.float64)
    _, by_input, by_output = next_token_gradients(table, table, ids)
    names = dict(zip(ids.tolist(), words, strict=True))
    rows = np.arange(len(table))
    return pd.DataFrame(
        {
            "id": rows,
            "token": [names.get(row, "") for row in rows.tolist()],
            "uses": np.bincount(ids[:-1], minlength=len(table)),
            "by_input": np.linalg.norm(by_input, axis=1),
            "by_output": np.linalg.norm(by_output, axis=1),
        }
    )
