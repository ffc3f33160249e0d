"""What the hub has no longer when it is asked for the commits of a study."""

from pathlib import Path

import pytest
import yaml

from embscale.checkpoints import suites
from embscale.cli import execute

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def study(hub, tmp_path):
    """A suite of four models of the registry, of which the hub has those that are named; its study and its pins."""

    def make(*there, gated=()):
        block = yaml.safe_load((ROOT / "workflow/suites.yaml").read_text("utf-8"))["opt"]
        names = ("opt-125m", "opt-350m", "opt-1.3b", "opt-2.7b")
        block |= {"models": {name: block["models"][name] for name in names}, "repo": f"{tmp_path.name}/{{model}}"}
        block["tokenizer"]["repo"] = f"{tmp_path.name}/opt-125m"
        (tmp_path / "suites.yaml").write_text(yaml.safe_dump({"opt": block}))
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files/config.json").write_text("{}")
        for name in there:
            hub.add(f"{tmp_path.name}/{name}", tmp_path / "files", gated=name in gated)
        overlay = {
            "study": "pinned",
            "suites": ["opt"],
            "hub": {"registry": str(tmp_path / "suites.yaml"), "pins": str(tmp_path / "pins.yaml")},
        }
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(overlay))
        return [str(tmp_path / "study.yaml"), "--params", str(ROOT / "params.yaml")], tmp_path / "pins.yaml"

    return make


def planned(pins):
    registry = suites.load(pins.parent / "suites.yaml", pins)
    limits = dict.fromkeys(("max_table_gb", "max_checkpoint_gb", "max_download_gb"), 1e6)
    items = suites.plan(registry, ["opt"], layer_suites=[], local_paths={}, token=False, **limits)
    return {item.checkpoint.model: item.status for item in items}


def test_a_model_that_vanished_from_the_middle_of_a_suite_is_left_out_by_name(study, tmp_path, capsys):
    gone = f"{tmp_path.name}/opt-1.3b@main"
    arguments, pins = study("opt-125m", "opt-350m", "opt-2.7b")
    assert execute("pin", arguments) == 0
    told = capsys.readouterr().err
    assert f"embscale pin: {gone}: no such repository" in told
    assert told.splitlines()[-1].endswith(f"the hub has them no longer: {gone}")
    assert planned(pins) == dict.fromkeys(("opt-125m", "opt-350m", "opt-2.7b"), "fetch") | {"opt-1.3b": "missing"}

    # It is asked for again on request alone; then it is back.
    study("opt-1.3b")
    assert execute("pin", arguments) == 0 and planned(pins)["opt-1.3b"] == "missing"
    assert execute("pin", [*arguments, "--again"]) == 0 and planned(pins)["opt-1.3b"] == "fetch"


def test_a_hub_that_does_not_answer_says_nothing_of_what_it_has(study, hub, tmp_path, capsys):
    arguments, pins = study("opt-125m", "opt-350m", "opt-1.3b", "opt-2.7b")
    hub.fault(f"{tmp_path.name}/opt-350m", status=400)
    assert execute("pin", arguments) == 1
    assert f"1 revisions could not be pinned: {tmp_path.name}/opt-350m@main" in capsys.readouterr().err
    assert planned(pins)["opt-350m"] == "unpinned" and planned(pins)["opt-2.7b"] == "fetch"
