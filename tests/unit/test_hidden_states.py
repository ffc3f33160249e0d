"""Hidden states against the library's own, in every family; files of them against interruptions and damage."""

import dataclasses
import importlib.util
import json
import shutil
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from safetensors.numpy import load_file, save_file

from embscale import devices
from embscale.checkpoints.families import FAMILIES, anatomy, family, input_table_names, output_table_names
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.layers import hidden_states, running
from embscale.provenance.artifacts import note_path, read_note
from embscale.tables.effective import effective_table
from embscale.texts import samples, tokens
from embscale.texts.tokens import TokenisedTexts

LENGTH = 12
CHANGED = {"bert", "bloom", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "opt", "opt-350m"}
NO_FINAL_NORM = {"bert", "opt-350m"}
# As opt-350m: a table narrower than the blocks, each block ends with a norm, and none comes after the last.
NARROW = {"word_embed_proj_dim": 8, "do_layer_norm_before": False}


@pytest.fixture(scope="module")
def folder_of(checkpoint, tmp_path_factory):
    """A function from a model type, or ``opt-350m``, to a checkpoint folder."""

    def make(name):
        if name != "opt-350m":
            return checkpoint(name)
        from transformers import OPTConfig, OPTForCausalLM

        folder = tmp_path_factory.mktemp(name)
        torch.manual_seed(1)
        config = json.loads((checkpoint("opt") / "config.json").read_text()) | NARROW
        OPTForCausalLM(OPTConfig(**config)).save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="module")
def sample(texts_file, tokenizer_folder):
    return chosen(texts_file, tokenizer_folder)


def chosen(texts_file, tokenizer_folder, *, count=10, min_tokens=LENGTH, most=LENGTH):
    return samples.choose(
        samples.read_texts(texts_file, split=None),
        tokens.load_tokenizer(tokenizer_folder),
        count=count,
        min_tokens=min_tokens,
        tokens=most,
        strip_html=False,
        strip_punctuation=False,
        seed=0,
    )


def extracted(folder, sample, path, *, first_position=0, batch=4, **options):
    """The states of a checkpoint, or of a model, by way of a file."""
    model = running.load_model(folder, **options) if not isinstance(folder, torch.nn.Module) else folder
    running.extract(model, sample, path, first_position=first_position, batch=batch, metadata={})
    return hidden_states.load(path)


def library(folder, sample):
    """What `transformers` itself calls the hidden states and the last of them, for texts of one length."""
    model = running.load_model(folder)
    ids = torch.from_numpy(np.stack([sample.tokens[i] for i in range(len(sample.tokens))]).astype(np.int64))
    with torch.inference_mode():
        output = model(ids, output_hidden_states=True)
    return output.hidden_states, output.last_hidden_state


def flat(states):
    return states.reshape(-1, states.shape[-1]).numpy()


def same(array, other):
    np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*sorted(FAMILIES), "opt-350m"])
def test_every_family_gives_rows_block_input_blocks_and_final_norm(folder_of, sample, name, tmp_path):
    folder = folder_of(name)
    states = extracted(folder, sample, tmp_path / "states")
    changed, normed = name in CHANGED, name not in NO_FINAL_NORM
    expected = ["embedding", *["block input"] * changed, "block 1", "block 2", *["final norm"] * normed]
    assert list(states.layers) == expected
    assert states.classes == (expected[changed], "block 1", "block 2") and states.width == 16
    between, last = library(folder, sample)

    # The library's last state is the final norm's output, if there is one; the last block's output differs.
    same(states.arrays[states.classes[0]], flat(between[0]))
    same(states.arrays["block 1"], flat(between[1]))
    if normed:
        same(states.arrays["final norm"], flat(last))
        block = torch.from_numpy(np.array(states.arrays["block 2"]))
        with torch.inference_mode():
            same(anatomy(running.load_model(folder)).final_norm(block), flat(last))
        assert np.abs(block.numpy() - flat(last)).max() > 0.01
    elif name == "bert":
        same(states.arrays["block 2"], flat(last))

    # The first layer is the stored row, without positions and without a factor, found under the name on disk.
    tensors = load_file(folder / "model.safetensors")
    table = find(tensors, input_table_names(family_name(name)))
    np.testing.assert_array_equal(states.arrays["embedding"], table[states.token])
    # What block 1 receives is what the facts of the family make of the row at its place.
    if changed:
        config = json.loads((folder / "config.json").read_text())
        for place in range(LENGTH):
            rows, applied = effective_table(table, config, lambda endings: find(tensors, endings), place)
            there = states.position == place
            assert applied
            same(states.arrays["block input"][there], rows[states.token[there]])


