"""One GPU, one process: claims, with made-up GPUs."""

import fcntl
import os
import subprocess
import sys
import types

import pytest
import torch

from embscale import devices
from embscale.errors import EmbscaleError

UUIDS = ["first", "second"]

HOLDER = """
import fcntl, sys
files = [open(path) for path in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(UUIDS))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: types.SimpleNamespace(uuid=UUIDS[number]))
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(devices, "CLAIMS", tmp_path / "claims")
    monkeypatch.setattr(devices, "SECONDS_BETWEEN_TRIES", 0.01)
    monkeypatch.setattr(devices, "_claims", {})
    yield types.SimpleNamespace(chosen=chosen, folder=tmp_path / "claims")
    for file in devices._claims.values():
        os.close(file)


@pytest.fixture
def holder(gpus):
    """A function that lets another process claim GPUs, and returns it."""
    running = []

    def hold(*uuids):
        gpus.folder.mkdir(exist_ok=True)
        paths = [gpus.folder / uuid for uuid in uuids]
        for path in paths:
            path.touch()
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *map(str, paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "held\n"
        running.append(process)
        return process

    yield hold
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_a_job_takes_the_first_gpu_and_keeps_it(gpus, name):
    assert [devices.choose_device(name).type, devices.choose_device(name).type] == ["cuda", "cuda"]
    assert gpus.chosen == [0]  # once
    with (gpus.folder / "first").open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_gpu_of_another_job_is_passed_over(gpus, holder):
    holder("first")
    devices.choose_device("auto")
    assert gpus.chosen == [1]


def test_a_job_waits_while_all_are_taken_and_says_so(gpus, holder, monkeypatch, capfd):
    process = holder(*UUIDS)
    tries = []

    def sleep(seconds):
        tries.append(seconds)
        if len(tries) == 3:  # a job that is killed gives up what it had claimed
            process.kill()
            process.wait()

    monkeypatch.setattr(devices.time, "sleep", sleep)
    devices.choose_device("auto")
    assert gpus.chosen == [0] and len(tries) >= 3
    assert capfd.readouterr().err == "waiting for a GPU: other jobs use all 2 here\n"


def test_what_is_too_large_for_one_gpu_gets_those_that_are_free(gpus, holder):
    devices.choose_device("auto")
    assert devices.claim_free_gpus() == [0, 1] and gpus.chosen == [0]


def test_and_none_of_another_job(gpus, holder):
    holder("first")
    devices.choose_device("auto")
    assert devices.claim_free_gpus() == [1] == gpus.chosen


def test_a_processor_needs_no_claim(gpus):
    assert devices.choose_device("cpu").type == "cpu"
    assert not gpus.folder.exists() and not gpus.chosen


def test_who_only_asks_claims_nothing(gpus, holder):
    holder(*UUIDS)
    assert devices.find_device("auto").type == "cuda"
    assert not gpus.chosen


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.choose_device("auto").type == "cpu"
    with pytest.raises(EmbscaleError, match="device cuda: torch finds no GPU here"):
        devices.choose_device("cuda")
