"""Hidden states against the library's own, in every family."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from embscale import hidden_states, tokens
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.families import FAMILIES, anatomy, input_table_names, output_table_names

LENGTH = 12
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
    before = torch.from_numpy(states.arrays["block 2"])
    assert np.allclose(states.arrays["final norm"], last, atol=1e-5)
    with torch.inference_mode():
        assert np.allclose(anatomy(model).final_norm(before).numpy(), last, atol=1e-5)
    assert not np.allclose(before.numpy(), last, atol=1e-2)
    # The library's states between: the first block's output is its second entry.
    middle = library.hidden_states[1].numpy().reshape(-1, states.width)
    assert np.allclose(states.arrays["block 1"], middle, atol=1e-5)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_layer_zero_is_the_rows_of_the_table(checkpoint, texts_file, model_type):
    model, _, states = captured(checkpoint(model_type), texts_file)
    table = model.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(states.arrays["embedding"], table[states.token])


def test_the_batch_size_does_not_matter(checkpoint, texts_file):
    one, five = (captured(checkpoint("gpt_neox"), texts_file, batch=b)[2] for b in (1, 5))
    assert all(np.allclose(one.arrays[layer], five.arrays[layer], atol=1e-5) for layer in one.layers)
    assert np.array_equal(one.token, five.token)


def test_positions_before_the_first_are_left_out(checkpoint, texts_file):
    _, sample, whole = captured(checkpoint("gpt_neox"), texts_file)
    _, _, rest = captured(checkpoint("gpt_neox"), texts_file, first_position=3)
    kept = whole.position >= 3
    assert all(np.allclose(whole.arrays[layer][kept], rest.arrays[layer], atol=1e-6) for layer in rest.layers)
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
    folder = str(checkpoint("gpt_neox"))
    arguments = [folder, "--tokenizer", folder, "--texts", str(texts_file), "--text-split", "heldout", *flags]
    assert execute("states", [*arguments, "-o", str(path)]) == 0
    states = hidden_states.load(path)
    assert {array.shape for array in states.arrays.values()} == {(5 * 11, 16)}
    assert states.layers == ("embedding", "block 1", "block 2", "final norm")
    assert states.classes == ("embedding", "block 1", "block 2")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(EmbscaleError, match="not a file of hidden states"):
        hidden_states.load(path)


def test_an_unknown_family_is_told_how_to_be_added():
    with pytest.raises(EmbscaleError, match=r"'mamba': unknown family; .* add the names of its parts to FAMILIES"):
        input_table_names("mamba")
    assert all(output_table_names(model_type) for model_type in FAMILIES)


@pytest.fixture(scope="module")
def sample(texts_file, tokenizer_folder):
    texts = hidden_states.read_texts(texts_file, split=None)
    return hidden_states.choose(texts, tokens.load_tokenizer(tokenizer_folder), count=10, length=LENGTH, seed=0)


def capture(folder, sample, *, first_position=1):
    return hidden_states.capture(hidden_states.load_model(folder), sample, first_position=first_position, batch=4)


def library_states(folder, sample):
    """What `transformers` itself calls the hidden states, ``[layers, texts, positions, width]``."""
    model = hidden_states.load_model(folder)
    with torch.inference_mode():
        return torch.stack(model(torch.from_numpy(sample.tokens), output_hidden_states=True).hidden_states).numpy()


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_every_family_gives_rows_blocks_and_final_norm(checkpoint, sample, model_type):
    folder = checkpoint(model_type)
    states = capture(folder, sample, first_position=0)
    final_norm = anatomy(hidden_states.load_model(folder)).final_norm
    assert (final_norm is None) == (model_type == "bert")
    last = [hidden_states.FINAL_NORM] if final_norm else []
    assert states.layers == (hidden_states.EMBEDDING, "block 1", "block 2", *last)
    grid = np.stack(list(states.arrays.values())).reshape(len(states.layers), 10, LENGTH, -1)
    library = library_states(folder, sample)

    # I-31: the library's last state is the final norm's output, where there is one; the last block's is another.
    np.testing.assert_allclose(grid[-1], library[-1], atol=1e-5)
    np.testing.assert_allclose(grid[1], library[1], atol=1e-5)
    if final_norm:
        assert np.abs(grid[2] - library[-1]).max() > 0.01
        with torch.inference_mode():
            np.testing.assert_allclose(final_norm(torch.from_numpy(grid[2])), grid[3], atol=1e-5)

    # I-32: layer 0 is the stored row, without positions and without a factor, found under the name on disk.
    tensors = load_file(folder / "model.safetensors")
    endings = input_table_names(model_type)
    names = [name for name in tensors for ending in endings if f".{name}".endswith(f".{ending}")]
    np.testing.assert_array_equal(states.arrays["embedding"], tensors[names[0]][states.token])


@pytest.mark.parametrize("model_type", ["gpt_neox", "t5"])
def test_untied_output_tables_are_found_by_their_names(checkpoint, model_type):
    (ending,) = output_table_names(model_type)
    names = load_file(checkpoint(model_type) / "model.safetensors").keys()
    assert any(f".{name}".endswith(f".{ending}") for name in names) == (model_type == "gpt_neox")


def test_short_texts_are_counted_and_too_few_texts_are_an_error(texts_file, tokenizer_folder):
    texts = hidden_states.read_texts(texts_file, split=None)
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    short = sum(len(tokenizer.encode(text).ids) < LENGTH for text in texts.values())
    everything = hidden_states.choose(texts, tokenizer, count=40 - short, length=LENGTH, seed=0)
    assert short > 0 and everything.too_short <= short
    with pytest.raises(EmbscaleError, match=rf"^{40 - short} of 40 texts .*, but 40 are wanted"):
        hidden_states.choose(texts, tokenizer, count=40, length=LENGTH, seed=0)


def test_a_split_keeps_its_texts_only(texts_file):
    texts = hidden_states.read_texts(texts_file, split="heldout")
    assert set(texts) == {f"text-{i}" for i in range(1, 40, 2)}
    with pytest.raises(EmbscaleError, match=r"corpus\.jsonl: no texts whose metadata\.split is 'nowhere'"):
        hidden_states.read_texts(texts_file, split="nowhere")


@pytest.mark.parametrize("second", ['{"_id": "a", "text": "again"}', '{"text": "no id"}', '{"_id": "b"}'])
def test_a_bad_row_is_named_by_its_line(tmp_path, second):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"_id": "a", "text": "x"}\n' + second)
    with pytest.raises(EmbscaleError, match=r"texts\.jsonl:2: "):
        hidden_states.read_texts(path, split=None)


@pytest.fixture
def damaged(tmp_path, checkpoint):
    """A function that copies a checkpoint and lets its tensors be changed."""

    def make(change):
        folder = tmp_path / "damaged"
        shutil.copytree(checkpoint("gpt_neox"), folder)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder

    return make


def test_a_missing_weight_is_an_error_and_not_random(damaged):
    folder = damaged(lambda loaded: loaded.pop("gpt_neox.layers.1.mlp.dense_h_to_4h.weight"))
    with pytest.raises(EmbscaleError, match=r"1 weights are missing, layers\.1\.mlp\.dense_h_to_4h\.weight first"):
        hidden_states.load_model(folder)


def test_a_truncated_checkpoint_is_named(damaged):
    folder = damaged(lambda loaded: None)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(EmbscaleError, match="damaged: not a checkpoint that transformers can load"):
        hidden_states.load_model(folder)


def test_a_foreign_tokenizer_and_overlong_texts_are_refused(checkpoint, sample):
    folder = checkpoint("gpt2")
    foreign = dataclasses.replace(sample, tokens=sample.tokens + 300)
    with pytest.raises(EmbscaleError, match="beyond the table's 300 rows"):
        capture(folder, foreign)
    long = hidden_states.Sample(("x",), np.ones((1, 65), dtype=np.int64), 0)
    with pytest.raises(EmbscaleError, match="65 tokens asked for, but the model has 64 positions"):
        capture(folder, long)
    with pytest.raises(EmbscaleError, match="nothing is left of 12 tokens"):
        capture(folder, sample, first_position=12)


def test_a_projected_table_is_refused(tmp_path, checkpoint, sample):
    from transformers import OPTConfig, OPTForCausalLM

    # As opt-350m: a table narrower than the blocks.
    config = json.loads((checkpoint("opt") / "config.json").read_text()) | {"word_embed_proj_dim": 8}
    OPTForCausalLM(OPTConfig(**config)).save_pretrained(tmp_path)
    with pytest.raises(EmbscaleError, match="the table has 8 columns but the blocks 16"):
        capture(tmp_path, sample)