def family_name(name):
    return "opt" if name == "opt-350m" else name


def find(tensors, endings):
    found = [tensors[name] for ending in endings for name in tensors if f".{name}".endswith(f".{ending}")]
    return found[0] if found else None


def test_a_narrow_table_keeps_its_width_and_its_last_block_goes_on_to_the_librarys_last_state(
    folder_of, sample, tmp_path
):
    folder = folder_of("opt-350m")
    states = extracted(folder, sample, tmp_path / "states")
    assert {layer: array.shape[1] for layer, array in states.arrays.items()} == {
        "embedding": 8,
        "block input": 16,
        "block 1": 16,
        "block 2": 16,
    }
    project_out = load_file(folder / "model.safetensors")["model.decoder.project_out.weight"]
    same(states.arrays["block 2"] @ project_out.T, flat(library(folder, sample)[1]))


@pytest.mark.parametrize("model_type", ["gpt_neox", "opt", "bert", "t5"])
def test_neither_batches_nor_company_matter_to_texts_of_unequal_length(
    checkpoint, texts_file, tokenizer_folder, model_type, tmp_path
):
    ragged = chosen(texts_file, tokenizer_folder, count=8, min_tokens=3, most=40)
    lengths = ragged.tokens.lengths
    assert len(set(lengths)) > 2 and (np.diff(lengths) < 0).any()
    states = extracted(checkpoint(model_type), ragged, tmp_path / "states", first_position=1)
    model = running.load_model(checkpoint(model_type))
    for text in range(len(lengths)):
        alone = samples.Sample(("x",), TokenisedTexts(ragged.tokens[text], np.array([0, lengths[text]])), 0)
        single = extracted(model, alone, tmp_path / "single", first_position=1)
        # Vectors keep the order of texts and places.
        there = slice(*(np.cumsum([0, *(lengths - 1)])[text : text + 2]))
        assert (states.text[there] == text).all()
        np.testing.assert_array_equal(states.position[there], np.arange(1, lengths[text]))
        np.testing.assert_array_equal(states.token[there], ragged.tokens[text][1:])
        for layer in states.layers:
            same(states.arrays[layer][there], single.arrays[layer])


