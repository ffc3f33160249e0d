"""GloVe: the paper's loss, its gradient, and cases whose solution is known."""

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse

from embscale.training import glove

SETTINGS = {"dims": 4, "epochs": 1, "learning_rate": 0.05, "x_max": 10.0, "seed": 3}


def test_the_weights_are_those_of_the_paper():
    assert glove.weights(np.array([1.0, 16, 100, 500]), 100.0) == pytest.approx([0.01**0.75, 0.16**0.75, 1, 1])


def test_one_pair_takes_the_step_of_its_gradient():
    count = 7.0
    counts = sparse.csr_matrix(([count], ([1], [2])), shape=(3, 3))
    table, losses = glove.fit(counts + counts.T * 0, **SETTINGS)
    generator = np.random.default_rng(3)
    word, context = (((generator.random((3, 5)) - 0.5) / 4).astype(np.float32) for _ in range(2))
    w, c = (torch.tensor(row, requires_grad=True) for row in (word[1], context[2]))
    loss = (count / 10) ** 0.75 * (w[:4] @ c[:4] + w[4] + c[4] - np.log(count)) ** 2
    (loss / 2).backward()
    word[1] -= 0.05 * w.grad.numpy()
    context[2] -= 0.05 * c.grad.numpy()
    assert losses == pytest.approx([loss.item()], rel=1e-5)
    assert table[1] == pytest.approx((word + context)[1, :4], abs=1e-6)


def test_counts_that_vectors_can_express_are_met():
    """With as many dimensions as tokens the logarithms are reached exactly."""
    counts = np.random.default_rng(0).uniform(1, 50, (4, 4))
    _, losses = glove.fit(sparse.csr_matrix(counts), **SETTINGS | {"dims": 4, "epochs": 3000, "learning_rate": 0.2})
    assert losses[-1] < 1e-6 < losses[0]


def test_the_loss_falls_in_every_epoch():
    generator = np.random.default_rng(1)
    counts = sparse.csr_matrix(generator.poisson(0.7, (60, 60)) * generator.uniform(1, 9, (60, 60)))
    _, losses = glove.fit(counts + counts.T, **SETTINGS | {"epochs": 30})
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))


def test_a_token_in_no_pair_has_zeros_and_runs_repeat():
    counts = sparse.csr_matrix(([2.0, 2.0], ([0, 1], [1, 0])), shape=(3, 3))
    table, _ = glove.fit(counts, **SETTINGS)
    assert not table[2].any() and table[:2].any(axis=1).all()
    assert np.array_equal(table, glove.fit(counts, **SETTINGS)[0])
    assert not np.array_equal(table, glove.fit(counts, **SETTINGS | {"seed": 4})[0])
