"""The extracted table is the model's own, in every family; damaged checkpoints are told."""

import json
import shutil

import numpy as np
import pytest

from embscale import checkpoints, tables
from embscale.cli import execute
from embscale.errors import EmbscaleError

FAMILIES = ["gpt_neox", "gpt2", "llama", "qwen2", "opt", "bloom", "t5"]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_the_table_is_what_the_model_looks_up(checkpoint, model_type, tmp_path):
    import transformers

    folder = checkpoint(model_type)
    auto = transformers.AutoModelForSeq2SeqLM if model_type == "t5" else transformers.AutoModelForCausalLM
    expected = auto.from_pretrained(folder, local_files_only=True).get_input_embeddings().weight.detach().numpy()
    path = tmp_path / "table.safetensors"
    assert execute("extract", [str(folder), "-o", str(path)]) == 0
    assert np.array_equal(tables.load(path), expected)


@pytest.fixture
def broken(checkpoint, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(checkpoint("gpt_neox"), folder)
    return folder


def test_a_truncated_checkpoint_is_told(broken):
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(EmbscaleError, match=r"model\.safetensors: not a whole safetensors file"):
        checkpoints.input_table(broken)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "unheard_of"}, "unknown family"),
        ({"model_type": "gpt2"}, r"no single tensor ends with wte\.weight"),
        ({"vocab_size": 7}, r"300 rows, but config\.json says 7"),
    ],
)
def test_a_config_that_does_not_fit_is_told(broken, changes, message):
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(EmbscaleError, match=message):
        checkpoints.input_table(broken)


def test_missing_files_are_told(broken):
    (broken / "model.safetensors").unlink()
    with pytest.raises(EmbscaleError, match=r"model\.safetensors: no such file"):
        checkpoints.input_table(broken)
    (broken / "config.json").write_text("{")
    with pytest.raises(EmbscaleError, match=r"config\.json: not JSON"):
        checkpoints.input_table(broken)
    (broken / "config.json").unlink()
    with pytest.raises(EmbscaleError, match=r"config\.json: no such file"):
        checkpoints.input_table(broken)
