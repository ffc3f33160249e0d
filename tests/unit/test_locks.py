"""One run at a time, whatever the file system, the machine and its clock; what cannot be known counts as alive."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import locks
from locks import Owner, RunLock

LIB = Path(locks.__file__).parent
PATIENCE = 120  # seconds for what takes a fraction of one on a quiet machine

# What a file system or a machine may be like, put in place before a process asks for the lock.
KINDS = {
    "flock": "",
    "no flock": "def flock(*_): raise OSError(errno.ENOSYS, 'not implemented')\nfcntl.flock = flock",
    "flock of one machine": "fcntl.flock = lambda *_: None",
}
ELSEWHERE = "socket.gethostname = lambda: 'node7'"
HEAD = f"""
import errno, fcntl, os, socket, sys, time
sys.path.insert(0, {str(LIB)!r})
import locks
"""
TAKE = """
lock = locks.RunLock()
print('yes' if lock.acquire() else lock.refusal, flush=True)
"""
HOLD = TAKE + "sys.stdin.read()\n"


def code(*parts):
    return "\n".join([HEAD, *parts])


@contextlib.contextmanager
def process(folder, *parts, **environment):
    """A Python that has said its first line."""
    running = subprocess.Popen(
        [sys.executable, "-c", code(*parts)],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield running, running.stdout.readline().strip()
    finally:
        running.kill()
        running.communicate()


def told(folder, *parts, **environment):
    """The first line of a Python that ends by itself."""
    with process(folder, *parts, **environment) as (running, line):
        running.stdin.close()
        running.stdin = None
        assert running.wait(PATIENCE) == 0
        return line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path / "study")
    # A Slurm that this machine has is not asked.
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path / "study"


@pytest.fixture
def squeue(tmp_path):
    """A function that puts a Slurm in place: what it prints, and the status with which it ends."""

    def put(answer, status=0):
        script = tmp_path / "bin/squeue"
        script.parent.mkdir(exist_ok=True)
        (tmp_path / "answer").write_text(answer)
        said = "/bin/cat" if not status else "echo slurm_load_jobs error: no contact >&2; true"
        script.write_text(f"#!/bin/sh\n{said} {tmp_path}/answer\nexit {status}\n")
        script.chmod(0o755)

    return put


def owner_file(folder):
    return folder / ".snakemake/embscale.owner"


def write_owner(folder, **facts):
    """An owner's file as another process would have left it."""
    owner = {**vars(Owner.this_process()), **facts}
    owner_file(folder).parent.mkdir(exist_ok=True)
    owner_file(folder).write_text(json.dumps(owner))
    return Owner(**owner)


def silent_for(path, seconds):
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


@pytest.mark.fault(
    "two hosts or processes that start one study", happens="one has the lock, the other says which", do="wait"
)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_of_two_runs_one_has_the_lock_and_the_other_says_which(folder, kind):
    with process(folder, kind, HOLD) as (first, line):
        assert line == "yes"
        assert told(folder, kind, "print(locks.RunLock().free())") == "False"
        assert told(folder, kind, TAKE) == (
            f"another run (process {first.pid}) is running in {folder}; wait until it ends or stop it, then start again"
        )
        first.stdin.close()
        first.stdin = None
        assert first.wait(PATIENCE) == 0
    assert not owner_file(folder).exists()
    assert told(folder, kind, "print(locks.RunLock().free())") == "True"
    assert told(folder, kind, TAKE) == "yes"


@pytest.mark.fault("the holder of a lock killed", happens="the lock is free at once", do="the same command again")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_lock_whose_process_was_killed_is_free_at_once(folder, kind):
    with process(folder, kind, HOLD) as (first, line):
        assert line == "yes"
        first.kill()
        first.wait()
        assert owner_file(folder).exists()
        assert told(folder, kind, "print(locks.RunLock().free())") == "True"
        assert told(folder, kind, TAKE) == "yes"
    assert not owner_file(folder).exists()


@pytest.mark.fault("the holder of a lock stopped for long", happens="it keeps the lock", do="wait, or end it")
@pytest.mark.parametrize("kind", ["no flock", "flock of one machine"])
def test_a_process_that_is_stopped_for_long_keeps_its_lock(folder, kind):
    with process(folder, KINDS[kind], HOLD) as (first, line):
        assert line == "yes"
        first.send_signal(signal.SIGSTOP)
        silent_for(owner_file(folder), 10 * locks.STALE_SECONDS)
        assert f"process {first.pid}" in told(folder, KINDS[kind], TAKE)