def test_batches_hold_every_text_once_and_one_length_each():
    lengths = np.random.default_rng(0).integers(5, 9, 50)
    groups = running.batches(lengths, 4)
    assert sorted(np.concatenate(groups)) == list(range(50))
    assert all(len(group) <= 4 and len(set(lengths[group])) == 1 for group in groups)
    assert len(groups) == sum(-(-count // 4) for count in np.unique_counts(lengths).counts)
    assert [list(group) for group in running.batches(np.full(5, 7), 2)] == [[0, 1], [2, 3], [4]]


def test_positions_before_the_first_are_left_out(checkpoint, sample, tmp_path):
    whole = extracted(checkpoint("gpt_neox"), sample, tmp_path / "whole")
    rest = extracted(checkpoint("gpt_neox"), sample, tmp_path / "rest", first_position=3)
    kept = whole.position >= 3
    for layer in rest.layers:
        same(whole.arrays[layer][kept], rest.arrays[layer])
    np.testing.assert_array_equal(whole.token[kept], rest.token)
    assert set(rest.position) == set(range(3, LENGTH))


@pytest.mark.parametrize(("precision", "stored"), [("float16", np.float16), ("bfloat16", np.float32)])
def test_lower_precisions_are_near_and_stored_as_narrow_as_numpy_can(checkpoint, sample, precision, stored, tmp_path):
    full = extracted(checkpoint("gpt2"), sample, tmp_path / "full")
    lower = extracted(checkpoint("gpt2"), sample, tmp_path / "lower", precision=precision)
    epsilon = torch.finfo(getattr(torch, precision)).eps
    for layer in full.layers:
        array = lower.arrays[layer]
        assert array.dtype == stored
        assert 0 < np.abs(array - full.arrays[layer]).max() < 40 * epsilon * np.abs(full.arrays[layer]).max()
        # Nothing is lost between the forward pass and the file.
        values = torch.from_numpy(np.array(array))
        assert torch.equal(values.to(getattr(torch, precision)).float(), values.float())
    assert lower.take(lower.layers, np.array([3, 1])).dtype == np.float32


@pytest.fixture
def slow_records(monkeypatch):
    """Progress is recorded after every batch."""
    monkeypatch.setattr(running, "SECONDS_BETWEEN_RECORDS", 0.0)


class Interrupted(Exception):
    pass


def interrupt(model, after):
    """Let a model's forward passes be counted, and break the one that follows `after` others."""
    passes = []

    def count(*_):
        if len(passes) == after:
            raise Interrupted
        passes.append(1)

    return passes, model.register_forward_pre_hook(count)


@pytest.mark.fault(
    "hidden states interrupted", happens="they go on after the last whole batch", do="the same command again"
)
def test_an_interrupted_run_goes_on_after_the_last_whole_batch(
    checkpoint, texts_file, tokenizer_folder, slow_records, tmp_path
):
    ragged = chosen(texts_file, tokenizer_folder, count=25, min_tokens=3, most=40)
    model = running.load_model(checkpoint("gpt2"))
    extracted(model, ragged, tmp_path / "whole")
    part = tmp_path / "part"
    _, hook = interrupt(model, 3)
    with pytest.raises(Interrupted):
        extracted(model, ragged, part)
    hook.remove()
    with pytest.raises(EmbscaleError, match="part: not a file of hidden states"):
        hidden_states.load(part)
    passes, hook = interrupt(model, 1000)
    extracted(model, ragged, part)
    hook.remove()
    assert len(passes) == len(running.batches(ragged.tokens.lengths, 4)) - 3
    assert part.read_bytes() == (tmp_path / "whole").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"part", "whole"}


def small_gpu(model, most):
    """From now on the last block has memory for so many texts."""

    def fill(module, inputs):
        if len(inputs[0]) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")

    return model.h[-1].register_forward_pre_hook(fill)


def test_a_gpu_that_is_too_small_gets_fewer_texts_at_once(checkpoint, texts_file, tokenizer_folder, tmp_path, capsys):
    ragged = chosen(texts_file, tokenizer_folder, count=25, min_tokens=3, most=40)
    model = running.load_model(checkpoint("gpt2"))
    whole = extracted(model, ragged, tmp_path / "whole", batch=9)
    assert "GPU" not in capsys.readouterr().err
    small_gpu(model, 2)
    states = extracted(model, ragged, tmp_path / "part", batch=9)
    said = [line for line in capsys.readouterr().err.splitlines() if "GPU" in line]
    assert said[-1] == "the GPU's memory is too small for 4 texts at once; taking 2" and len(said) == 2
    for layer in whole.layers:
        same(states.arrays[layer], whole.arrays[layer])
    np.testing.assert_array_equal(states.token, whole.token)


@pytest.mark.fault("a GPU too small for one text", happens="one line", do="`--device cpu`, or shorter texts")
def test_a_gpu_that_is_too_small_for_one_text_is_refused_in_a_line(checkpoint, sample, tmp_path):
    model = running.load_model(checkpoint("gpt2"))
    small_gpu(model, 0)
    length = sample.tokens.lengths[0]
    with pytest.raises(EmbscaleError, match=f"too small for one text of {length} tokens; .*--device cpu"):
        extracted(model, sample, tmp_path / "states")


@pytest.mark.parametrize("change", ["batch", "first_position", "metadata", "record", "size"])
def test_what_another_run_has_left_is_begun_anew(checkpoint, sample, slow_records, change, tmp_path):
    model = running.load_model(checkpoint("gpt_neox"))
    options = {"first_position": 0, "batch": 4, "metadata": {"precision": "float32"}}
    part, record = tmp_path / "part", tmp_path / "part.progress"
    _, hook = interrupt(model, 2)
    with pytest.raises(Interrupted):
        running.extract(model, sample, part, **options)
    hook.remove()
    assert json.loads(record.read_text())["batches"] == 2
    if change == "record":
        record.write_text("{")
    elif change == "size":
        part.write_bytes(part.read_bytes()[:-1])
    else:
        options |= {"batch": 3} if change == "batch" else {"first_position": 1} if change == "first_position" else {}
        options |= {"metadata": {"precision": "bfloat16"}} if change == "metadata" else {}
    passes, hook = interrupt(model, 1000)
    running.extract(model, sample, part, **options)
    hook.remove()
    assert len(passes) == len(running.batches(sample.tokens.lengths, options["batch"]))
    running.extract(model, sample, tmp_path / "whole", **options)
    assert part.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.fault("a state that is not finite", happens="one line with layer and text", do="a wider precision")
def test_a_state_that_is_not_finite_is_reported_with_layer_and_text(checkpoint, sample, tmp_path):
    model = running.load_model(checkpoint("gpt_neox"))
    text = 5
    token = next(t for t in sample.tokens[text] if all(t not in sample.tokens[i] for i in range(10) if i != text))
    with torch.no_grad():
        model.embed_in.weight[token] = torch.inf
    with pytest.raises(EmbscaleError, match=rf"^embedding: a value is not finite in text '{sample.text_ids[text]}'"):
        extracted(model, sample, tmp_path / "states")
    model = running.load_model(checkpoint("gpt_neox"))
    with torch.no_grad():
        next(anatomy(model).blocks[1].parameters()).fill_(float("nan"))
    with pytest.raises(EmbscaleError, match=rf"^block 2: a value is not finite in text '{sample.text_ids[0]}'"):
        extracted(model, sample, tmp_path / "states")
    assert list(tmp_path.iterdir()) == []


def test_values_beyond_float16_are_reported_as_such_and_sums_beyond_a_float_are_no_error(checkpoint, sample, tmp_path):
    model = running.load_model(checkpoint("gpt_neox"), precision="float16")
    with torch.no_grad():
        model.embed_in.weight[:] = 60_000  # finite, though their sum is not
        model.layers[0].mlp.dense_4h_to_h.bias[:] = 60_000
    with pytest.raises(EmbscaleError, match=r"^block 1: a value is not finite .*; is it beyond 65504, where float16"):
        extracted(model, sample, tmp_path / "states")


@pytest.mark.fault("a disk too small for the states", happens="one line with both numbers", do="take fewer texts")
def test_a_disk_that_is_too_small_is_reported_with_both_numbers(checkpoint, sample, monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=20_000))
    with pytest.raises(EmbscaleError, match=r"the states take 0\.00 GB, but 0\.00 GB are free"):
        extracted(checkpoint("gpt_neox"), sample, tmp_path / "states")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("a model that memory does not hold", happens="one line with both numbers", do="a larger machine")
