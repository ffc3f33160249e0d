"""The extracted table is the model's own, in every family; damaged checkpoints are told."""

import hashlib
import json
import shutil
import zlib

import numpy as np
import pytest

from embscale.checkpoints import weights
from embscale.checkpoints.containers import StoredTensor
from embscale.checkpoints.ranges import LocalFolder, open_file, package_folder
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import note_path, read_note
from embscale.tables import extraction, table_files

FAMILIES = ["gpt_neox", "gpt2", "llama", "qwen2", "opt", "bloom", "t5"]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_the_table_is_what_the_model_looks_up(checkpoint, model_type, tmp_path):
    import transformers

    folder = checkpoint(model_type)
    auto = transformers.AutoModelForSeq2SeqLM if model_type == "t5" else transformers.AutoModelForCausalLM
    expected = auto.from_pretrained(folder, local_files_only=True).get_input_embeddings().weight.detach().numpy()
    path = tmp_path / "table.safetensors"
    assert execute("extract", [str(folder), "-o", str(path)]) == 0
    assert np.array_equal(table_files.load(path), expected)


def locate(folder):
    source = LocalFolder(folder)
    return extraction.locate(source, weights.read_config(source), "input")


@pytest.fixture
def broken(checkpoint, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(checkpoint("gpt_neox"), folder)
    return folder


def test_a_truncated_checkpoint_is_reported(broken):
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(EmbscaleError, match=r"model\.safetensors: "):
        locate(broken)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "unheard_of"}, "unknown family"),
        ({"model_type": "gpt2"}, r"no tensor's name ends with wte\.weight"),
        ({"vocab_size": 400}, r"the shape \(300, 16\), but config\.json promises 400 rows"),
    ],
)
def test_a_config_that_does_not_fit_is_reported(broken, changes, message):
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(EmbscaleError, match=message):
        locate(broken)


