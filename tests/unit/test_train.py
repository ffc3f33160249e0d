"""The command that trains a model does what calling `ladder` by hand does."""

import pytest
import torch
from safetensors.torch import load_file
from small_corpus import save_corpus

from embscale.cli import execute
from embscale.provenance.artifacts import note_path, read_note
from embscale.texts import streams
from embscale.training import ladder

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {"width": 8, "blocks": 1, "head_width": 4, "vocab_size": 14, "context": 8, "seed": 3}
ROTARY = {"positions": "rotary"}
SCHEDULE = ladder.Schedule(steps=6, batch=2, context=8, learning_rate=0.01, final_learning_rate=0.1, warmup=2, seed=3)


@pytest.fixture
def study(tmp_path):
    """A folder with a corpus, its tokens and its tokenizer."""
    save_corpus(tmp_path)
    return tmp_path


def command(folder, name, *more):
    files = ("--corpus", folder, "--tokens", folder / "tokens.safetensors", "--tokenizer", folder, "-o", folder / name)
    numbers = {
        **SIZES,
        "batch": 2,
        "steps": 6,
        "checkpoints": 6,
        "learning_rate": 0.01,
        "final_learning_rate": 0.1,
        "warmup": 2,
        "threads": 1,
    }
    numbers |= {} if "--positions" in more else ROTARY
    flags = [text for key, value in numbers.items() for text in (f"--{key.replace('_', '-')}", value)]
    return execute("train", list(map(str, (*files, *flags, *more))))


def weights(folder, name):
    return load_file(folder / name / "step6" / "model.safetensors")


def by_hand(folder):
    model = ladder.build(**SIZES, **ROTARY)
    stream, _, _ = streams.read(folder / "corpus.jsonl", folder / "tokens.safetensors", folder, seed=3)
    ladder.train(model, stream, SCHEDULE, reached=lambda step, loss: None)
    # In the file the output table has the name that published checkpoints give it.
    return {name.replace("lm_head", "embed_out"): weight for name, weight in model.state_dict().items()}


def test_the_model_is_the_one_trained_by_hand_each_time(study):
    assert command(study, "a") == 0 == command(study, "b")
    made, expected = weights(study, "a"), by_hand(study)
    assert made.keys() <= expected.keys() and all(torch.equal(made[name], expected[name]) for name in made)
    file = "step6/model.safetensors"
    assert (study / "a" / file).read_bytes() == (study / "b" / file).read_bytes()


def test_learned_positions_are_a_table_that_is_trained(study):
    assert command(study, "learned", "--positions", "learned") == 0
    place = "transformer.wpe.weight"
    untrained = ladder.build(**SIZES, positions="learned").state_dict()[place]
    made = weights(study, "learned")[place]
    assert made.shape == (8, 8) and not torch.equal(made, untrained)
    assert read_note(note_path(study / "learned" / "losses.csv"))["params"]["positions"] == "learned"
