"""What a run shows of itself: short lines or a bar, errors whole, and a summary at the end."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SNAKEFILE = f"""
import sys, time
sys.path[:0] = [{str(ROOT / "src")!r}, {str(ROOT / "workflow/lib")!r}]
from console import show_progress
from snakemake.logging import logger
from summary import of_dag
show_progress(workflow)
STARTED = time.time()
onsuccess:
    logger.info(of_dag(workflow.dag, STARTED))
onerror:
    logger.info(of_dag(workflow.dag, STARTED))
rule all:
    input: expand("{{name}}.txt", name=["one", "two", "three"])
rule make:
    output: "{{name}}.txt"
    log: "{{name}}.log"
    benchmark: "{{name}}.tsv"
    shell: "echo said of {{wildcards.name}} > {{log}}; test {{wildcards.name}} != bad; touch {{output}}"
rule fetch_thing:
    output: "thing/thing.note.json"
    benchmark: "thing.tsv"
    shell:
        "head -c 2500000 /dev/zero > thing/data;"
        "echo '{{{{\\"outputs\\": {{{{\\"thing/data\\": 1}}}}}}}}' > {{output}}"
"""
RUN = ("--cores", "1", "--show-failed-logs")


@pytest.fixture
def reporting(toy):
    toy.write({"Snakefile": SNAKEFILE})
    return toy


def test_each_job_is_one_short_line_with_the_number_done(reporting):
    lines = reporting.snakemake(*RUN).stdout.splitlines()
    jobs = [line for line in lines if re.match(r" *\d+/4  \d:\d\d:\d\d  ", line)]
    assert [line.split()[0] for line in jobs] == ["0/4", "1/4", "2/4", "3/4"]
    assert sorted(line.split("  ")[-1] for line in jobs) == ["all", "make one", "make three", "make two"]
    assert len(lines) == 7 and not any("shell" in line or "input:" in line for line in lines)


def test_the_summary_counts_what_ran_what_was_there_and_what_was_fetched(reporting):
    reporting.snakemake(*RUN, "one.txt")
    lines = reporting.snakemake(*RUN, "--", "all", "thing/thing.note.json").stdout.splitlines()
    assert re.fullmatch(r"chapter +jobs +time of jobs +peak memory", lines[-3])
    assert re.fullmatch(r"Snakefile +3 +0:00:\d\d +\d+ MiB", lines[-2])
    assert re.fullmatch(r"3 jobs ran in 0:00:\d\d, 1 were up to date; peak memory \d+ MiB; 2\.5 MB fetched", lines[-1])


def test_an_error_is_shown_whole_and_what_ran_is_summed_up(reporting):
    done = reporting.snakemake(*RUN, "--keep-going", "--", "bad.txt", "one.txt", check=False)
    assert done.returncode == 1
    for words in ("Error in rule make:", "said of bad", "(command exited with non-zero exit code)", "1 jobs ran in"):
        assert words in done.stdout


@pytest.mark.parametrize("flag", ["-n", "--verbose", "--printshellcmds"])
def test_who_asks_for_more_gets_all_that_snakemake_says(reporting, flag):
    told = reporting.snakemake(*RUN, flag).stdout
    assert "rule make:" in told and "Job stats:" in told and "0/4" not in told


def test_nothing_to_do_is_reported(reporting):
    reporting.snakemake(*RUN)
    assert "Nothing to be done" in reporting.snakemake(*RUN).stdout


def test_a_terminal_has_one_line_that_is_redrawn_and_taken_away(reporting):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "snakemake", *RUN]
    process = subprocess.Popen(
        command, cwd=reporting.root, env=reporting.environment | {"TERM": "xterm"}, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0
    drawn = shown.decode().split("\r\x1b[K")
    bars = [part for part in drawn if "░" in part or "█" in part]
    assert bars and all("\n" not in bar for bar in bars)
    assert any(re.search(r"█+░+ 1/4  \d:\d\d:\d\d  make ", bar) for bar in bars)
    assert "jobs ran in" in shown.decode().rpartition("█")[2]
