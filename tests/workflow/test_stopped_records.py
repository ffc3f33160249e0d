"""``make fetch`` and ``make record`` stopped at random moments: the same command again ends as if nothing had been."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fetch
import publish

pytestmark = pytest.mark.long
ROOT = Path(publish.__file__).parents[2]
FILES = {f"{number}.csv": f"width,value\n8,{number}\n" * 200 for number in range(60)}
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
MOMENTS = 3  # of each signal
SEED = 1


@pytest.fixture
def desk(computed_study):
    return computed_study(FILES)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stop(toy, script, how, seconds):
    """Start a script, and send it a signal after so many seconds."""
    process = subprocess.Popen(
        [sys.executable, script], cwd=toy.root, env=toy.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    time.sleep(seconds)
    process.send_signal(how)
    process.communicate()


def seconds_of(toy, script):
    began = time.monotonic()
    toy.python(script)
    return time.monotonic() - began


@pytest.mark.fault(
    "`make fetch` stopped by SIGINT, SIGTERM or kill -9 at any moment",
    happens="no file of the results is partial; DVC may have some of them",
    do="the same command again",
)
@pytest.mark.parametrize("how", SIGNALS)
def test_a_fetch_that_was_stopped_is_taken_up(desk, project, tmp_path, how):
    desk.python(publish.__file__)
    desk.git("add", "-A")
    desk.git("commit", "-qm", "record")
    draw, took = random.Random(SEED), None
    for number in range(MOMENTS + 1):
        desk.git("clone", "-q", str(desk.root), str(tmp_path / f"clone{number}"))
        clone = project(tmp_path / f"clone{number}")
        clone.environment["PYTHONPATH"] = str(ROOT / "src")
        if took is None:
            took = seconds_of(clone, fetch.__file__)
        else:
            stop(clone, fetch.__file__, how, draw.uniform(0.3, 1.0) * took)
            recorded = contents(desk.root / "results/desk")
            found = contents(clone.root / "results/desk")
            assert found.items() <= recorded.items()
            clone.python(fetch.__file__)
        assert contents(clone.root / "results/desk/made") == contents(desk.root / "results/desk/made")
        assert clone.dvc("status", "-q").returncode == 0


@pytest.mark.fault(
    "`make record` stopped by SIGINT, SIGTERM or kill -9 at any moment",
    happens="each carried archive is whole or not there",
    do="the same command again",
)
@pytest.mark.parametrize("how", SIGNALS)
def test_a_record_that_was_stopped_is_taken_up(desk, how):
    took = seconds_of(desk, publish.__file__)
    remote = desk.root / "remote"
    whole, draw = contents(remote), random.Random(SEED)
    for _ in range(MOMENTS):
        for path in remote.rglob("*.tar.xz"):
            path.unlink()
        stop(desk, publish.__file__, how, draw.uniform(0.3, 1.0) * took)
        assert {
            path: found for path, found in contents(remote).items() if path.suffix == ".xz"
        }.items() <= whole.items()
        desk.python(publish.__file__)
        assert contents(remote) == whole
