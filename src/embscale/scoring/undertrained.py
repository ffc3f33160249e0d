"""Tokens that training never saw, and whether a table gives them away.

Land and Bartolo 2024 (arXiv:2405.05417, section 3.1) rank tokens by indicators that need nothing but the tables; the
lowest values are the candidates.  An output row that is never the answer is pushed in the same direction at every step,
so such rows lie close together, around the mean row of a few tokens that certainly never occur.  An input row that is
never looked up keeps its start, or decays.

Here the texts of training are at hand, so which tokens never occur in them is known, and an indicator can be marked.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score, roc_auc_score

from embscale.statistics.vectors import or_one

INPUT_NORM = "input_norm"
OUTPUT_COSINE, OUTPUT_CENTRED, OUTPUT_WITHOUT_FIRST = "output_cosine", "output_centred", "output_without_first"
OUTPUT_DISTANCE = "output_distance"

# The authors' choice: of a model with one table for input and output, and of one with two.
OF_TIED, OF_UNTIED = OUTPUT_COSINE, INPUT_NORM

# Bytes that no text in UTF-8 holds.
NEVER_IN_UTF8 = (0xC0, 0xC1, *range(0xF5, 0x100))


def never_in_texts(vocabulary: Mapping[str, int]) -> np.ndarray:
    """Ids of the tokens that stand for a single byte that no text holds, ascending.

    A byte-level vocabulary writes printable bytes, which these are, as the character of the same number.

    Args:
        vocabulary: ids by token.
    """
    return np.array(sorted(vocabulary[chr(byte)] for byte in NEVER_IN_UTF8 if chr(byte) in vocabulary), np.int64)


def indicators(table: np.ndarray, output: np.ndarray, known: np.ndarray) -> dict[str, np.ndarray]:
    """Each indicator of all tokens; a lower value means less training.

    - ``input_norm``: norm of the input row.
    - ``output_cosine``: 1 less the cosine of the output row and the mean output row of the known tokens.
    - ``output_centred``, ``output_without_first``: the same with the mean row subtracted, or with the part along the
      first principal direction.
    - ``output_distance``: distance of the output row to that mean.

    Args:
        table: input rows, ``[tokens, width]``.
        output: output rows, ``[tokens, width]``; the input rows again if the model is tied.
        known: tokens that are known never to occur, at least one.

    Returns:
        Float64 ``[tokens]`` by name.
    """
    table, output = np.asarray(table, np.float64), np.asarray(output, np.float64)
    first = PCA(n_components=1, svd_solver="full").fit(output).components_[0]
    without_first = output - np.outer(output @ first, first)
    return {
        INPUT_NORM: np.linalg.norm(table, axis=1),
        OUTPUT_COSINE: _cosine_distance(output, known),
        OUTPUT_CENTRED: _cosine_distance(output - output.mean(axis=0), known),
        OUTPUT_WITHOUT_FIRST: _cosine_distance(without_first, known),
        OUTPUT_DISTANCE: np.linalg.norm(output - output[known].mean(axis=0), axis=1),
    }


def _cosine_distance(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    mean = rows[known].mean(axis=0)
    return 1 - rows @ mean / or_one(np.linalg.norm(rows, axis=1) * np.linalg.norm(mean))


def marks(indicator: np.ndarray, unseen: np.ndarray) -> dict[str, tuple[float, float]]:
    """How well an indicator finds the tokens that training never saw.

    Args:
        indicator: lower for less training, ``[tokens]``.
        unseen: which of them training never saw, ``[tokens]``; some, and not all.

    Returns:
        By name, the value and what a random order gives: ``auc``, the probability that an unseen token has a lower
        value than a seen one, and ``average_precision``.
    """
    return {
        "auc": (float(roc_auc_score(unseen, -indicator)), 0.5),
        "average_precision": (float(average_precision_score(unseen, -indicator)), float(unseen.mean())),
    }
