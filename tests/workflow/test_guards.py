"""No conda is no obstacle, a second run stops, and a killed run leaves nothing that a person must clear."""

from pathlib import Path

import pytest

import guards

LIB = Path(guards.__file__).parent
PATIENCE = 300  # seconds for what takes a few on a quiet machine

HEAD = f"""
import sys
sys.path.insert(0, {str(LIB)!r})
import guards
import locks
guards.drop_conda_if_missing(workflow)
onstart:
    locks.RunLock().acquire_or_stop()
"""

RULES = """
rule slow:
    output: "slow.txt"
    shell: "touch started; while [ ! -e go ]; do sleep 0.05; done; echo done > {output}"
rule quick:
    output: "quick.txt"
    conda: "env.yaml"
    shell: "echo done > {output}"
rule inner:
    output: "inner.txt"
    run: open(output[0], "w").close()
"""


@pytest.fixture
def guarded(toy):
    toy.write({"Snakefile": HEAD + RULES, "env.yaml": "dependencies: [python]\n"})
    return toy


def recover(toy, **options):
    return toy.python(str(LIB / "recover.py"), **options)


@pytest.mark.fault(
    "a profile with conda, without conda", happens="the run goes on in the active environment", do="nothing"
)
def test_without_conda_the_run_goes_on_in_the_active_environment(guarded):
    done = guarded.snakemake("--cores", "1", "--use-conda", "quick.txt")
    assert "no conda on PATH" in done.stdout
    assert guarded.read("quick.txt") == "done\n"


def test_a_conda_that_exists_is_left_to_snakemake(guarded):
    guarded.write({"bin/conda": "#!/bin/sh\nexit 3\n"})
    (guarded.root / "bin/conda").chmod(0o755)
    guarded.environment["PATH"] = f"{guarded.root}/bin:{guarded.environment['PATH']}"
    done = guarded.snakemake("--cores", "1", "--use-conda", "quick.txt", check=False)
    assert done.returncode == 1
    assert "no conda on PATH" not in done.stdout


@pytest.mark.fault(
    "two runs at once", happens="the second stops with the process id of the first", do="wait, or end that one"
)
def test_while_a_run_is_alive_a_second_one_stops_and_a_dry_run_does_not(guarded):
    with guarded.running("--cores", "1", "slow.txt", until="started") as first:
        for second in (
            guarded.snakemake("--cores", "1", "quick.txt", check=False),
            recover(guarded, check=False),
        ):
            assert second.returncode == 1
            assert f"another run (process {first.pid}) is running in {guarded.root}" in second.stdout
        guarded.snakemake("-n", "quick.txt")
        (guarded.root / "go").touch()
        assert first.wait(PATIENCE) == 0
    assert not (guarded.root / "quick.txt").exists()
    guarded.snakemake("--cores", "1", "quick.txt")


@pytest.mark.fault(
    "a second run while the first is starting", happens="it stops with the process id of the first", do="wait"
)
@pytest.mark.slow
def test_a_run_that_is_still_starting_is_waited_for(guarded):
    """A run that DVC started and that outlived it has not yet taken the lock, but will."""
    starting = "import time, pathlib; pathlib.Path('loading').touch(); time.sleep(2)\n"
    guarded.write({"Snakefile": starting + HEAD + RULES})
    with guarded.running("--cores", "1", "slow.txt", until="loading") as first:
        late = recover(guarded, check=False)
        assert late.returncode == 1 and f"another run (process {first.pid}) is running" in late.stdout
    # One that ends before it has the lock is waited for, too, and then nothing is left to do.
    (guarded.root / "loading").unlink()
    with guarded.running("-n", "quick.txt", until="loading") as dry:
        assert recover(guarded).stdout.count("left Snakemake's lock behind") <= 1
        assert dry.wait(PATIENCE) == 0


def test_jobs_of_the_run_that_holds_the_lock_are_not_stopped_by_it(guarded):
    # A run: block starts a Snakemake of its own, which must not ask for the lock.
    guarded.snakemake("--cores", "1", "inner.txt")


@pytest.mark.fault(
    "a run killed with -9",
    happens="its lock is removed, its unfinished outputs are made again",
    do="the same command again",
)
def test_a_killed_run_is_recovered(guarded):
    with guarded.running("--cores", "1", "slow.txt", until="started") as first:
        first.kill()
        first.wait()
        # The job lives on; let it end before it could write over a later one.
        (guarded.root / "go").touch()
        stuck = guarded.snakemake("--cores", "1", "--rerun-incomplete", "slow.txt", check=False)
        assert "LockException" in stuck.stdout
        assert "left Snakemake's lock behind" in recover(guarded).stdout
        assert recover(guarded).stdout == ""
        guarded.snakemake("--cores", "1", "--rerun-incomplete", "slow.txt")
    assert guarded.read("slow.txt") == "done\n"


QUARTO = f"""
import sys
sys.path.insert(0, {str(LIB)!r})
import guards
onstart:
    guards.stop_without_quarto(workflow.dag, config["renderer"])
rule numbers:
    output: "numbers.txt"
    shell: "echo done > {{output}}"
rule render:
    input: "numbers.txt"
    output: "page.html"
    shell: "cp {{input}} {{output}}"
"""


@pytest.mark.fault(
    "a study that is rendered by Quarto, without Quarto",
    happens="the run stops before its first job",
    do="install it, or `renderer: pandoc`",
)
def test_a_run_that_wants_quarto_and_has_none_stops_before_its_first_job(toy):
    toy.write({"Snakefile": QUARTO, "bin/quarto": "#!/bin/sh\n"})
    wanting = ["--config", "renderer=quarto", "--cores", "1"]
    done = toy.snakemake(*wanting, "page.html", check=False)
    assert done.returncode and "no quarto is on PATH; install it from quarto.org, or choose pandoc" in done.stdout
    assert not (toy.root / "numbers.txt").exists()
    # Other targets need none, nor does pandoc.
    toy.snakemake(*wanting, "numbers.txt")
    toy.snakemake("--config", "renderer=pandoc", "--cores", "1", "page.html")
    (toy.root / "page.html").unlink()
    (toy.root / "bin/quarto").chmod(0o755)
    toy.environment["PATH"] += f":{toy.root / 'bin'}"
    toy.snakemake(*wanting, "page.html")


@pytest.mark.fault(
    "a job that fails, here or on a cluster",
    happens="its last line stands at the end of the run",
    do="what the line says",
)
def test_the_last_line_of_each_failed_job_is_told_also_where_a_cluster_has_a_log_of_its_own(tmp_path):
    logs = [tmp_path / name for name in ("here.log", "there.log")]
    for log in logs:
        log.write_text(f"long story\n{log.stem} went wrong\n")
    said = tmp_path / "snakemake.log"
    hint = "(check log file(s) for error details)"
    said.write_text(
        f"Error in rule a:\n    log: {logs[0]} {hint}\nError in rule b:\n    log: {logs[1]}, /c/12.log {hint}\n"
    )
    assert guards.failures([str(said)]) == [f"failed: {log.stem} went wrong (log: {log})" for log in logs]
