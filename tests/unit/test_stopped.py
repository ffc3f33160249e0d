"""Commands that are stopped at random moments: the whole result or none, and the next run gives the same bytes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
PACKAGE = Path(__file__).resolve().parents[2] / "src/embscale"
MOMENTS = 2  # of each signal
SEED = 1


@pytest.fixture
def benchmarks(tmp_path):
    folder = tmp_path / "benchmarks/score"
    folder.mkdir(parents=True)
    for number in range(150):
        (folder / f"{number}.tsv").write_text(f"s\tcpu_time\tmax_rss\n{number}.5\t1.0\t{number}.25\n")
    return folder.parent


def started(benchmarks, name):
    output = benchmarks.parent / name / "costs.csv"
    arguments = ["costs", str(benchmarks), "--steps", "score", "-o", str(output)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, str(PACKAGE), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return process, output


@pytest.mark.fault(
    "a command stopped by SIGINT, SIGTERM or kill -9 at any moment",
    happens="its outputs are there as a whole, with their note, or not at all",
    do="the same command again",
)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_stopped_at_any_moment_leaves_all_or_nothing(benchmarks, how):
    began = time.monotonic()
    process, whole = started(benchmarks, "whole")
    assert process.wait() == 0
    took, draw = time.monotonic() - began, random.Random(SEED)
    for number in range(MOMENTS):
        process, output = started(benchmarks, f"stopped {number}")
        time.sleep(draw.uniform(0.3, 1.0) * took)
        process.send_signal(how)
        process.communicate()
        note = output.with_name("costs.csv.note.json")
        assert note.exists() <= output.exists()
        assert not output.exists() or output.read_bytes() == whole.read_bytes()
        process, output = started(benchmarks, f"stopped {number}")
        assert process.wait() == 0 and output.read_bytes() == whole.read_bytes() and note.exists()
