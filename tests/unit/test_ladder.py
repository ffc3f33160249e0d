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


# One step of the optimiser, by hand.

GROUPS = {"embedding_rate": 4.0, "weight_decay": 0.1, "table_decay": 0.5}
ONE_STEP = ladder.Schedule(
    steps=1, batch=4, context=8, learning_rate=0.02, final_learning_rate=1.0, warmup=5, seed=0, **GROUPS
)
TABLE = "gpt_neox.embed_in.weight"


def gradients(model, batch):
    """The gradient of each weight that learns, in double precision."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    loss = model(input_ids=batch, labels=batch).loss
    found = torch.autograd.grad(loss, list(weights.values()))
    return {name: gradient.double() for name, gradient in zip(weights, found, strict=True)}


def after_one_step(weight, gradient, *, rate, decay):
    """AdamW's first step (Loshchilov and Hutter 2019): with corrected moments, the gradient over its own size."""
    return weight.double() * (1 - rate * decay) - rate * gradient / (gradient.abs() + 1e-8)


@pytest.mark.parametrize("size", [0.3, 10.0], ids=["not clipped", "clipped"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_a_step_is_adamw_with_a_rate_and_a_decay_for_each_group(tokens, size, tied, frozen):
    model = ladder.build(**SIZES, tied=tied)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(size).add_(0.01)  # also biases, which start at zero and would not show a decay
    ladder.input_table(model).requires_grad_(not frozen)
    batch = torch.from_numpy(tokens[:32] * 7 % 20).view(4, 8)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    found = gradients(model, batch)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in found.values()))
    assert norm < 0.9 if size < 1 else norm > 2
    clipped = {name: gradient * min(1.0, 1.0 / (norm + 1e-6)) for name, gradient in found.items()}
    optimizer = ladder.optimiser(model, ONE_STEP)
    ladder.train(model, batch.flatten().numpy(), ONE_STEP, reached=lambda step, loss: None, optimizer=optimizer)
    rate = 0.02 / 5  # the first of five steps of warmup
    assert (TABLE in found) is not frozen and ("lm_head.weight" in before) is not tied
    for name, weight in model.named_parameters():
        if name not in found:
            assert name == TABLE and torch.equal(weight, before[name])
            continue
        # The first step is the same for gradients of any size; only moments show that they were clipped.
        moments = optimizer.state[weight]
        assert torch.allclose(moments["exp_avg"].double(), 0.1 * clipped[name], rtol=1e-4, atol=1e-9), name
        assert torch.allclose(moments["exp_avg_sq"].double(), 0.05 * clipped[name].square(), rtol=1e-4, atol=1e-12)
        decay = 0.5 if name == TABLE else 0.1 if weight.ndim > 1 else 0.0
        expected = after_one_step(before[name], clipped[name], rate=rate * (4 if name == TABLE else 1), decay=decay)
        assert torch.allclose(weight.double(), expected, rtol=0, atol=2e-6), name
        assert not torch.allclose(weight, before[name], rtol=0, atol=1e-3)


def test_the_gradient_of_a_tied_table_is_that_of_both_of_its_uses(tokens):
    tied, untied = ladder.build(**SIZES, tied=True), ladder.build(**SIZES)
    assert tied.get_output_embeddings().weight is ladder.input_table(tied)
    with torch.no_grad():
        untied.get_output_embeddings().weight.copy_(ladder.input_table(tied))
        for name, weight in tied.named_parameters():
            untied.get_parameter(name).copy_(weight)
    batch = torch.from_numpy(tokens[:32]).view(4, 8)
    alone, both = gradients(untied, batch), gradients(tied, batch)
    (output,) = [name for name in alone if name not in both]
    assert torch.allclose(both[TABLE], alone[TABLE] + alone[output], atol=1e-7)
    assert not torch.allclose(both[TABLE], alone[output], atol=1e-4)


def test_a_tied_model_has_one_table_before_and_after_training(tokens):
    model = ladder.build(**SIZES, tied=True)
    ladder.train(model, tokens, SCHEDULE, reached=lambda step, loss: None)
    assert model.get_output_embeddings().weight is ladder.input_table(model)
    assert sum(weight.shape == (20, 16) for weight in model.parameters()) == 1
    assert sum(weight.shape == (20, 16) for weight in ladder.build(**SIZES).parameters()) == 2


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_depth_adds_blocks_of_the_same_shape(blocks):
    model = ladder.build(**SIZES | {"blocks": blocks})
    shapes = [[weight.shape for weight in block.parameters()] for block in model.gpt_neox.layers]
    assert len(shapes) == blocks and all(shape == shapes[0] for shape in shapes)


def test_the_input_table_does_not_depend_on_tying():
    """So runs of one seed can be compared in pairs: they start from the same table."""
    tables = [ladder.input_table(ladder.build(**SIZES, tied=tied)) for tied in (False, True)]
    assert torch.equal(*tables)


# Several steps, by transformers.


@pytest.mark.long
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_transformers_own_trainer_ends_with_the_same_weights(tokens, tied, tmp_path):
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    from torch.utils.data import SequentialSampler
    from transformers import Trainer, TrainingArguments

    class InOrder(Trainer):
        def _get_train_sampler(self, dataset=None):
            return SequentialSampler(self.train_dataset)

    steps, stream = 12, np.random.default_rng(0).permutation(tokens)
    schedule = ladder.Schedule(
        steps=steps, batch=4, context=8, learning_rate=0.01, final_learning_rate=1.0, warmup=1, seed=0,
        weight_decay=0.1, table_decay=0.1,
    )  # fmt: skip
    ours, theirs = ladder.build(**SIZES, tied=tied), ladder.build(**SIZES, tied=tied)
    ours_losses = []
    ladder.train(ours, stream, schedule, reached=lambda step, loss: ours_losses.append(loss))
    arguments = TrainingArguments(
        tmp_path, max_steps=steps, per_device_train_batch_size=4, learning_rate=0.01, lr_scheduler_type="constant",
        adam_beta1=0.9, adam_beta2=0.95, max_grad_norm=1.0, weight_decay=0.1, optim="adamw_torch_fused", use_cpu=True,
        logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, seed=0,
    )  # fmt: skip
    rows = torch.from_numpy(stream[: steps * 32]).view(-1, 8)
    trainer = InOrder(theirs, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == pytest.approx(ours_losses[1:], abs=1e-5)
    start = ladder.build(**SIZES, tied=tied).state_dict()
    for (name, weight), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(weight, other, rtol=0, atol=1e-6), name
        assert not torch.allclose(weight, start[name], rtol=0, atol=1e-3)
