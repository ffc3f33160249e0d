"""An embedding layer: a lookup in a table, which is a product with one-hot vectors, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def one_hot(ids: np.ndarray, rows: int) -> np.ndarray:
    """One-hot vectors of ids, float64 ``[*ids.shape, rows]``."""
    _check(ids, rows)
    vectors = np.zeros((ids.size, rows))
    vectors[np.arange(ids.size), ids.ravel()] = 1
    return vectors.reshape(*ids.shape, rows)


def lookup(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Row ``ids[i]`` of the table for each i.

    The same as ``one_hot(ids, len(table)) @ table``, at the cost of copying the rows.

    Args:
        table: ``[rows, dims]``.
        ids: integers from 0, of any shape; usually ``[texts, tokens]``.

    Returns:
        ``[*ids.shape, dims]``.

    Raises:
        EmbscaleError: an id has no row.
    """
    _check(ids, len(table))
    return table[ids]


def lookup_gradient(upstream: np.ndarray, ids: np.ndarray, rows: int) -> np.ndarray:
    """Gradient of a loss with respect to the table, from that with respect to the vectors that were looked up.

    A scatter-add: each row receives the sum over the positions at which it was used; unused rows receive nothing.  The
    same as ``one_hot(ids, rows).T @ upstream``, which is what the chain rule makes of the product.

    Args:
        upstream: ``[*ids.shape, dims]``.
        ids: those that were looked up.
        rows: of the table.

    Returns:
        ``[rows, dims]``.

    Raises:
        EmbscaleError: an id has no row.
    """
    _check(ids, rows)
    gradient = np.zeros((rows, upstream.shape[-1]))
    np.add.at(gradient, ids.ravel(), upstream.reshape(ids.size, -1))
    return gradient


def _check(ids: np.ndarray, rows: int) -> None:
    # A negative index would count from the end.
    if ids.size and not (ids.min() >= 0 and ids.max() < rows):
        raise EmbscaleError(f"ids from {ids.min()} to {ids.max()}: the table has the rows 0 to {rows - 1}")


def encode(tokenizer: Tokenizer, text: str) -> tuple[np.ndarray, list[str]]:
    """Ids of a text's tokens, and each token as it reads in the text.

    Raises:
        EmbscaleError: the text has no token.
    """
    encoding = tokenizer.encode(text, add_special_tokens=False)
    if not encoding.ids:
        raise EmbscaleError(f"text {text!r}: has no token")
    return np.array(encoding.ids), [text[start:end] for start, end in encoding.offsets]


def lookup_rows(tokenizer: Tokenizer, table: np.ndarray, text: str, *, columns: int, neighbours: int) -> pd.DataFrame:
    """A text on its way to vectors: the corner of the one-hot matrix and of the table that it touches, and the result.

    Args:
        tokenizer: its ids are rows of the table.
        table: ``[rows, dims]``.
        text: a few words.
        columns: of the table that are shown.
        neighbours: rows shown on each side of those that the text uses.

    Returns:
        A row for each number: ``matrix`` (one_hot, table or vectors), ``place`` of the token in the text (-1 for the
        table's rows), ``token`` (empty for rows of no token of the text), ``id`` of the table's row, ``column``,
        ``value``, and the ``text`` and the shape of the whole table, ``rows`` and ``dims``.

    Raises:
        EmbscaleError: the text has no token, or one without a row.
    """
    ids, words = encode(tokenizer, text)
    _check(ids, len(table))
    near = (ids[:, None] + np.arange(-neighbours, neighbours + 1)).clip(0, len(table) - 1)
    shown = np.unique(near)
    frames = []
    # Only the one-hot columns of the rows shown; all others are zeros.
    hot = one_hot(np.searchsorted(shown, ids), len(shown))
    names = dict(zip(ids.tolist(), words, strict=True))
    for place, (token, word) in enumerate(zip(ids, words, strict=True)):
        frames.append(_frame("one_hot", place, word, shown, -1, hot[place]))
        vector = lookup(table, token)[:columns]
        frames.append(_frame("vectors", place, word, token, np.arange(len(vector)), vector))
    for row in shown.tolist():
        values = table[row, :columns]
        frames.append(_frame("table", -1, names.get(row, ""), row, np.arange(len(values)), values))
    rows, dims = table.shape
    return pd.concat(frames, ignore_index=True).assign(text=text, rows=rows, dims=dims)


def _frame(
    matrix: str, place: int, token: str, row: np.ndarray | int, column: np.ndarray | int, value: np.ndarray
) -> pd.DataFrame:
    return pd.DataFrame({"matrix": matrix, "place": place, "token": token, "id": row, "column": column, "value": value})
