"""The same study from one machine and from a cluster; runs on a cluster that are killed, doubled or fail.

A Slurm of this machine alone is started and stopped here, as whoever runs the tests: Debian's packages slurm-wlm and
munge.  The parts that need no whole study run a toy project with the hooks and the profile of the real one.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import locks

ROOT = Path(__file__).resolve().parents[2]
LIB, SRC = ROOT / "workflow/lib", ROOT / "src"
PATIENCE = 900  # seconds for what takes some ten on a quiet machine
NOTHING = "Nothing to be done"

PROGRAMS = ("munged", "slurmctld", "slurmd", "squeue", "sbatch", "srun", "scancel", "scontrol")
MISSING = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no Slurm on this machine: no {', '.join(MISSING)}"),
]

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ReturnToService=2
MinJobAge=3600
InactiveLimit=0
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
# What a cluster needs besides the profile, here: no accounting, and answers soon.
THIS_CLUSTER = [
    *("--slurm-no-account", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"),
]
CLUSTER = ["--profile", "profiles/slurm", *THIS_CLUSTER]


def eventually(true, what):
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


def free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """What a process needs in its environment to use the cluster; it is there as long as the tests of this file."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    facts = {"folder": folder, "host": socket.gethostname().partition(".")[0], "user": getpass.getuser()}
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(ports=free_ports(), **facts))
    # Steps of jobs look for the cluster at its usual place alone.
    step = folder / "bin/srun"
    step.write_text(f'#!/bin/sh\nSLURM_CONF={configuration} exec {shutil.which("srun")} "$@"\n')
    step.chmod(0o755)
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin"
    environment = {"PATH": path, "SLURM_CONF": str(configuration)}
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    places = ("key-file=munge.key", "socket=munge.socket", "pid-file=munged.pid", "log-file=munged.log")
    munged = ["munged", "--force", *(f"--{place.replace('=', f'={folder}/')}" for place in places)]
    munged.append(f"--seed-file={folder}/munged.seed")

    def started(*command):
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with contextlib.ExitStack() as stack:
        for command in ([*munged, "--foreground"], ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            program = started(*command)
            stack.callback(program.wait)
            stack.callback(program.terminate)
            if command[0] == "munged":
                eventually((folder / "munge.socket").exists, "no munge")
        ready = lambda: "idle" in subprocess.run(["sinfo"], env=environment, capture_output=True, text=True).stdout  # noqa: E731
        eventually(ready, f"no Slurm: see {folder}")
        yield environment
        subprocess.run(["scancel", "--user", getpass.getuser()], env=environment)


def on_cluster(toy, slurm):
    """A project whose commands use the cluster."""
    toy.environment |= slurm
    return toy


def queue(toy):
    """The jobs of the cluster that have not ended, with their states."""
    return [line.split() for line in toy.run("squeue", "--noheader", "--format", "%A %T").stdout.splitlines()]


# The tiny study with one seed and few variants.
LITTLE = """
study: little
ladder: {seeds: [1], steps: 4, checkpoints: [0, 4]}
scores: {variants: [unit], lengths: [all], random: {dims: [8], seeds: [42]}}
"""
TINY = ("--configfile", "studies/tiny.yaml")
MEASURED = ("losses.csv", "costs.csv", "reproduction.csv")  # hold seconds
SCORES = "results/little/per_query/NetworkXSeeAlso/ladder-w8.parquet"


def test_scores_are_the_same_from_one_machine_and_from_a_cluster(copy_of_checkout, project, slurm):
    """From texts through tokens and a training to the scores of its tables."""
    targets = ("--configfile", "studies/tiny.yaml", "little.yaml", "--", SCORES)
    here, there = project(copy_of_checkout("here")), on_cluster(project(copy_of_checkout("there")), slurm)
    for place in (here, there):
        place.write({"little.yaml": LITTLE})
    here.snakemake("--cores", "2", *targets)
    told = there.snakemake(*CLUSTER, *targets).stdout
    # What copies is no job of the cluster.
    assert "/rule_train_ladder/" in told and "/rule_extract_ladder/" not in told
    made = sorted(path.relative_to(here.root) for path in here.root.glob("results/little/**/*.parquet"))
    made += sorted(path.relative_to(here.root) for path in here.root.glob("results/little/tables/**/*.safetensors"))
    assert len(made) == 3
    assert [(there.root / path).read_bytes() for path in made] == [(here.root / path).read_bytes() for path in made]
    assert NOTHING in there.snakemake("-n", *targets).stdout
    # Nothing is left that would make a later run ask for jobs.
    assert not (there.root / ".snakemake/embscale.slurm").exists() and queue(there) == []


def test_the_whole_study_is_the_same_from_a_cluster(copy_of_checkout, project, slurm):
    """From nothing to the page, with short jobs in groups; each number as one machine computes it."""
    here, there = project(copy_of_checkout("whole-here")), on_cluster(project(copy_of_checkout("whole-there")), slurm)
    here.snakemake("--cores", "2", *TINY)
    there.snakemake(*CLUSTER, *TINY)
    rows = [path.relative_to(here.root) for path in sorted(here.root.glob("results/tiny/**/*.csv"))]
    compared = [path for path in rows if "benchmarks" not in path.parts and path.name not in MEASURED]
    assert {Path(f"results/tiny/{name}.csv") for name in ("scores", "claims", "differences")} <= set(compared)
    different = [path for path in compared if (there.root / path).read_bytes() != (here.root / path).read_bytes()]
    assert different == []
    assert (there.root / "report/_site/studies/tiny/index.html").exists()
    assert NOTHING in there.snakemake("-n", *TINY).stdout
    assert queue(there) == []


SNAKEFILE = f"""
import sys
sys.path[:0] = [{str(SRC)!r}, {str(LIB)!r}]
from guards import failures, uses_slurm
from locks import RunLock
from main_process import before_graph, changes_results
from snakemake.logging import logger
def settle():
    if changes_results(workflow):
        RunLock().acquire_or_stop()
before_graph(workflow, settle)
onstart:
    if uses_slurm(workflow):
        RunLock().slurm.begin()
onsuccess:
    RunLock().slurm.end()
onerror:
    logger.error("\\n".join(failures(log)))
rule slow:
    output: "slow.txt"
    shell: "touch started; while [ ! -e go ]; do sleep 0.1; done; echo done > {{output}}"
rule quick:
    output: "quick.txt"
    shell: "hostname > {{output}}"
rule failing:
    output: "never.txt"
    log: "failing.log"
    retries: 0
    shell: "echo it went wrong > {{log}}; exit 1"
"""


@pytest.fixture
def clustered(toy, slurm):
    toy.write({"Snakefile": SNAKEFILE})
    shutil.copytree(ROOT / "profiles", toy.root / "profiles")
    yield on_cluster(toy, slurm)
    (toy.root / "go").touch()
    toy.run("scancel", "--user", getpass.getuser())
    eventually(lambda: queue(toy) == [], "jobs are left")


def test_jobs_of_a_killed_run_are_found_and_after_them_the_next_run_goes_on(clustered):
    with clustered.running(*CLUSTER, "slow.txt", until="started") as first:
        ((job, _),) = queue(clustered)
        first.kill()
        first.wait()
    left = f"jobs of an earlier run in {clustered.root} are still in Slurm: {job}; wait until they end, or stop them"
    for again in (
        clustered.snakemake(*CLUSTER, "slow.txt", check=False),
        clustered.snakemake("--cores", "1", "quick.txt", check=False),
        clustered.python(str(LIB / "recover.py"), check=False),
    ):
        assert again.returncode == 1 and f"{left} with scancel {job}, then start again" in again.stdout
    assert not (clustered.root / "quick.txt").exists()
    # Where Slurm cannot be asked, nobody knows.
    configuration = clustered.environment["SLURM_CONF"]
    clustered.environment["SLURM_CONF"] = "/nowhere"
    assert (
        "handed jobs to Slurm and may have left some: squeue failed"
        in clustered.snakemake("--cores", "1", "quick.txt", check=False).stdout
    )
    clustered.environment["SLURM_CONF"] = configuration
    clustered.run("scancel", job)
    eventually(lambda: queue(clustered) == [], "the job is left")
    assert "left Snakemake's lock behind" in clustered.python(str(LIB / "recover.py")).stdout
    (clustered.root / "go").touch()
    clustered.snakemake(*CLUSTER, "slow.txt")
    assert clustered.read("slow.txt") == "done\n"
    assert not (clustered.root / ".snakemake/embscale.slurm").exists()


# A Snakemake on another machine that sees the same folder, with a file system that keeps locks to one machine.
ELSEWHERE = """
import fcntl, socket, sys
socket.gethostname = lambda: "login2"
fcntl.flock = lambda *_: None
from snakemake.cli import main
main(sys.argv[1:])
"""


def test_of_two_runs_on_two_machines_one_runs_and_the_other_says_which(clustered):
    with clustered.running(*CLUSTER, "slow.txt", until="started") as first:
        second = clustered.python("-c", ELSEWHERE, *CLUSTER, "quick.txt", check=False)
        assert second.returncode == 1
        assert f"another run (process {first.pid} on {socket.gethostname()}) is running in" in second.stdout
        assert "last sign of life" in second.stdout and "scancel" not in second.stdout
        clustered.python("-c", ELSEWHERE, "-n", "quick.txt")
        (clustered.root / "go").touch()
        assert first.wait(PATIENCE) == 0
    assert not (clustered.root / ".snakemake/embscale.owner").exists()
    assert clustered.python("-c", ELSEWHERE, *CLUSTER, "quick.txt").returncode == 0


def test_a_run_that_is_interrupted_takes_its_jobs_with_it(clustered):
    with clustered.running(*CLUSTER, "slow.txt", until="started") as first:
        first.send_signal(signal.SIGINT)
        assert first.wait(PATIENCE) != 0
    eventually(lambda: queue(clustered) == [], "the job is left")
    clustered.snakemake(*CLUSTER, "quick.txt")


def test_of_a_job_that_failed_on_a_node_the_last_line_is_told(clustered):
    failed = clustered.snakemake(*CLUSTER, "never.txt", check=False)
    assert failed.returncode == 1 and "failed: it went wrong (log: failing.log)" in failed.stdout
    assert locks.Slurm(clustered.root / ".snakemake/embscale.slurm").mark.exists()