def test_a_model_that_memory_does_not_hold_is_refused_with_both_numbers(checkpoint, monkeypatch):
    weights = load_file(checkpoint("gpt2") / "model.safetensors")
    needed = 4 * sum(weight.size for weight in weights.values())
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=needed))
    running.load_model(checkpoint("gpt2"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=needed - 1))
    with pytest.raises(EmbscaleError, match=r"the weights take 0\.00 GB, but 0\.00 GB of memory are free on cpu; take"):
        running.load_model(checkpoint("gpt2"))
    running.load_model(checkpoint("gpt2"), precision="bfloat16")


@pytest.mark.parametrize("installed", [True, False])
def test_weights_are_spread_only_where_one_gpu_is_too_small_and_accelerate_is_there(monkeypatch, tmp_path, installed):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=30))
    monkeypatch.setattr(devices, "claim_free_gpus", lambda: [1, 0])  # of two, where the second was free first
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu=1: (10 + gpu, 80))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if installed else None)
    assert not running._spread_over(tmp_path, 11, "cuda")
    if installed:
        assert running._spread_over(tmp_path, 51, "cuda") == {1: 11, 0: 10, "cpu": 30}
        with pytest.raises(EmbscaleError, match=r"free on cuda; take a smaller model or a lower precision$"):
            running._spread_over(tmp_path, 52, "cuda")
    else:
        with pytest.raises(EmbscaleError, match=r"free on cuda; .*with accelerate installed, weights are spread"):
            running._spread_over(tmp_path, 12, "cuda")


