"""Pins: the commit of every revision of one study, or of all, and what is missing."""

import shutil

import pytest
import yaml

from embscale.checkpoints import suites
from embscale.cli import execute
from sources import ROOT

BLOCK = {
    "title": "Mine", "family": "gpt2", "gated": False, "access": "open", "tied": True, "dtype": "F32",
    "licence": {"name": "MIT", "url": "https://example.org/licence", "redistributable": True},
    "tokenizer": {"name": "mine", "repo": "pinned/tokenizer"}, "revision": "main", "source": "a test", "sure": "read",
}  # fmt: skip
MODELS = {"a": {"one": "pinned/one"}, "b": {"one": "pinned/one", "two": "pinned/two"}, "c": {"gone": "pinned/gone"}}


@pytest.fixture
def studies(tmp_path, monkeypatch, hub):
    """A folder with a registry of three suites and a study of each of two; of the hub, all but the third's model."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "file.txt").write_text("words")
    for name in ("tokenizer", "one", "two"):
        hub.add(f"pinned/{name}", folder)
    registry = {
        suite: BLOCK | {"models": {model: {"repo": repo, "shape": [4, 2]} for model, repo in models.items()}}
        for suite, models in MODELS.items()
    }
    (tmp_path / "suites.yaml").write_text(yaml.safe_dump(registry))
    (tmp_path / "studies").mkdir()
    for suite in ("a", "b"):
        write(tmp_path, suite)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, suite):
    hub = {"registry": "suites.yaml", "pins": "pins.yaml"}
    (folder / f"studies/{suite}.yaml").write_text(yaml.safe_dump({"study": suite, "suites": [suite], "hub": hub}))


def pinned(folder):
    return set(suites.read_pins(folder / "pins.yaml"))


def test_one_study_is_pinned_alone(studies, capsys):
    assert execute("pin", ["studies/a.yaml"]) == 0
    assert pinned(studies) == {"pinned/one@main", "pinned/tokenizer@main"}
    assert "pins.yaml: 2 of 2 revisions are pinned" in capsys.readouterr().err


def test_all_studies_are_pinned_in_one_go_and_each_revision_is_asked_for_once(studies, hub, capsys):
    hub.requests.clear()
    assert execute("pin", ["--all"]) == 0
    assert pinned(studies) == {"pinned/one@main", "pinned/two@main", "pinned/tokenizer@main"}
    assert len(hub.matching("pinned/one")) == 1
    assert "3 of 3 revisions are pinned" in capsys.readouterr().err
    hub.requests.clear()
    assert execute("pin", ["--all"]) == 0 and not hub.requests
    assert execute("pin", ["--all", "--again"]) == 0 and len(hub.requests) == 3


def test_what_is_missing_is_said_and_the_others_are_pinned(studies, capsys):
    write(studies, "c")
    assert execute("pin", ["--all"]) == 0
    said = capsys.readouterr().err
    assert "pins.yaml: 3 of 4 revisions are pinned" in said
    assert "left out, as the hub has them no longer: pinned/gone@main" in said
    pins = suites.read_pins(studies / "pins.yaml")
    assert [key for key, pin in pins.items() if not pin["commit"]] == ["pinned/gone@main"]


def test_a_study_beside_all_or_an_empty_folder_is_refused(studies, capsys):
    assert execute("pin", ["studies/a.yaml", "--all"]) == 1
    assert "drop the study, or --all" in capsys.readouterr().err
    assert execute("pin", ["--all", "repository"]) == 1
    assert "no overlay in repository" in capsys.readouterr().err
    assert not pinned(studies)


def test_every_study_of_the_repository_can_be_read(monkeypatch):
    """As `embscale pin --all` reads them; what they name is in the registry."""
    from types import SimpleNamespace

    from embscale.cli.plan import read_study

    monkeypatch.chdir(ROOT)
    overlays = sorted((ROOT / "studies").glob("*.yaml"))
    assert len(overlays) > 5
    for overlay in overlays:
        suites.revisions(read_study(SimpleNamespace(params=ROOT / "params.yaml", study=[overlay])))
