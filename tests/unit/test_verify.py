"""`make verify`, from a change planted in what is computed again to its word, its files and its exit status."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import verify
from embscale.provenance.artifacts import file_sha256

PIPELINE = """
stages:
  training:
    outs: ["results/${study}/ladder": {persist: true}, "results/${study}/tables": {persist: true}]
  claims:
    outs: ["results/${study}/claims.csv": {persist: true}]
"""
RECORD = {
    "ladder/costs.csv": "suite,width,runs,tokens,seconds\nladder,16,3,1000,12.5\n",
    "ladder/curves.csv": "model,step,value,ci_low,ci_high\nw16,4,0.5,0.4,0.6\n",
    "claims.csv": "claim,verdict,effect\nC1,holds,0.5\n",
    "tables/w16.safetensors": "numbers",
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        note = {"command": "made", "outputs": {name: file_sha256(path)}, "inputs": {}, "sources": {}}
        path.with_name(path.name + ".note.json").write_text(json.dumps(note), "utf-8")


@pytest.fixture
def again(tmp_path, monkeypatch):
    """Verify the record where computing gives the recorded files, but for these."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    Path("params.yaml").write_text("study: desk\n")
    Path("dvc.yaml").write_text(PIPELINE)
    recorded = Path("results/desk")
    write(recorded, RECORD)

    def run(changed, *arguments, only=tuple(RECORD)):
        def compute(folder, study, targets, seconds):
            shutil.rmtree(folder / recorded, ignore_errors=True)
            write(folder / recorded, {name: changed.get(name, RECORD[name]) for name in only})
            return True

        monkeypatch.setattr(verify, "compute", compute)
        monkeypatch.setattr("sys.argv", ["verify.py", *arguments])
        status = verify.main()
        return status, json.loads(Path("results/verify/desk/verified.json").read_text())

    return run


@pytest.mark.fault(
    "a record that cannot be computed again",
    happens="`make verify` says which value or verdict, and ends with 1",
    do="record again, or find the cause",
)
@pytest.mark.parametrize(
    ("changed", "word", "status"),
    [
        ({}, "bytes equal", 0),
        ({"ladder/costs.csv": RECORD["ladder/costs.csv"].replace("12.5", "99.0")}, "values within tolerance", 0),
        ({"ladder/curves.csv": RECORD["ladder/curves.csv"].replace("0.5", "0.55")}, "values within tolerance", 0),
        ({"tables/w16.safetensors": "other"}, "other bytes, no values to compare", 0),
        ({"ladder/costs.csv": RECORD["ladder/costs.csv"].replace("1000", "1001")}, "value off", 1),
        ({"ladder/curves.csv": RECORD["ladder/curves.csv"].replace("0.5", "0.65")}, "value off", 1),
        ({"ladder/curves.csv": RECORD["ladder/curves.csv"].replace("w16", "w32")}, "value off", 1),
        ({"claims.csv": RECORD["claims.csv"].replace("holds", "fails")}, "verdict changed", 1),
    ],
)
def test_a_planted_change_has_its_word_and_its_exit_status(again, capsys, changed, word, status):
    found_status, found = again(changed)
    assert found_status == status and found["reproduced"] == (status == 0)
    counts = {
        name: sum(chapter[name] for chapter in found["by_chapter"].values()) for name in verify.verification.WORDS
    }
    assert counts.pop("bytes equal") == len(RECORD) - bool(changed)
    assert {name for name, count in counts.items() if count} == ({word} if changed else set())
    told = capsys.readouterr().out
    assert ("\nreproduced: " in told) == (status == 0) and ("\nnot reproduced: " in told) == (status == 1)
    badge = Path("results/verify/desk/badge.svg").read_text()
    assert f"{found['processor']}, {found['date']}, half an interval, or 5 %" in badge
    assert ("not reproduced" in badge) == (status == 1)


@pytest.mark.fault(
    "nothing to compare with a record", happens="`make verify` calls it not reproduced", do="take a chapter with rows"
)
def test_tensors_of_other_bytes_alone_are_no_reproduction(again, capsys):
    status, found = again({"tables/w16.safetensors": "other"}, "--chapter", "training", only=["tables/w16.safetensors"])
    assert status == 1 and not found["reproduced"] and (found["outputs"], found["compared"]) == (1, 0)
    assert "not reproduced: 0 of 1 outputs of desk compared" in capsys.readouterr().out


def test_random_jobs_begin_with_those_that_no_earlier_call_computed(again, monkeypatch):
    again({}, only=["claims.csv", "ladder/costs.csv"])
    asked = []
    monkeypatch.setattr("sys.argv", ["verify.py", "--minutes", "1", "--seed", "1"])
    monkeypatch.setattr(verify, "compute", lambda folder, study, targets, seconds: asked.extend(targets) or True)
    verify.main()
    assert {Path(name).name for name in asked[:2]} == {"curves.csv", "w16.safetensors"}
    assert [Path(name).name for name in asked[2:]] == ["costs.csv"]
