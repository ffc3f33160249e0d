"""The command that trains a rung: what its flags leave alone, and what they change."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_corpus import save_corpus

from embscale import ladder, streams, tables
from embscale.artifacts import note_path, read_note
from embscale.cli import execute

SIZES = {"width": 8, "blocks": 1, "head_width": 4, "vocab_size": 14, "context": 8, "seed": 3}
SCHEDULE = ladder.Schedule(steps=6, batch=2, context=8, learning_rate=0.01, warmup=2, seed=3)
TABLE, OUTPUT = "gpt_neox.embed_in.weight", "embed_out"


@pytest.fixture
def study(tmp_path):
    """A folder with a corpus, its tokens and its tokenizer."""
    save_corpus(tmp_path)
    return tmp_path


def command(folder, name, *more):
    files = ("--corpus", folder, "--tokens", folder / "tokens.safetensors", "--tokenizer", folder, "-o", folder / name)
    numbers = {**SIZES, "batch": 2, "steps": 6, "checkpoints": 6, "learning_rate": 0.01, "warmup": 2, "threads": 1}
    flags = [text for key, value in numbers.items() for text in (f"--{key.replace('_', '-')}", value)]
    return execute("train", list(map(str, (*files, *flags, *more))))


def weights(folder, name):
    return load_file(folder / name / "step6" / "model.safetensors")


def by_hand(folder, table=None):
    torch.set_num_threads(1)
    model = ladder.build(**SIZES)
    if table is not None:
        ladder.start_from(model, table)
    stream, _, _ = streams.read(folder / "corpus.jsonl", folder / "tokens.safetensors", folder, seed=3)
    ladder.train(model, stream, SCHEDULE, reached=lambda step, loss: None)
    # In the file the output table has the name that published checkpoints give it.
    return {name.replace("lm_head", OUTPUT): weight for name, weight in model.state_dict().items()}


def test_without_a_table_the_rung_is_as_it_was(study):
    assert command(study, "a") == 0 == command(study, "b")
    made, expected = weights(study, "a"), by_hand(study)
    assert made.keys() <= expected.keys() and all(torch.equal(made[name], expected[name]) for name in made)
    file = "step6/model.safetensors"
    assert (study / "a" / file).read_bytes() == (study / "b" / file).read_bytes()


def test_a_given_table_is_what_training_starts_from(study):
    table = np.random.default_rng(0).normal(size=(14, 8)).astype(np.float32)
    tables.save(study / "t.safetensors", table, {})
    length = ladder.build(**SIZES).gpt_neox.embed_in.weight.norm().item()
    scaled = table * (length / np.linalg.norm(table))
    assert command(study, "warm", "--initial-table", study / "t.safetensors") == 0
    expected = by_hand(study, table)
    made = weights(study, "warm")
    assert all(torch.equal(made[name], expected[name]) for name in made)
    assert command(study, "frozen", "--initial-table", study / "t.safetensors", "--freeze-table") == 0
    assert weights(study, "frozen")[TABLE].numpy() == pytest.approx(scaled, rel=1e-5)
    assert not torch.equal(weights(study, "frozen")[f"{OUTPUT}.weight"], made[f"{OUTPUT}.weight"])
    note = read_note(note_path(study / "frozen" / "losses.csv"))
    assert note["params"]["initial_table"] and note["params"]["freeze_table"]
    assert any(name.endswith("t.safetensors") for name in note["inputs"])


def test_a_frozen_random_table_is_that_of_the_seed(study):
    assert command(study, "frozen", "--freeze-table") == 0
    assert torch.equal(weights(study, "frozen")[TABLE], ladder.build(**SIZES).gpt_neox.embed_in.weight)


def test_a_table_of_another_width_is_one_line(study, capsys):
    tables.save(study / "t.safetensors", np.ones((14, 6), np.float32), {})
    assert command(study, "warm", "--initial-table", study / "t.safetensors") == 1
    error = capsys.readouterr().err
    assert "14 rows and 6 columns, but the model 14 and 8" in error.splitlines()[-1]