def test_missing_files_are_reported(broken):
    (broken / "model.safetensors").unlink()
    with pytest.raises(EmbscaleError, match=r"holds none of model\.safetensors"):
        locate(broken)
    (broken / "config.json").write_text("{")
    with pytest.raises(EmbscaleError, match=r"config\.json: not JSON"):
        locate(broken)
    (broken / "config.json").unlink()
    with pytest.raises(EmbscaleError, match=r"config\.json: no such file"):
        locate(broken)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_table_is_read_as_torch_reads_it(dtype, tmp_path):
    import torch
    from safetensors.torch import save_file

    stored = torch.randn(7, 3, generator=torch.Generator().manual_seed(1)).to(getattr(torch, dtype))
    save_file({table_files.TENSOR: stored}, tmp_path / "t.safetensors")
    assert np.array_equal(table_files.load(tmp_path / "t.safetensors"), stored.float().numpy())


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 10, extraction.PIECE, 2 * extraction.PIECE + 10])
def test_the_beginning_of_an_interrupted_run_is_kept(size, tmp_path):
    """Whatever an interrupted run has left, the result has the same bytes and only the rest is fetched."""
    rows = 3 * extraction.PIECE // 64 + 5
    table = np.random.default_rng(0).random((rows, 16), dtype=np.float32)
    source = CountingSource(table.tobytes())
    tensor = StoredTensor("wte.weight", "F32", table.shape, 0, table.nbytes, zlib.crc32(table.tobytes()))
    part = tmp_path / "part"
    header = table_files.header("F32", table.shape, {"commit": "a"})
    part.write_bytes(header + table.tobytes()[:size])
    whole = [table.tobytes()[i * extraction.PIECE :][: extraction.PIECE] for i in range(size // extraction.PIECE)]
    extraction.digests_of(part).write_text("".join(f"{hashlib.sha256(piece).hexdigest()}\n" for piece in whole))
    extraction.stream(source, weights.Location("f", tensor), part, {"commit": "a"})
    assert np.array_equal(table_files.load(part), table)
    assert source.fetched == table.nbytes - size // extraction.PIECE * extraction.PIECE


@pytest.mark.parametrize("damage", ["zeros at the end", "one byte", "no digests", "digests of others", "a torn digest"])
def test_what_was_left_is_trusted_by_its_digests_and_not_by_its_size(damage, tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "PIECE", 1000)
    table = np.random.default_rng(0).random((100, 16), dtype=np.float32)
    tensor = StoredTensor("wte.weight", "F32", table.shape, 0, table.nbytes, None)
    part, header = tmp_path / "part", table_files.header("F32", table.shape, {})
    extraction.stream(CountingSource(table.tobytes()), weights.Location("f", tensor), part, {})
    left, noted = bytearray(part.read_bytes()[: len(header) + 3000]), extraction.digests_of(part)
    lines = noted.read_text().splitlines(keepends=True)[:3]
    noted.write_text("".join(lines))
    if damage == "zeros at the end":
        left = left[: len(header) + 2000] + bytes(table.nbytes - 2000)
    elif damage == "one byte":
        left[len(header) + 2500] ^= 1
    elif damage == "no digests":
        noted.unlink()
    elif damage == "digests of others":
        noted.write_text("".join(reversed(lines)))
    else:
        noted.write_text("".join(lines[:2]) + lines[2][:30])
    part.write_bytes(left)
    source = CountingSource(table.tobytes())
    extraction.stream(source, weights.Location("f", tensor), part, {})
    assert np.array_equal(table_files.load(part), table)
    kept = 0 if damage in ("no digests", "digests of others") else 2000
    assert source.fetched == table.nbytes - kept


def test_what_an_interrupted_run_left_of_another_commit_is_not_used(tmp_path):
    table = np.ones((4, 4), np.float32)
    source = CountingSource(table.tobytes())
    tensor = StoredTensor("wte.weight", "F32", table.shape, 0, table.nbytes, None)
    part = tmp_path / "part"
    part.write_bytes(table_files.header("F32", table.shape, {"commit": "b"}) + bytes(table.nbytes))
    extraction.stream(source, weights.Location("f", tensor), part, {"commit": "a"})
    assert np.array_equal(table_files.load(part), table)


def test_bytes_that_do_not_fit_the_checksum_are_removed(tmp_path):
    table = np.ones((4, 4), np.float32)
    tensor = StoredTensor("wte.weight", "F32", table.shape, 0, table.nbytes, 1)
    with pytest.raises(EmbscaleError, match="checksum"):
        extraction.stream(CountingSource(table.tobytes()), weights.Location("f", tensor), tmp_path / "part", {})
    assert not (tmp_path / "part").exists()


class CountingSource:
    """A file in memory that counts what is read of it."""

    def __init__(self, content):
        self.content = content
        self.fetched = 0

    def files(self):
        return {"f": len(self.content)}

    def fetch(self, name, start, end):
        self.fetched += end - start
        return self.content[start:end]

    def label(self, name):
        return name


def test_a_file_read_by_blocks_is_the_file(tmp_path):
    content = np.random.default_rng(0).bytes(700_000)
    (tmp_path / "f").write_bytes(content)
    with open_file(LocalFolder(tmp_path), "f") as file:
        assert file.read(10) == content[:10]
        file.seek(-5, 2)
        assert file.read() == content[-5:]
        file.seek(262_140)
        assert file.read(300_000) == content[262_140:562_140]
    with pytest.raises(EmbscaleError, match="no such file; it holds f"):
        open_file(LocalFolder(tmp_path), "g")


def test_a_checkpoint_in_an_installed_package_is_found(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "weights_in_a_package").mkdir()
    (tmp_path / "weights_in_a_package" / "__init__.py").touch()
    shutil.copytree(checkpoint("gpt2"), tmp_path / "weights_in_a_package" / "model")
    monkeypatch.syspath_prepend(str(tmp_path))
    outputs = [tmp_path / name for name in ("a.safetensors", "b.safetensors")]
    assert execute("extract", ["package:weights_in_a_package/model", "-o", str(outputs[0])]) == 0
    assert execute("extract", [str(checkpoint("gpt2")), "-o", str(outputs[1])]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert table_files.which(outputs[0]) == table_files.INPUT
    with pytest.raises(EmbscaleError, match="no package no_such_package is installed"):
        package_folder("no_such_package/model")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.zeros((300, 16), np.float32), "every value is zero"),
        (np.full((300, 16), np.nan, np.float32), "300 of 300 rows hold values that are not finite numbers"),
    ],
)
def test_a_table_that_cannot_be_right_is_reported(broken, table, words, tmp_path, capsys):
    from safetensors.numpy import save_file

    save_file({"gpt_neox.embed_in.weight": table}, broken / "model.safetensors")
    output = tmp_path / "t.safetensors"
    assert execute("extract", [str(broken), "-o", str(output)]) == 0
    assert f"warning: {output}: {words}" in capsys.readouterr().err
    facts = read_note(note_path(output))["facts"]
    assert (facts["rows_zero"], facts["rows_not_finite"]) in [(300, 0), (0, 300)]


def test_a_table_that_is_too_large_is_refused_with_its_size(checkpoint, tmp_path, capsys):
    output = tmp_path / "t.safetensors"
    assert execute("extract", [str(checkpoint("gpt2")), "--max-table-gb", "0.00001", "-o", str(output)]) == 1
    assert "the table has 0.00 GB; --max-table-gb allows 1e-05" in capsys.readouterr().err
    assert not output.exists()