@pytest.mark.fault("a node whose clock is wrong, fast or slow", happens="its run is seen all the same", do="nothing")
@pytest.mark.parametrize("kind", ["no flock", "flock of one machine"])
@pytest.mark.parametrize("clock", [0, 86_400, -86_400])
def test_a_run_on_another_node_is_seen_whatever_its_clock_says(folder, kind, clock):
    wrong = f"right = time.time\ntime.time = lambda: right() + {clock}"
    with process(folder, KINDS[kind], ELSEWHERE, HOLD, SLURM_JOB_ID="41") as (first, line):
        assert line == "yes"
        said = told(folder, KINDS[kind], wrong, TAKE)
    assert f"another run (process {first.pid} on node7 in job 41 of Slurm) is running in {folder} (since " in said
    assert "last sign of life" in said and said.endswith("stop it, then start again")


@pytest.mark.fault("a node that gives no sign of life", happens="its run has lost the lock", do="nothing")
def test_a_run_on_a_node_that_gives_no_sign_of_life_has_lost_the_lock(folder, capsys):
    write_owner(folder, host="node7", pid=1)
    silent_for(owner_file(folder), locks.STALE_SECONDS / 2)
    assert not RunLock().free()
    silent_for(owner_file(folder), locks.STALE_SECONDS)
    assert RunLock().free()
    assert told(folder, TAKE) == "yes"


def test_of_a_silent_node_in_slurm_slurm_is_asked(folder, squeue):
    write_owner(folder, host="node7", pid=1, job="41")
    silent_for(owner_file(folder), 2 * locks.STALE_SECONDS)
    assert "there is no squeue on PATH; if it is no more, remove .snakemake/embscale.owner" in told(folder, TAKE)
    squeue("", status=1)
    assert "squeue failed (slurm_load_jobs error: no contact" in told(folder, TAKE)
    squeue("7\n41\n")
    assert "no sign of life for" in told(folder, TAKE)
    squeue("7\n")
    assert told(folder, TAKE) == "yes"


@pytest.mark.fault("a container with its host's name", happens="it counts as another machine", do="nothing")
def test_a_container_with_the_hosts_name_is_another_machine(folder):
    """Its processes cannot be seen, and one with the same number may be another."""
    write_owner(folder, machine="another boot", pid=os.getpid())
    assert not RunLock().free()
    silent_for(owner_file(folder), 2 * locks.STALE_SECONDS)
    assert RunLock().free()


@pytest.mark.fault(
    "the number of a dead process given to another", happens="it is not taken for the owner", do="nothing"
)
def test_another_process_with_the_number_of_a_dead_one_is_not_the_owner(folder):
    write_owner(folder, pid=os.getpid(), began="1")
    assert RunLock().free()
    write_owner(folder)
    assert not RunLock().free()


def test_where_the_system_tells_no_beginning_of_processes_the_sign_of_life_decides(folder, monkeypatch):
    monkeypatch.setattr(locks, "beginning", lambda pid: "")
    write_owner(folder)
    assert not RunLock().free()
    silent_for(owner_file(folder), 2 * locks.STALE_SECONDS)
    assert RunLock().free()
    with process(folder, "print(os.getpid())") as (gone, line):
        gone.kill()
        gone.wait()
    write_owner(folder, pid=int(line))
    assert RunLock().free()


@pytest.mark.fault("a lock that names no owner", happens="the run stops and names it", do="remove it, if nothing runs")
def test_an_owners_file_that_says_nothing_stops_a_run(folder):
    owner_file(folder).parent.mkdir()
    owner_file(folder).write_text("{")
    assert not RunLock().free()
    assert "remove .snakemake/embscale.owner, which does not say whose it is" in told(folder, TAKE)


