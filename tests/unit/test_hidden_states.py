"""Hidden states are the blocks' own outputs, of the right tokens, whatever the family."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from embscale import families, hidden_states
from embscale.errors import EmbscaleError
from embscale.hidden_states import EMBEDDING, FINAL_NORM, Sample
from embscale.tokens import load_tokenizer
from safetensors.numpy import load_file, save_file

LENGTH = 12


@pytest.fixture(scope="module")
def sample(texts_file, tokenizer_folder):
    texts = hidden_states.read_texts(texts_file, split=None)
    return hidden_states.choose(texts, load_tokenizer(tokenizer_folder), count=10, length=LENGTH, seed=0)


def capture(folder, sample, **changes):
    model = hidden_states.load_model(folder)
    return hidden_states.capture(model, sample, **{"first_position": 1, "batch": 4} | changes)


def library_states(folder, sample):
    """What `transformers` itself calls the hidden states, ``[layers, texts, positions, width]``."""
    model = hidden_states.load_model(folder)
    with torch.inference_mode():
        return torch.stack(model(torch.from_numpy(sample.tokens), output_hidden_states=True).hidden_states).numpy()


@pytest.mark.parametrize("model_type", sorted(families.FAMILIES))
def test_every_family_gives_rows_blocks_and_final_norm(checkpoint, sample, model_type):
    folder = checkpoint(model_type)
    states = capture(folder, sample, first_position=0)
    assert states.layers == (EMBEDDING, "block 1", "block 2", FINAL_NORM)
    grid = states.states.reshape(4, 10, LENGTH, -1)
    library = library_states(folder, sample)

    # I-31: the library's last state is the final norm's output; the last block's is another.
    np.testing.assert_allclose(grid[3], library[-1], atol=1e-5)
    assert np.abs(grid[2] - library[-1]).max() > 0.01
    np.testing.assert_allclose(grid[1], library[1], atol=1e-5)
    parts = families.anatomy(hidden_states.load_model(folder))
    with torch.inference_mode():
        np.testing.assert_allclose(parts.final_norm(torch.from_numpy(grid[2])), grid[3], atol=1e-5)

    # I-32: layer 0 is the stored row, without positions and without a factor, found under the name on disk.
    tensors = load_file(folder / "model.safetensors")
    endings = families.input_table_names(model_type)
    names = [name for name in tensors for ending in endings if f".{name}".endswith(f".{ending}")]
    np.testing.assert_array_equal(states.states[0], tensors[names[0]][states.token])


@pytest.mark.parametrize("model_type", ["gpt_neox", "t5"])
def test_untied_output_tables_are_found_by_their_names(checkpoint, model_type):
    (ending,) = families.output_table_names(model_type)
    names = load_file(checkpoint(model_type) / "model.safetensors").keys()
    assert any(f".{name}".endswith(f".{ending}") for name in names) == (model_type == "gpt_neox")


def test_an_unknown_family_is_named(checkpoint):
    with pytest.raises(EmbscaleError, match=r"'perceiver'.*gpt_neox.*add .* FAMILIES"):
        families.input_table_names("perceiver")


def test_vectors_carry_text_position_and_token(checkpoint, sample):
    states = capture(checkpoint("gpt_neox"), sample, first_position=3)
    assert states.states.shape == (4, 10 * (LENGTH - 3), 16) and states.states.dtype == np.float32
    np.testing.assert_array_equal(states.token, sample.tokens[states.text, states.position])
    assert states.position.min() == 3 and states.position.max() == LENGTH - 1
    whole = capture(checkpoint("gpt_neox"), sample, first_position=0)
    np.testing.assert_array_equal(states.states, whole.states[:, whole.position >= 3])


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "llama"])
def test_batch_size_does_not_matter_and_runs_agree(checkpoint, sample, model_type):
    one, all_at_once = (capture(checkpoint(model_type), sample, batch=batch) for batch in (1, 10))
    np.testing.assert_allclose(one.states, all_at_once.states, atol=1e-5)
    again = capture(checkpoint(model_type), sample, batch=10)
    assert again.states.tobytes() == all_at_once.states.tobytes()


def test_the_choice_of_texts_depends_on_seed_and_ids_alone(texts_file, tokenizer_folder):
    texts = hidden_states.read_texts(texts_file, split=None)
    tokenizer = load_tokenizer(tokenizer_folder)

    def chosen(texts, seed=0, count=10):
        return hidden_states.choose(texts, tokenizer, count=count, length=LENGTH, seed=seed)

    first = chosen(texts)
    assert first.text_ids == chosen(dict(reversed(texts.items()))).text_ids
    assert first.text_ids[:4] == chosen(texts, count=4).text_ids
    assert first.text_ids != chosen(texts, seed=1).text_ids
    # Taking an unchosen text away changes nothing.
    assert first.text_ids == chosen({name: texts[name] for name in first.text_ids}).text_ids


def test_short_texts_are_counted_and_too_few_texts_are_an_error(texts_file, tokenizer_folder):
    texts = hidden_states.read_texts(texts_file, split=None)
    tokenizer = load_tokenizer(tokenizer_folder)
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


def test_states_survive_the_disk(tmp_path, checkpoint, sample):
    states = capture(checkpoint("gpt_neox"), sample)
    hidden_states.save(tmp_path / "a", states)
    hidden_states.save(tmp_path / "b", states)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = hidden_states.load(tmp_path / "a")
    assert loaded.layers == states.layers and loaded.metadata == states.metadata
    for name in ("states", "text", "position", "token"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(states, name))


def test_a_broken_file_of_states_is_named(tmp_path):
    (tmp_path / "states").write_bytes(b"short")
    with pytest.raises(EmbscaleError, match="states: not a file of hidden states"):
        hidden_states.load(tmp_path / "states")
    with pytest.raises(EmbscaleError, match="absent: no such file; make it with embscale states"):
        hidden_states.load(tmp_path / "absent")


def test_before_norm_leaves_the_final_norm_out(checkpoint, sample):
    states = capture(checkpoint("gpt_neox"), sample)
    assert states.before_norm().layers == (EMBEDDING, "block 1", "block 2")
    np.testing.assert_array_equal(states.before_norm().states, states.states[:3])


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


def test_values_that_are_not_finite_name_layer_and_text(damaged, sample):
    def change(tensors):
        # Only the tokens of some texts pass this row.
        tensors["gpt_neox.embed_in.weight"][sample.tokens[2, 5]] = np.nan

    with pytest.raises(EmbscaleError, match=rf"^embedding: .* text '{sample.text_ids[0]}'|text-"):
        capture(damaged(change), sample)


def test_a_missing_weight_is_an_error_and_not_random(damaged):
    folder = damaged(lambda tensors: tensors.pop("gpt_neox.layers.1.mlp.dense_h_to_4h.weight"))
    with pytest.raises(EmbscaleError, match=r"1 weights are missing, layers\.1\.mlp\.dense_h_to_4h\.weight first"):
        hidden_states.load_model(folder)


def test_a_truncated_checkpoint_is_named(damaged):
    folder = damaged(lambda tensors: None)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(EmbscaleError, match="damaged: not a checkpoint that transformers can load"):
        hidden_states.load_model(folder)


def test_a_foreign_tokenizer_and_overlong_texts_are_refused(checkpoint, sample):
    folder = checkpoint("gpt2")
    foreign = dataclasses.replace(sample, tokens=sample.tokens + 300)
    with pytest.raises(EmbscaleError, match="beyond the table's 300 rows"):
        capture(folder, foreign)
    long = Sample(("x",), np.ones((1, 65), dtype=np.int64), 0)
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
