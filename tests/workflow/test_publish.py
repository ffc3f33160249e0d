"""The last part of ``make record``: what licences keep here, what is too large, and where the rest goes."""

import os
from pathlib import Path

import pytest

import publish
from embscale.checkpoints.suites import load

ROOT = Path(publish.__file__).parents[2]
REGISTRY, PINS = ROOT / "workflow/suites.yaml", ROOT / "workflow/pins.yaml"


@pytest.fixture
def desk(computed_study):
    return computed_study({"rows.csv": "width,value\n8,0.5\n"})


def run(toy, *arguments):
    return toy.python(publish.__file__, *arguments, check=False)


def carried(toy):
    return {path.relative_to(toy.root).as_posix() for path in (toy.root / "remote").rglob("*") if path.is_file()}


def test_a_record_goes_into_the_repository_and_old_archives_of_the_study_leave(desk):
    desk.write({"remote/desk/stage that was.tar.xz": "old", "remote/ladder/made.tar.xz": "of another study"})
    done = run(desk)
    assert done.returncode == 0 and done.stdout.startswith("recorded: desk: 1 files, 0.0 MB of 0.0 in remote"), (
        done.stdout
    )
    assert carried(desk) == {"remote/desk/made.tar.xz", "remote/ladder/made.tar.xz"}
    assert desk.read("remote/ladder/made.tar.xz") == "of another study"


@pytest.mark.fault(
    "a record that is too large to be carried",
    happens="`make record` ends with 1 and says how large it is",
    do="use a remote of your own",
)
@pytest.mark.parametrize("where", ["desk", "ladder"])
def test_the_limit_is_on_all_studies_together(desk, where):
    large = os.urandom((publish.MOST_MB + 1) * 1_000_000)
    path = desk.root / ("results/desk/made/large.bin" if where == "desk" else "remote/ladder/made.tar.xz")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(large)
    desk.dvc("commit", "-q", "--force")
    done = run(desk)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1
    assert "more than the 30 that a repository should carry" in done.stdout


@pytest.mark.fault(
    "a file that may not be passed on, in the record",
    happens="`make record` stops before anything is written",
    do="take it out",
)
def test_what_a_licence_does_not_let_pass_stops_it_before_anything_is_written(desk):
    kept = next(row.model for rows in load(REGISTRY, PINS).values() for row in rows if not row.redistributable)
    desk.write({f"results/desk/made/{kept}.safetensors": "tensor"})
    desk.dvc("commit", "-q", "--force")
    done = run(desk)
    assert (
        done.returncode == 1 and f"results/desk/made/{kept}.safetensors: not to be pushed: the licence" in done.stdout
    )
    assert carried(desk) == set()


def test_with_a_remote_of_ones_own_the_repository_carries_nothing(desk):
    desk.dvc("remote", "add", "-q", "--default", "lab", str(desk.root.parent / "lab"))
    done = run(desk, "desk")
    assert done.returncode == 0 and "recorded: desk: 1 files, pushed" in done.stdout
    assert carried(desk) == set()
    assert len([path for path in (desk.root.parent / "lab").rglob("*") if path.is_file()]) == 2  # with the listing


@pytest.mark.parametrize(
    ("study", "words"), [("desk", "was not recorded; first run make record"), ("none", "no file studies/none.yaml")]
)
def test_what_was_not_recorded_is_told_in_one_line(desk, study, words):
    (desk.root / "dvc.lock").unlink()
    done = run(desk, study)
    assert done.returncode == 1 and words in done.stdout and len(done.stdout.splitlines()) == 1, done.stdout
    assert carried(desk) == set()
