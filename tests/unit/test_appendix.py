"""What stands behind the report's text: settings, what was not run, the data dictionary."""

import json
from pathlib import Path

import pandas as pd
import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.report import appendix

README = "# W\n\n## Results\n\ntext\n\n## Columns of `scores.csv`\n\n| column | means |\n|---|---|\n| `a`, `b` | x |\n"
INVENTORY = pd.DataFrame({
    "model": ["gpt*", "opt"], "checkpoint": ["main", "main"], "status": ["gated", "fetch"], "reason": ["closed", ""]
})  # fmt: skip
NOT_RUN = "published models not run"
LEFT_OUT = {"ladder-w64-seed2": "diverged at step 812"}
CLAIMS = pd.DataFrame({
    "claim": ["C1", "C2", "C3", "C4"], "verdict": [NOT_RUN, NOT_RUN, "reproduced", "not testable"],
    "published_detail": ["no x", "no x", None, "no y"], "analogue": ["holds", "not testable", "see C1", "fails"],
    "detail": [None, "one width", None, "of two parts"],
})  # fmt: skip


def test_settings_are_those_of_the_notes():
    notes = [
        {
            "command": "train",
            "params": {"steps": 400, "free_table": True, "device": "auto", "note": None, "tables": ["a"]},
            "facts": {"device": "cpu", "loss": 1.0},
        },
        {"command": "score", "params": {"dims": list(range(20)), "of": {"numpy": "2.0"}, "sha": "ab" * 32, "x": []}},
    ]
    lines = appendix.settings_table(notes).splitlines()
    assert lines[2] == "| `train` | steps: 400; free table: yes; device: cpu |"
    assert lines[3] == "| `score` | dims: 0 … 19 (20); of: numpy 2.0; sha: abababababab; x: none |"


def test_what_was_not_run_has_its_reason():
    figures = {"seen": "![](a.svg)", "lost": "There is\nnone.\n<details>source"}
    lines = appendix.not_run_table(INVENTORY, [CLAIMS], figures, 0, LEFT_OUT).splitlines()[2:]
    assert lines == [
        r"| gpt\*, main | closed |",
        "| training run ladder-w64-seed2 | diverged at step 812 |",
        "| tasks of other kinds than retrieval | none is named in the study's parameters |",
        "| figure lost | There is none. |",
        "| claims C1, C2, asked of published models | no x |",
        "| claims C4, asked of published models | no y |",
        "| claims C2, asked of the ladder | one width |",
    ]


def test_nothing_left_out_is_said_too():
    told = appendix.not_run_table(INVENTORY[1:], [CLAIMS[2:3]], {"seen": "![](a.svg)"}, 1, {})
    assert told == "Everything was run.\n"


def test_the_dictionary_is_a_part_of_the_page_and_describes_every_column():
    text = appendix.dictionary(README, {"scores.csv": pd.DataFrame(columns=["b", "a"])})
    assert text.startswith("### Results") and "### Columns of `scores.csv`" in text
    with pytest.raises(EmbscaleError, match=r"column 'c' of scores.csv is not described"):
        appendix.dictionary(README, {"scores.csv": pd.DataFrame(columns=["a", "c"])})
    with pytest.raises(EmbscaleError, match=r'no heading "Columns of `probes.csv`"'):
        appendix.dictionary(README, {"probes.csv": pd.DataFrame()})
    with pytest.raises(EmbscaleError, match="no heading '## Results'"):
        appendix.dictionary("# W", {})


def test_the_workflow_s_own_text_has_the_sections():
    text = (Path(__file__).resolve().parents[2] / "workflow/README.md").read_text("utf-8")
    assert {"value", "n"} <= appendix.described(text, "scores.csv")
    assert {"value", "n_layers"} <= appendix.described(text, "probes/MODEL.csv")


def test_the_command_writes_all_three(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = {"command": "probe", "params": {}, "outputs": {"made.csv": "0" * 64}}
    Path("made.csv.note.json").write_text(json.dumps(made), "utf-8")
    INVENTORY.to_csv("inventory.csv")
    CLAIMS.to_csv("claims.csv")
    columns = "\n\n## Columns of `probes/MODEL.csv`\n\n| column | means |\n|---|---|\n| `p` | x |\n"
    Path("README.md").write_text(README + columns, "utf-8")
    Path("fig.md").write_text("![](a.svg)", "utf-8")
    pd.DataFrame({"a": [1]}).to_csv("scores.csv", index=False)
    pd.DataFrame({"p": [1]}).to_csv("probes.csv", index=False)
    flags = "--notes made.csv.note.json --inventory inventory.csv --claims claims.csv --partials fig.md"
    flags += " --readme README.md"
    assert (
        execute("appendix", [*flags.split(), "--scores", "scores.csv", "--probes", "probes.csv", "--tables", "t"]) == 0
    )
    assert "`probe`" in Path("t/settings.md").read_text("utf-8")
    note = json.loads(Path("t/settings.md.note.json").read_text("utf-8"))
    assert set(note["outputs"]) == {"t/settings.md", "t/not_run.md", "t/dictionary.md"}
