"""Code that comes with a checkpoint is never run, and nobody is asked whether to run it."""

import ast
import builtins
import json
import shutil

import pytest

import sources
from embscale.errors import EmbscaleError
from embscale.layers import running

# Methods of transformers that run code of a checkpoint on request.  `datasets` runs none since version 4.
LOADERS = {"from_pretrained", "from_config"}


def calls():
    """Each call of a loader of the package and the workflow: where it is, and its keywords."""
    for folder in ("src", "workflow"):
        for path in sorted((sources.ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in LOADERS:
                    keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
                    yield f"{path.relative_to(sources.ROOT)}:{node.lineno}", keywords


def test_every_loader_is_told_to_run_no_code_of_the_checkpoint():
    found = list(calls())
    assert len(found) >= 4
    assert [where for where, keywords in found if keywords.get("trust_remote_code") != "False"] == []


def test_data_sets_are_loaded_by_a_version_without_loading_scripts():
    import datasets

    assert int(datasets.__version__.partition(".")[0]) >= 4


@pytest.mark.fault("a checkpoint with Python code beside it", happens="it is neither run nor asked for", do="nothing")
@pytest.mark.parametrize("model_type", ["gpt2", "foreign", None])
def test_code_of_a_checkpoint_is_neither_run_nor_asked_for(checkpoint, tmp_path, monkeypatch, model_type):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("gpt2"), folder)
    marks = tmp_path / "was_run"
    (folder / "foreign.py").write_text(f"open({str(marks)!r}, 'w')\nclass Config: pass\nclass Model: pass\n")
    config = json.loads((folder / "config.json").read_text()) | {"model_type": model_type}
    config["auto_map"] = {"AutoConfig": "foreign.Config", "AutoModel": "foreign.Model", "AutoTokenizer": "foreign.T"}
    (folder / "config.json").write_text(json.dumps(config))

    def asked(*words):
        pytest.fail(f"asked: {words}")

    monkeypatch.setattr(builtins, "input", asked)
    if model_type == "gpt2":
        running.load_model(folder)
    else:
        with pytest.raises(EmbscaleError, match="not a checkpoint that transformers can load"):
            running.load_model(folder)
    assert not marks.exists()
