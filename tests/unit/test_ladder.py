"""Training of the ladder: schedule, data order, reproducibility, and that it learns."""

import itertools
import math

import numpy as np
import pytest
import torch

from embscale.errors import EmbscaleError
from embscale.training import ladder

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {"width": 16, "blocks": 1, "head_width": 8, "vocab_size": 20, "context": 8, "seed": 0, "positions": "rotary"}
SCHEDULE = ladder.Schedule(steps=30, batch=4, context=8, learning_rate=0.02, final_learning_rate=0.1, warmup=5, seed=0)


@pytest.fixture
def tokens():
    """A stream in which each token decides the next."""
    return np.tile(np.arange(20), 60).astype(np.int64)


def trained(tokens):
    model = ladder.build(**SIZES)
    losses = []
    ladder.train(model, tokens, SCHEDULE, reached=lambda step, loss: losses.append((step, loss)))
    return model, losses


def test_a_predictable_stream_is_learned(tokens):
    model, losses = trained(tokens)
    assert [step for step, _ in losses] == list(range(31)) and math.isnan(losses[0][1])
    assert losses[1][1] > 0.9 * math.log(20)
    assert losses[-1][1] < 0.5 * losses[1][1]
    assert ladder.heldout_loss(model, tokens[3:], context=8, batch=4) < 0.6 * math.log(20)


def test_two_runs_give_the_same_weights(tokens):
    first, second = trained(tokens)[0].state_dict(), trained(tokens)[0].state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_held_out_loss_is_the_cross_entropy_of_the_next_token(tokens):
    model = ladder.build(**SIZES).eval()
    part = torch.from_numpy(tokens[:32]).view(4, 8)
    with torch.inference_mode():
        logits = model(input_ids=part).logits[:, :-1]
    expected = torch.nn.functional.cross_entropy(logits.reshape(-1, 20), part[:, 1:].reshape(-1)).item()
    assert ladder.heldout_loss(model, tokens[:32], context=8, batch=4) == pytest.approx(expected, rel=1e-5)


def test_rows_have_one_length_at_every_width():
    lengths = []
    for width in (16, 64, 256):
        model = ladder.build(**SIZES | {"width": width, "vocab_size": 2000})
        lengths.append(model.get_input_embeddings().weight.square().sum(1).mean().item())
    assert lengths == pytest.approx([0.4] * 3, rel=0.05)  # 2 / (5 width) x width


def test_the_learning_rate_rises_then_falls_to_a_tenth():
    rates = [SCHEDULE.rate(step) for step in range(31)]
    assert rates[4] == pytest.approx(0.02) == max(rates)
    assert rates[0] == pytest.approx(0.004) and rates[30] == pytest.approx(0.002)
    assert all(b <= a for a, b in itertools.pairwise(rates[5:]))


def test_batches_start_again_when_the_stream_ends():
    stream = np.arange(70)
    schedule = ladder.Schedule(steps=3, batch=4, context=8, learning_rate=1, final_learning_rate=0.1, warmup=1, seed=0)
    starts = [int(batch[0, 0]) for batch in ladder.batches(stream, schedule)]
    assert starts == [0, 32, 0]


def test_too_few_tokens_are_reported():
    with pytest.raises(EmbscaleError, match="hold 10 tokens, fewer than one batch of 32"):
        next(ladder.batches(np.arange(10), SCHEDULE))
    with pytest.raises(EmbscaleError, match="held-out texts hold 10 tokens"):
        ladder.heldout_loss(ladder.build(**SIZES), np.arange(10), context=8, batch=4)


def test_a_given_table_is_scaled_to_the_rows_that_it_replaces():
    model = ladder.build(**SIZES)
    before = model.gpt_neox.embed_in.weight.detach().clone()
    table = np.random.default_rng(0).normal(size=(20, 16)).astype(np.float32)
    table[3] = 0
    ladder.start_from(model, table)
    after = model.gpt_neox.embed_in.weight.detach()
    assert torch.equal(after[3], before[3])  # nothing is known of this token
    known = [i for i in range(20) if i != 3]
    factor = (after[known] / torch.from_numpy(table[known])).flatten()
    assert torch.allclose(factor, factor[0].expand_as(factor), rtol=1e-5)
    assert after[known].norm().item() == pytest.approx(before[known].norm().item(), rel=1e-5)
    other = ladder.build(**SIZES)
    assert torch.equal(model.lm_head.weight, other.lm_head.weight)


def test_a_table_of_another_shape_is_reported():
    with pytest.raises(EmbscaleError, match="20 rows and 8 columns, but the model 20 and 16"):
        ladder.start_from(ladder.build(**SIZES), np.ones((20, 8), np.float32))
    with pytest.raises(EmbscaleError, match="zeros alone"):
        ladder.start_from(ladder.build(**SIZES), np.zeros((20, 16), np.float32))


def test_a_frozen_table_stays_while_the_rest_learns(tokens):
    model = ladder.build(**SIZES)
    model.get_input_embeddings().requires_grad_(False)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    ladder.train(model, tokens, SCHEDULE, reached=lambda step, loss: None)
    same = {name for name, weight in model.state_dict().items() if torch.equal(weight, before[name])}
    assert same == {"gpt_neox.embed_in.weight"} | {name for name in before if "rotary" in name}


def test_learned_positions_change_blocks_but_neither_depth_nor_sizes():
    rotary, learned = (ladder.build(**SIZES | {"positions": positions}) for positions in ("rotary", "learned"))
    size = {name: sum(p.numel() for p in model.parameters()) for name, model in (("r", rotary), ("l", learned))}
    assert size["l"] - size["r"] == 8 * 16  # a vector for each place
    assert learned.get_input_embeddings().weight.shape == rotary.get_input_embeddings().weight.shape
    assert not any(module.p for module in learned.modules() if isinstance(module, torch.nn.Dropout))
    order = torch.tensor([[1, 2, 3, 4], [3, 2, 1, 4]])
    for model in (rotary, learned):
        with torch.inference_mode():
            first, second = model.eval()(input_ids=order).logits[:, -1]
        assert not torch.allclose(first, second)