def test_states_in_memory_come_back_from_a_file(tmp_path):
    generator = np.random.default_rng(0)
    arrays = {"embedding": generator.normal(size=(6, 3)).astype(np.float32), "block 1": np.ones((6, 2), np.float16)}
    described = {name: generator.integers(0, 9, 6) for name in ("text", "position", "token")}
    states = hidden_states.HiddenStates(arrays=arrays, **described, metadata={"text_ids": ["ü", "b"]})
    hidden_states.save(tmp_path / "states", states)
    loaded = hidden_states.load(tmp_path / "states")
    assert loaded.layers == states.layers and loaded.metadata == states.metadata
    for layer, array in arrays.items():
        assert isinstance(loaded.arrays[layer], np.memmap) and loaded.arrays[layer].dtype == array.dtype
        np.testing.assert_array_equal(loaded.arrays[layer], array)
    for name, array in described.items():
        np.testing.assert_array_equal(getattr(loaded, name), array)


FLAGS = {"text-split": "heldout", "texts-count": 5, "min-tokens": LENGTH, "tokens": LENGTH, "first-position": 1}
FLAGS |= {"batch": 2, "precision": "float32", "device": "cpu", "storage-gb": 0.1, "texts-seed": 0}


def command(folder, texts_file, path, **changes):
    """Arguments of the command."""
    flags = [part for name, value in (FLAGS | changes).items() for part in (f"--{name}", str(value))]
    return [str(folder), "--tokenizer", str(folder), "--texts", str(texts_file), *flags, "-o", str(path)]


def test_the_command_writes_what_can_be_read_and_a_damaged_file_is_reported(checkpoint, texts_file, tmp_path, capsys):
    path = tmp_path / "states.safetensors"
    assert execute("states", command(checkpoint("gpt_neox"), texts_file, path)) == 0
    states = hidden_states.load(path)
    assert {array.shape for array in states.arrays.values()} == {(5 * 11, 16)}
    assert states.layers == ("embedding", "block 1", "block 2", "final norm")
    size = path.stat().st_size
    short = states.metadata["texts_too_short"]
    assert f"4 layers x 55 vectors take {size / 1e9:.3f} GB; {short} texts were too short" in capsys.readouterr().err
    # The format's own library reads the file, too; no text is in it.
    np.testing.assert_array_equal(load_file(path)["layer.block 1"], states.arrays["block 1"])
    rows = [json.loads(line) for line in texts_file.read_text().splitlines()]
    content = path.read_bytes()
    assert not any(row["text"].encode() in content for row in rows)
    assert set(states.metadata["text_ids"]) <= {row["_id"] for row in rows}
    note = read_note(note_path(path))
    assert note["facts"] == {"device": "cpu", "bytes": size, "texts_too_short": short}
    assert note["params"]["precision"] == "float32" and note["params"]["storage_gb"] == 0.1
    assert {found.name for found in tmp_path.iterdir()} == {path.name, f"{path.name}.note.json"}
    path.write_bytes(content[:-5])
    with pytest.raises(EmbscaleError, match="not a file of hidden states"):
        hidden_states.load(path)


