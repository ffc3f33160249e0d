"""Snakemake's records in one file for each study: packed, unpacked, and gone as soon as they are outdated."""

import json
import lzma

import pytest

import memory
from embscale.provenance.snakemake_metadata import METADATA, output_of, record_path

LONG = "results/desk/" + "/".join(f"folder{i:03}" for i in range(60)) + "/x.csv"
RECORD = {"rule": "a", "params": ["1"], "software_stack_hash": "ab", "input": ["params.yaml"], "conda_env": None}
MODEL, PIN = "results/hub/checkpoints/a/config.json", "results/hub/pins/a.json"
RECORDS = {
    "results/desk/scores.csv": RECORD | {"input": [MODEL]},
    LONG: RECORD,
    "report/_site/index.html": RECORD,
    "report/_site/studies/mine/index.html": RECORD | {"rule": "publish"},
    "results/mine/scores.csv": RECORD | {"input": []},
    "results/desk2/scores.csv": RECORD,
    MODEL: RECORD | {"input": [PIN]},
    PIN: RECORD | {"input": None},
    "results/hub/checkpoints/b/config.json": RECORD,
    "docs/rules.md": RECORD,
}
OF_DESK = {"results/desk/scores.csv", LONG, "report/_site/index.html", MODEL, PIN}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder in which Snakemake remembers jobs of three studies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("study: desk\n")
    for study in ("desk", "mine"):
        (tmp_path / "results" / study).mkdir(parents=True)
    give(RECORDS)
    return tmp_path


def give(records):
    for name, record in records.items():
        path = record_path(name_path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))


def name_path(name):
    return memory.Path(name)


def remembered():
    """What Snakemake has: result to record."""
    return {output_of(path).as_posix(): json.loads(path.read_text()) for path in METADATA.rglob("*") if path.is_file()}


def packed(study):
    return json.loads(lzma.decompress(memory.memory_file(study).read_bytes()))


def lose_all():
    for path in METADATA.rglob("*"):
        if path.is_file():
            path.unlink()


def test_the_output_of_a_record_is_the_one_whose_record_it_is():
    for name in RECORDS:
        assert output_of(record_path(name_path(name))) == name_path(name)


def test_a_study_keeps_its_own_records_and_those_of_the_fetched_files_that_it_used(project):
    assert memory.pack("desk") == len(OF_DESK)
    assert packed("desk") == {name: RECORDS[name] for name in OF_DESK}
    memory.pack("mine")
    assert set(packed("mine")) == {"results/mine/scores.csv", "report/_site/studies/mine/index.html"}


def test_a_record_loses_the_environment_and_nothing_else(project):
    give({name: record | {"conda_env": "Y2hhbm5lbHM="} for name, record in RECORDS.items()})
    memory.pack("desk")
    assert packed("desk") == {name: RECORDS[name] for name in OF_DESK}


def test_the_same_records_give_the_same_bytes(project):
    memory.pack("desk")
    first = memory.memory_file("desk").read_bytes()
    lose_all()
    give(dict(reversed(RECORDS.items())))
    memory.pack("desk")
    assert memory.memory_file("desk").read_bytes() == first


def test_in_a_clone_the_records_come_back_and_again_nothing_is_to_be_done(project):
    memory.pack("desk")
    shut = memory.UNPACKED / "desk"
    shut.unlink()
    lose_all()
    assert memory.unpack("desk") == len(OF_DESK)
    assert remembered() == {name: RECORDS[name] for name in OF_DESK}
    lose_one = record_path(name_path("report/_site/index.html"))
    lose_one.unlink()
    assert memory.unpack("desk") == 0 and not lose_one.exists()


def test_the_records_of_one_study_leave_those_of_another_and_of_shared_files_as_they_are(project):
    memory.pack("desk")
    newer = {"rule": "newer"}
    give(dict.fromkeys(RECORDS, newer))
    (memory.UNPACKED / "desk").unlink()
    memory.unpack("desk")
    own = OF_DESK - {MODEL, PIN}
    assert remembered() == {name: RECORDS[name] if name in own else newer for name in RECORDS}


def test_what_was_just_packed_is_not_unpacked_over_newer_records(project):
    memory.pack("desk")
    give({LONG: {"rule": "newer"}})
    assert memory.unpack("desk") == 0
    assert remembered()[LONG] == {"rule": "newer"}


def test_a_run_outdates_the_file_and_the_same_file_put_back_brings_the_records_back(project):
    """As `dvc checkout` does after a run with other parameters."""
    memory.pack("desk")
    content = memory.memory_file("desk").read_bytes()
    memory.outdate("desk", ["docs/rules.md", "results/mine/scores.csv", "report/_site/studies/mine/index.html"])
    assert memory.memory_file("desk").is_file()
    memory.outdate("desk", ["docs/rules.md", LONG])
    assert not memory.memory_file("desk").exists()
    give({LONG: {"rule": "of other parameters"}})
    assert memory.unpack("desk") == 0 and remembered()[LONG] != RECORD
    memory.memory_file("desk").write_bytes(content)
    assert memory.unpack("desk") == 1 and remembered()[LONG] == RECORD


def test_without_its_folder_of_records_all_come_back(project):
    memory.pack("desk")
    lose_all()
    for folder in sorted(METADATA.rglob("*"), reverse=True):
        folder.rmdir()
    METADATA.rmdir()
    assert memory.unpack("desk") == len(OF_DESK)


@pytest.mark.fault(
    "Snakemake's packed records damaged", happens="the run stops with one line", do="`make fetch`, or remove the file"
)
@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"no JSON"), lzma.compress(b"[1]")])
def test_a_damaged_file_stops_the_run_with_one_line(project, content):
    memory.memory_file("desk").write_bytes(content)
    with pytest.raises(ValueError, match=r"results/desk/memory\.json\.xz: damaged .*make fetch") as error:
        memory.unpack("desk")
    assert "\n" not in str(error.value)
