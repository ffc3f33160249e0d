"""GloVe: vectors whose products are the logarithms of co-occurrence counts (Pennington, Socher and Manning 2014).

No maintained library trains it.  The steps are the paper's own, one co-occurrence at a time with AdaGrad, in a loop
that numba compiles.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse

EXPONENT = 0.75  # of the weights; the paper found it to do better than 1 (section 3)


def weights(counts: np.ndarray, x_max: float) -> np.ndarray:
    """``min(1, (count / x_max) ** 0.75)``: rare pairs are noisy, frequent ones must not dominate (eq. 9)."""
    return np.minimum(1, (counts / x_max) ** EXPONENT)


def fit(
    counts: sparse.csr_matrix, *, dims: int, epochs: int, learning_rate: float, x_max: float, seed: int
) -> tuple[np.ndarray, list[float]]:
    """Minimise ``sum f(x_ij) (w_i . c_j + b_i + d_j - log x_ij)^2`` over the pairs that occur (eq. 8).

    Args:
        counts: of `static_embeddings.cooccurrences`, ``[tokens, tokens]``.
        dims: columns of the table.
        epochs: passes over the pairs, each in a new random order.
        learning_rate: of AdaGrad (Duchi, Hazan and Singer 2011), whose sums of squared gradients start at 1.
        x_max: count from which a pair has the full weight.
        seed: of the initial vectors and of the orders.

    Returns:
        The sums of a token's vector and its context vector, float32 ``[tokens, dims]`` (section 4.2), of zeros for a
        token in no pair; and the mean loss of a pair in each epoch, measured before each pair's update.
    """
    generator = np.random.default_rng(seed)
    pairs = counts.tocoo()
    rows, columns = pairs.row.astype(np.int64), pairs.col.astype(np.int64)
    targets, importance = np.log(pairs.data), weights(pairs.data, x_max)
    # The last column holds the biases.
    word, context = (
        ((generator.random((counts.shape[0], dims + 1)) - 0.5) / dims).astype(np.float32) for _ in range(2)
    )
    squares = np.ones_like(word), np.ones_like(context)
    losses = []
    for _ in range(epochs):
        order = generator.permutation(len(targets))
        total = _epoch(
            rows[order], columns[order], targets[order], importance[order], word, context, *squares, learning_rate
        )
        losses.append(total / len(targets))
    table = word[:, :dims] + context[:, :dims]
    table[counts.getnnz(axis=1) == 0] = 0
    return table, losses


# Reordered sums and unchecked divisions, so that the loops can be vectorised.
@njit(fastmath={"reassoc"}, error_model="numpy")
def _epoch(
    rows: np.ndarray,
    columns: np.ndarray,
    targets: np.ndarray,
    importance: np.ndarray,
    word: np.ndarray,
    context: np.ndarray,
    word_squares: np.ndarray,
    context_squares: np.ndarray,
    learning_rate: float,
) -> float:
    """One pass in place; the sum of the losses."""
    dims = word.shape[1] - 1
    rate, total = np.float32(learning_rate), 0.0
    for n in range(len(rows)):
        w, c = word[rows[n]], context[columns[n]]
        w_squares, c_squares = word_squares[rows[n]], context_squares[columns[n]]
        product = np.float32(0)
        for k in range(dims):
            product += w[k] * c[k]
        error = product + w[dims] + c[dims] - targets[n]
        total += importance[n] * error * error
        # Half the gradient, as in the authors' own program: the other half is in the learning rate.
        slope = np.float32(importance[n] * error)
        for k in range(dims):
            w_slope, c_slope = slope * c[k], slope * w[k]
            w[k] -= rate * w_slope / np.sqrt(w_squares[k])
            c[k] -= rate * c_slope / np.sqrt(c_squares[k])
            w_squares[k] += w_slope * w_slope
            c_squares[k] += c_slope * c_slope
        w[dims] -= rate * slope / np.sqrt(w_squares[dims])
        c[dims] -= rate * slope / np.sqrt(c_squares[dims])
        w_squares[dims] += slope * slope
        c_squares[dims] += slope * slope
    return total
