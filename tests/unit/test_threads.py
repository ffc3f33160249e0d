"""Threads: every library of a command keeps to its number, whenever it is loaded, and notes tell it."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from threadpoolctl import threadpool_info

from embscale import threads
from embscale.cli import execute
from embscale.provenance.artifacts import note_path, read_note
from sources import ROOT

pytestmark = pytest.mark.long

# Those that this process may use, where the system tells.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()

# A command that loads what the package computes with, and prints how many threads each has.
COMMAND = """
import json, sys, types

def run(args):
    import numpy, scipy.linalg, sklearn.cluster, threadpoolctl, torch

    pools = [(pool["internal_api"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()]
    print(json.dumps([*pools, ("torch", torch.get_num_threads())]))

command = types.ModuleType("embscale.cli.pools", "Print pools.")
command.add_arguments, command.run = lambda parser: None, run
sys.modules[command.__name__] = command
if sys.argv[1] == "before":
    import numpy, scipy.linalg, torch
import embscale.__main__
embscale.__main__.commands = lambda: {"pools": ""}
sys.exit(any([embscale.__main__.main(["pools", *words.split()]) for words in sys.argv[2:]]))
"""
TWO = ["--threads 2", "--threads=2"]


def pools(*words):
    """Of commands, one after another, in a process of their own, where the environment asks for three."""
    environment = os.environ | dict.fromkeys(threads.VARIABLES, "3")
    done = subprocess.run([sys.executable, "-c", COMMAND, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert all({"openblas", "openmp", "torch"} <= {name for name, _ in of_run} for of_run in found)
    return [{number for _, number in of_run} for of_run in found]


def test_every_library_that_a_command_loads_has_one_thread():
    assert pools("meanwhile", "") == [{1}]


@pytest.mark.skipif(CORES == 1, reason="one core: OpenBLAS starts no second thread")
@pytest.mark.parametrize("words", TWO)
def test_or_as_many_as_requested(words):
    assert pools("meanwhile", words) == [{2}]


@pytest.mark.skipif(CORES == 1, reason="one core: OpenBLAS starts no second thread")
def test_libraries_that_were_loaded_before_have_them_too():
    assert pools("before", "", *TWO) == [{1}, {2}, {2}]


def test_a_caller_has_its_own_threads_again(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)

    def now():
        numbers = [pool["num_threads"] for pool in threadpool_info()]
        return numbers, torch.get_num_threads(), {name: os.environ.get(name) for name in threads.VARIABLES}

    before = now()
    with pytest.raises(ZeroDivisionError), threads.limited(3):
        assert threads.limit() == torch.get_num_threads() == 3
        assert set(now()[2].values()) == {"3"}
        raise ZeroDivisionError
    assert now() == before and threads.limit() is None


@pytest.mark.parametrize("words", [[], ["--threads", "2"]])
def test_a_note_holds_the_number_beside_the_commands_own_parameters(checkpoint, tmp_path, words):
    assert execute("extract", [str(checkpoint("gpt2")), "-o", str(tmp_path / "t.safetensors"), *words]) == 0
    params = read_note(note_path(tmp_path / "t.safetensors"))["params"]
    assert params["threads"] == (2 if words else 1) and params["table"] == "input"


@pytest.mark.parametrize("word", ["0", "-1", "all"])
def test_no_number_of_threads_is_refused(word, capsys):
    with pytest.raises(SystemExit):
        execute("extract", ["x", f"--threads={word}", "-o", "y"])
    assert "is no number of threads, which is at least 1" in capsys.readouterr().err


COMPUTING = {
    "ablate", "compare_tables", "evaluate", "faithful_layers", "geometry", "grid", "layer_scores", "logit_lens",
    "position_scores", "primer_of_table", "probe", "reductions", "score", "score_factors", "score_faithful",
    "score_faithful_random", "score_random", "score_references", "score_static", "states", "static", "table_metrics",
    "train", "transfer", "tune", "warm_start", "words", "worked_example",
}  # fmt: skip

# A rule's name: its own, or, of one that is made for each suite, what its names begin with.
NAME = re.compile(r'\s*rule (\w+):|\s*rule:\s+name:\s+f"(\w+)_\{')


def test_rules_that_compute_hand_their_threads_on():
    """So that ``--set-threads probe=4`` reaches the libraries, and the note says so."""
    rules = {
        "".join(filter(None, NAME.match(rule).groups()))
        for file in sorted((ROOT / "workflow" / "rules").glob("*.smk"))
        for rule in re.split(r"\n(?=\s*rule[ :])", file.read_text("utf-8"))
        if "--threads {threads}" in rule
    }
    assert rules == COMPUTING


def test_nothing_else_sets_threads():
    setters = re.compile(r"set_num_threads|threadpool_limits|_NUM_THREADS")
    files = [path for path in (ROOT / "src").rglob("*.py") if setters.search(path.read_text("utf-8"))]
    assert [path.name for path in files] == ["threads.py"]
