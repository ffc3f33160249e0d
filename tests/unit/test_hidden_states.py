"""Hidden states against the library's own, in every family."""

import numpy as np
import pytest
import torch

from embscale import hidden_states, tokens
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.families import FAMILIES, anatomy, input_table_names, output_table_names

MODEL_TYPES = ["gpt_neox", "gpt2", "llama", "qwen2", "opt", "bloom", "t5"]


def captured(folder, texts_file, *, batch=4, first_position=0):
    texts = hidden_states.read_texts(texts_file, split="heldout")
    sample = hidden_states.choose(texts, tokens.load_tokenizer(folder), count=6, length=12, seed=0)
    model = hidden_states.load_model(folder)
    return model, sample, hidden_states.capture(model, sample, first_position=first_position, batch=batch)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_last_block_then_final_norm_is_the_librarys_last_state(checkpoint, texts_file, model_type):
    model, sample, states = captured(checkpoint(model_type), texts_file)
    with torch.inference_mode():
        library = model(input_ids=torch.from_numpy(sample.tokens), output_hidden_states=True)
    last = library.last_hidden_state.numpy().reshape(-1, states.width)
    before = torch.from_numpy(states.states[states.layers.index("block 2")])
    assert np.allclose(states.states[-1], last, atol=1e-5)
    with torch.inference_mode():
        assert np.allclose(anatomy(model).final_norm(before).numpy(), last, atol=1e-5)
    assert not np.allclose(before.numpy(), last, atol=1e-2)
    # The library's states between: the first block's output is its second entry.
    middle = library.hidden_states[1].numpy().reshape(-1, states.width)
    assert np.allclose(states.states[states.layers.index("block 1")], middle, atol=1e-5)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_layer_zero_is_the_rows_of_the_table(checkpoint, texts_file, model_type):
    model, _, states = captured(checkpoint(model_type), texts_file)
    table = model.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(states.states[0], table[states.token])


def test_the_batch_size_does_not_matter(checkpoint, texts_file):
    one, five = (captured(checkpoint("gpt_neox"), texts_file, batch=b)[2] for b in (1, 5))
    assert np.allclose(one.states, five.states, atol=1e-5)
    assert np.array_equal(one.token, five.token)


def test_positions_before_the_first_are_left_out(checkpoint, texts_file):
    _, sample, whole = captured(checkpoint("gpt_neox"), texts_file)
    _, _, rest = captured(checkpoint("gpt_neox"), texts_file, first_position=3)
    kept = whole.position >= 3
    assert np.allclose(whole.states[:, kept], rest.states, atol=1e-6)
    assert set(rest.position) == set(range(3, 12)) and len(sample.text_ids) == 6


def test_texts_are_chosen_by_seed_and_id_alone(texts_file, tokenizer_folder):
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    texts = hidden_states.read_texts(texts_file, split=None)
    chosen = hidden_states.choose(texts, tokenizer, count=10, length=12, seed=0)
    backwards = dict(reversed(texts.items()))
    assert hidden_states.choose(backwards, tokenizer, count=10, length=12, seed=0).text_ids == chosen.text_ids
    assert hidden_states.choose(texts, tokenizer, count=10, length=12, seed=1).text_ids != chosen.text_ids


def test_too_few_long_texts_are_told_with_both_numbers(texts_file, tokenizer_folder):
    texts = hidden_states.read_texts(texts_file, split="heldout")
    with pytest.raises(EmbscaleError, match=r"texts have 12 tokens or more, but 1000 are wanted"):
        hidden_states.choose(texts, tokens.load_tokenizer(tokenizer_folder), count=1000, length=12, seed=0)


def test_a_state_that_is_not_finite_is_told_with_layer_and_text(checkpoint, texts_file):
    model, sample, _ = captured(checkpoint("gpt_neox"), texts_file)
    with torch.no_grad():
        next(anatomy(model).blocks[1].parameters()).fill_(float("nan"))
    with pytest.raises(EmbscaleError, match=r"block 2: a value is not finite in text 'text-\d+'"):
        hidden_states.capture(model, sample, first_position=0, batch=4)


def test_the_command_writes_what_can_be_read_and_a_damaged_file_is_told(checkpoint, texts_file, tmp_path):
    path = tmp_path / "states.safetensors"
    numbers = {"texts-count": 5, "tokens": 12, "first-position": 1, "batch": 2, "seed": 0}
    flags = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    arguments = [str(checkpoint("gpt_neox")), "--texts", str(texts_file), "--text-split", "heldout", *flags]
    assert execute("states", [*arguments, "-o", str(path)]) == 0
    states = hidden_states.load(path)
    assert states.states.shape == (4, 5 * 11, 16)
    assert states.layers == ("embedding", "block 1", "block 2", "final norm")
    assert states.before_norm().layers == ("embedding", "block 1", "block 2")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(EmbscaleError, match="not a file of hidden states"):
        hidden_states.load(path)


def test_an_unknown_family_is_told_how_to_be_added():
    with pytest.raises(EmbscaleError, match=r"'mamba': unknown family; .* add the names of its parts to FAMILIES"):
        input_table_names("mamba")
    assert all(output_table_names(model_type) for model_type in FAMILIES)