def test_states_over_the_budget_are_refused_with_both_numbers_before_weights_are_read(
    checkpoint, texts_file, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(running, "load_model", lambda *_, **__: pytest.fail("weights were read"))
    arguments = command(checkpoint("gpt_neox"), texts_file, tmp_path / "states", **{"storage-gb": 0.000001})
    assert execute("states", arguments) == 1
    err = capsys.readouterr().err
    assert "the states take 0.000 GB; --storage-gb allows 1e-06" in err
    assert list(tmp_path.iterdir()) == []


def test_the_command_takes_up_its_own_unfinished_file_and_removes_that_of_other_runs(
    checkpoint, texts_file, tmp_path, monkeypatch, slow_records
):
    path = tmp_path / "states.safetensors"
    load_model = running.load_model

    def broken(*args, **kwargs):
        model = load_model(*args, **kwargs)
        interrupt(model, 1)
        return model

    counted = []

    def counting(*args, **kwargs):
        model = load_model(*args, **kwargs)
        counted.append(interrupt(model, 1000)[0])
        return model

    monkeypatch.setattr(running, "load_model", broken)
    for seed in (1, 0):
        assert execute("states", command(checkpoint("gpt_neox"), texts_file, path, **{"texts-seed": seed})) == 1
        assert len(list(tmp_path.iterdir())) == 2  # one unfinished file and its record
    monkeypatch.setattr(running, "load_model", counting)
    assert execute("states", command(checkpoint("gpt_neox"), texts_file, path)) == 0
    assert len(counted[0]) == 2  # of three batches
    whole = tmp_path / "whole.safetensors"
    assert execute("states", command(checkpoint("gpt_neox"), texts_file, whole)) == 0
    assert path.read_bytes() == whole.read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_an_unknown_family_is_reported_how_to_be_added():
    with pytest.raises(EmbscaleError, match=r"'mamba': unknown family; .* add the names of its parts to FAMILIES"):
        input_table_names("mamba")
    assert all(output_table_names(model_type) for model_type in FAMILIES)


@pytest.mark.parametrize("model_type", ["gpt_neox", "t5"])
def test_untied_output_tables_are_found_by_their_names(checkpoint, model_type):
    (ending,) = output_table_names(model_type)
    names = load_file(checkpoint(model_type) / "model.safetensors").keys()
    assert any(f".{name}".endswith(f".{ending}") for name in names) == (model_type == "gpt_neox")


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_a_skeleton_has_the_size_and_the_layers_of_the_model(checkpoint, model_type):
    empty, model = running.skeleton(checkpoint(model_type)), running.load_model(checkpoint(model_type))
    assert {weight.device.type for weight in empty.parameters()} == {"meta"}
    assert sum(w.numel() for w in empty.parameters()) == sum(w.numel() for w in model.parameters())
    assert running.layer_widths(anatomy(empty)) == running.layer_widths(anatomy(model))
    assert type(empty).__name__ == type(model).__name__ and family(model_type).model_class in (
        "AutoModel",
        "T5EncoderModel",
    )


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


@pytest.mark.fault(
    "a checkpoint without one of its weights", happens="one line; nothing random in its place", do="fetch it again"
)
def test_a_missing_weight_is_an_error_and_not_random(damaged):
    folder = damaged(lambda loaded: loaded.pop("gpt_neox.layers.1.mlp.dense_h_to_4h.weight"))
    with pytest.raises(EmbscaleError, match=r"1 weights are missing, layers\.1\.mlp\.dense_h_to_4h\.weight first"):
        running.load_model(folder)


@pytest.mark.fault("a truncated checkpoint", happens="one line names it", do="fetch it again")
def test_a_truncated_checkpoint_is_named(damaged):
    folder = damaged(lambda loaded: None)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(EmbscaleError, match="damaged: not a checkpoint that transformers can load"):
        running.load_model(folder)


@pytest.mark.fault(
    "a tokenizer of another model, or texts longer than the model reads",
    happens="one line",
    do="the model's own tokenizer, or fewer tokens",
)
def test_a_foreign_tokenizer_and_overlong_texts_are_refused(checkpoint, sample, tmp_path):
    folder = checkpoint("gpt2")
    foreign = dataclasses.replace(sample, tokens=TokenisedTexts(sample.tokens.ids + 300, sample.tokens.offsets))
    with pytest.raises(EmbscaleError, match="beyond the table's 300 rows"):
        extracted(folder, foreign, tmp_path / "states")
    for model_type in ("gpt2", "gemma3"):
        long = samples.Sample(("x",), TokenisedTexts(np.ones(65, np.int32), np.array([0, 65])), 0)
        with pytest.raises(EmbscaleError, match="65 tokens asked for, but the model has 64 positions"):
            extracted(checkpoint(model_type), long, tmp_path / "states")
    with pytest.raises(EmbscaleError, match="nothing is left of a text of 12 tokens"):
        extracted(folder, sample, tmp_path / "states", first_position=12)
    assert list(tmp_path.iterdir()) == []