@pytest.mark.fault("many that start at once", happens="one gets the lock", do="nothing")
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("left", ["nothing", "a dead process", "a dead node"])
def test_of_many_that_start_at_once_one_gets_the_lock(folder, kind, left):
    (folder / ".snakemake").mkdir()
    if left == "a dead process":
        write_owner(folder, began="1")
    if left == "a dead node":
        write_owner(folder, host="node7")
        silent_for(owner_file(folder), 2 * locks.STALE_SECONDS)
    together = "print(0, flush=True)\nwhile not os.path.exists('go'): pass\n"
    with contextlib.ExitStack() as stack:
        starting = [stack.enter_context(process(folder, kind, together, HOLD))[0] for _ in range(5)]
        (folder / "go").touch()
        said = [running.stdout.readline().strip() for running in starting]
        winner = starting[said.index("yes")]
        assert [line == "yes" for line in said].count(True) == 1
        assert all("another run" in line for line in said if line != "yes")
        assert json.loads(owner_file(folder).read_text())["pid"] == winner.pid


@pytest.mark.fault("a lock taken over by another", happens="the first run stops", do="nothing")
def test_the_owner_gives_signs_of_life_and_stops_when_another_has_taken_over(folder):
    often = "locks.BEAT_SECONDS = 0.05"
    patient = TAKE + "try:\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    with process(folder, often, patient) as (first, line):
        assert line == "yes"
        silent_for(owner_file(folder), 1000)
        deadline = time.monotonic() + PATIENCE
        while RunLock()._seconds_of_silence() > locks.STALE_SECONDS:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # Removed by hand, it is written again.
        owner_file(folder).unlink()
        while not owner_file(folder).exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        other = write_owner(folder, host="node7")
        assert first.stdout.readline().strip() == "stopped"
        assert first.wait(PATIENCE) == 0
        # The file is the other's, which keeps it.
        assert json.loads(owner_file(folder).read_text())["key"] == other.key


def test_a_child_of_the_owner_neither_has_the_lock_nor_removes_it(folder):
    child = "child = os.fork()\nif not child:\n    print(lock.is_held(), flush=True)\n    sys.exit(0)\nos.wait()\n"
    with process(folder, TAKE, child, "sys.stdin.read()") as (first, line):
        assert (line, first.stdout.readline().strip()) == ("yes", "False")
        assert owner_file(folder).exists()


def test_taken_twice_by_one_process_it_is_taken_once(folder):
    assert told(folder, "locks.RunLock().acquire()\n", TAKE) == "yes"
    assert told(folder, "locks.RunLock().acquire(); print(locks.RunLock().free())") == "True"


@pytest.mark.fault(
    "jobs of Slurm that outlive their run", happens="the next run stops and names them", do="wait, or `scancel`"
)
def test_jobs_that_outlive_their_run_stop_the_next_one(folder, squeue):
    squeue(f"11|{folder}\n12|{folder.parent}\n13|{folder}\n")
    lock = RunLock()
    # No run of this folder has used Slurm, whoever else does.
    assert lock.free()
    owner_file(folder).parent.mkdir(exist_ok=True)
    lock.slurm.begin()
    assert not lock.free()
    assert told(folder, TAKE) == (
        f"jobs of an earlier run in {folder} are still in Slurm: 11 13; wait until they end, or stop them with "
        "scancel 11 13, then start again"
    )
    assert not owner_file(folder).exists()
    # A run that is itself a job of Slurm is none that an earlier one left.
    squeue(f"11|{folder}\n")
    assert told(folder, TAKE, SLURM_JOB_ID="11") == "yes"
    # Then nothing is left, and nobody has to ask again.
    squeue("", status=1)
    assert told(folder, TAKE) == "yes"


def test_jobs_of_a_run_that_is_alive_are_not_called_left_over(folder, squeue):
    squeue(f"11|{folder}\n")
    with process(folder, KINDS["flock of one machine"], ELSEWHERE, HOLD) as (first, _):
        RunLock().slurm.begin()
        said = told(folder, KINDS["flock of one machine"], TAKE)
        assert f"process {first.pid} on node7" in said and "scancel" not in said


@pytest.mark.fault("Slurm does not answer", happens="jobs may be left, so that a run stops", do="wait")
@pytest.mark.parametrize("broken", [False, True])
def test_while_slurm_does_not_answer_jobs_may_be_left(folder, squeue, broken):
    owner_file(folder).parent.mkdir()
    RunLock().slurm.begin()
    if broken:
        squeue("", status=1)
    said = told(folder, TAKE)
    assert ("squeue failed (slurm_load_jobs error: no contact" if broken else "there is no squeue on PATH") in said
    assert f"or remove {Path('.snakemake/embscale.slurm')} if you know that none is left" in said
    (folder / ".snakemake/embscale.slurm").unlink()
    assert told(folder, TAKE) == "yes"
