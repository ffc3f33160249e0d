"""Reading the Snakefile changes nothing; the main process does once what must come first; jobs learn its plan."""

import json

import pytest

import main_process
import sources
from embscale.checkpoints.suites import load, plan
from main_process import Handed

ROOT = sources.ROOT
SRC, LIB = ROOT / "src", ROOT / "workflow/lib"

SNAKEFILE = f"""
import sys
sys.path[:0] = [{str(SRC)!r}, {str(LIB)!r}]
from main_process import Handed, before_graph, changes_results
def act():
    with open("acted", "a") as file:
        file.write("run " if changes_results(workflow) else "look ")
before_graph(workflow, act)
HANDED = Handed(config, main=workflow.is_main_process)
TOKEN = HANDED.token(lambda: workflow.is_main_process)
onstart:
    HANDED.hand_down()
rule all:
    input: "a.txt", "b.txt"
rule a:
    output: "{{name}}.txt"
    params: token=TOKEN
    run:
        open(output[0], "w").write(f"{{TOKEN}} {{params.token}}")
"""


@pytest.fixture
def acting(toy):
    toy.write({"Snakefile": SNAKEFILE})
    return toy


def acted(toy):
    return toy.read("acted").split() if (toy.root / "acted").exists() else []


def test_only_who_asks_what_is_stale_acts_and_a_run_says_that_it_changes_results(acting):
    for reading in ("--lint", "--list-rules"):
        acting.snakemake(reading, check=False)
        assert acted(acting) == []
    acting.snakemake("-n")
    assert acted(acting) == ["look"]
    # Each of the two jobs is a Snakemake that reads the file anew.
    acting.snakemake("--cores", "1")
    assert acted(acting) == ["look", "run"]
    acting.snakemake("--summary")
    assert acted(acting) == ["look", "run", "look"]


WAITING = f"""
import sys
sys.path[:0] = [{str(SRC)!r}, {str(LIB)!r}]
from main_process import before_graph, look_when_jobs_end
before_graph(workflow, lambda: look_when_jobs_end(workflow))
rule all:
    input: expand("{{i}}.txt", i=range(4))
rule one:
    output: "{{i}}.txt"
    shell: "sleep 1.5; touch {{output}}"
"""


def test_waiting_jobs_are_looked_at_only_when_another_has_ended(toy):
    toy.write({"Snakefile": WAITING})
    run = toy.snakemake("--cores", "1", "--verbose")
    # The four jobs, and the target that waits for them.
    assert run.stdout.count("Ready jobs:") == 5


def test_jobs_take_what_the_main_process_found_not_what_they_would_find(acting):
    acting.snakemake("--cores", "1")
    assert {acting.read(f"{name}.txt") for name in "ab"} == {"True True"}


def test_whoever_imports_the_file_as_a_module_changes_nothing_by_reading_it(acting):
    acting.write({"outer/Snakefile": 'module study:\n    snakefile: "../Snakefile"\nuse rule * from study\n'})
    acting.snakemake("--lint", "--snakefile", "outer/Snakefile", check=False)
    acting.snakemake("--list-rules", "--snakefile", "outer/Snakefile")
    assert acted(acting) == []


def test_the_projects_own_file_is_linted_without_a_trace(copy_of_checkout, project):
    """In a folder whose results call for every kind of change."""
    study = project(copy_of_checkout("linted"))
    study.write({"results/desk/unknown.txt": "no record", "results/desk/memory.json.xz": "damaged"})
    study.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    before = {path: path.stat().st_mtime_ns for path in study.root.rglob("*") if path.is_file()}
    study.snakemake("--lint")
    study.snakemake("--list-rules")
    after = {path: path.stat().st_mtime_ns for path in study.root.rglob("*") if path.is_file()}
    ours = {path: time for path, time in after.items() if path.parent.name != "log"}
    assert ours == before
    assert "memory.json.xz: damaged" in study.snakemake("-n", check=False).stdout


@pytest.fixture(scope="module")
def every_checkpoint():
    """The plan of a study of all suites, some of which cannot be fetched."""
    registry = load(
        ROOT / "workflow/suites.yaml", ROOT / "workflow/pins.yaml", schema=ROOT / "workflow/schema/suites.schema.yaml"
    )
    limits = {"max_table_gb": 2.0, "max_checkpoint_gb": 5.0, "max_download_gb": 1e9}
    return plan(registry, list(registry), layer_suites=[], local_paths={}, token=False, **limits)


def test_a_plan_comes_down_as_it_was_made(tmp_path, every_checkpoint):
    path = tmp_path / ".snakemake/plan.json"
    main = Handed({"study": "a"}, main=True, path=path)
    assert main.plan(lambda: every_checkpoint) == every_checkpoint
    main.token(lambda: True)
    main.hand_down()
    job = Handed({"study": "a"}, main=False, path=path)
    assert job.plan(pytest.fail) == every_checkpoint
    assert len({item.status for item in every_checkpoint}) > 1
    assert job.token(lambda: False) is True


def test_what_was_handed_down_for_other_parameters_or_not_at_all_is_found_anew(tmp_path):
    path = tmp_path / ".snakemake/plan.json"
    assert Handed({"study": "a"}, main=False, path=path).token(lambda: False) is False
    main = Handed({"study": "a"}, main=True, path=path)
    main.token(lambda: True)
    main.plan(list)
    main.hand_down()
    assert Handed({"study": "b"}, main=False, path=path).token(lambda: False) is False
    # A main process finds out by itself, whatever an earlier one left.
    assert Handed({"study": "a"}, main=True, path=path).token(lambda: False) is False
    path.write_text("{")
    assert Handed({"study": "a"}, main=False, path=path).token(lambda: False) is False


@pytest.mark.fault(
    "a source edited while the workflow runs",
    happens="jobs hold what they ran against the sources that the run began with",
    do="nothing",
)
def test_sources_are_those_of_the_main_process_though_they_change_while_it_runs(tmp_path, monkeypatch):
    path = tmp_path / ".snakemake/plan.json"
    main = Handed({}, main=True, path=path)
    assert main.command_sources("score") == sources.command_sources("score")
    main.token(lambda: False)
    main.plan(list)
    main.hand_down()
    monkeypatch.setattr(main_process, "command_sources", lambda *names: ["another"])
    job = Handed({}, main=False, path=path)
    assert job.command_sources("score") == sources.command_sources("score")
    assert job.command_sources("keep") == ["another"]
    assert json.loads(path.read_text())["sources"].keys() == {"score"}
