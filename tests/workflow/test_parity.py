"""dvc.yaml is written by hand, and that of an overlay made from it; this holds both against the rules."""

import itertools
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

import pipelines

ROOT = Path(__file__).parents[2]
TEMPLATE = (ROOT / "dvc.yaml").read_text()
TARGET = re.compile(r"snakemake --cores all( --configfile (?P<overlay>\S+))? -- (?P<target>\w+)")
SOURCES = {"src/embscale", "workflow", "Snakefile", "requirements.lock"}
HUB = "results/hub/"
MEMORY = "memory.json.xz"
# The study whose recorded answers the report of every other shows.
BESIDE = yaml.safe_load((ROOT / "params.yaml").read_text())["report"]["beside"]
# The study of params.yaml, and an overlay, which stands for all others.
STUDIES = ["desk", "tiny"]


# A job in what a dry run prints.
JOB = re.compile(
    r"^(local)?rule (?P<rule>\w+):\n(    input: (?P<input>.*)\n)?(    output: (?P<output>.*)\n)?", re.MULTILINE
)


def named(match, part):
    """Files of a job's inputs or outputs; what a dry run says of them stands in brackets."""
    return [re.sub(r" \(.*\)$", "", name) for name in (match[part] or "").split(", ") if name]


def commands(stage):
    return stage["cmd"] if isinstance(stage["cmd"], list) else [stage["cmd"]]


def outputs(stage):
    """Outputs of a stage with their options, metrics and plots among them."""
    return {
        path: options
        for kind in ("outs", "metrics", "plots")
        for out in stage.get(kind, [])
        for path, options in out.items()
    }


def within(path, folders):
    """The folders and files of a list that hold a path."""
    return [folder for folder in folders if path == folder or path.startswith(f"{folder}/")]


@pytest.fixture(scope="module", params=STUDIES)
def stages(request, copy_of_checkout):
    """The stages of a study, each with the files that its target needs: file to rule and inputs."""
    folder = copy_of_checkout(f"parity-{request.param}")
    template = (folder / "dvc.yaml").read_text()
    overlay = None if request.param == "desk" else f"studies/{request.param}.yaml"
    text = pipelines.of_overlay(template, request.param) if overlay else template.replace("${study}", request.param)
    found = yaml.safe_load(text)["stages"]

    def needed(stage):
        matches = [match for command in commands(stage) if (match := TARGET.fullmatch(command))]
        if not matches:
            return {}
        (match,) = matches
        assert match["overlay"] == overlay
        other = ["--configfile", overlay] if overlay else []
        plan = subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "1", "-n", "--forceall", *other, "--", match["target"]],
            cwd=folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        jobs = [(match["rule"], *(named(match, part) for part in ("input", "output"))) for match in JOB.finditer(plan)]
        return {output: (rule, inputs) for rule, inputs, outputs in jobs for output in outputs}

    with ThreadPoolExecutor(2) as pool:
        for stage, files in zip(found.values(), pool.map(needed, found.values()), strict=True):
            stage["needed"] = files
    seen = set()
    for stage in found.values():
        stage["makes"] = {path: row for path, row in stage["needed"].items() if path not in seen}
        seen |= set(stage["needed"])
    return found


def test_the_plan_was_understood(stages):
    """Otherwise the other tests would have nothing to find."""
    rules = {rule: inputs for stage in stages.values() for rule, inputs in stage["needed"].values()}
    assert len(rules) > 30
    assert all(
        "src/embscale/__main__.py" in inputs for rule, inputs in rules.items() if rule not in ("text", "publish")
    )


def test_outputs_persist_and_stay_out_of_git_or_out_of_the_cache(stages):
    for stage in stages.values():
        for path, options in outputs(stage).items():
            assert options["persist"], f"{path}: without it DVC deletes the output before the stage runs"
            assert (options.get("cache") is False) == path.startswith("recorded/"), path


def test_every_output_is_made_by_a_rule(stages):
    made = {path for stage in stages.values() for path in stage["needed"]}
    for name, stage in stages.items():
        for out in outputs(stage):
            # What git keeps is copied from results.
            copied = Path("results", *Path(out).parts[1:-1], "kept", Path(out).name)
            found = any(within(path, [str(copied) if out.startswith("recorded/") else out]) for path in made)
            # A study may have nothing for a folder, which its pipeline makes.
            empty = any(command.startswith("mkdir -p ") and out in command.split() for command in commands(stage))
            assert found or empty or Path(out).name == MEMORY, f"{name}: no rule makes {out}"


def test_every_result_of_a_rule_is_an_output_of_one_stage_no_earlier_than_it_is_made(stages):
    owners = {out: place for place, stage in enumerate(stages.values()) for out in outputs(stage)}
    for place, (name, stage) in enumerate(stages.items()):
        for path, (rule, _) in stage["makes"].items():
            if not path.startswith(HUB):
                found = within(path, owners)
                assert len(found) == 1, f"{path} of the rule {rule} is in {found or 'no output'} of dvc.yaml"
                assert owners[found[0]] >= place, f"{path} is made in the stage {name} but recorded before"


def test_what_the_rules_of_a_stage_read_are_its_dependencies(stages):
    missing = {
        f"{name}: the rule {rule} reads {needed}"
        for name, stage in stages.items()
        for rule, inputs in stage["makes"].values()
        for needed in inputs
        # Of the tables of the report some are made by an earlier target and recorded with the others.
        if needed not in stage["makes"] and not needed.startswith(HUB) and not within(needed, outputs(stage))
        if not within(needed, stage["deps"])
    }
    assert not missing


def test_no_rule_reads_a_folder_that_another_makes(stages):
    """Of a folder Snakemake compares the time alone, so that after a fetch its readers would run again."""
    needed = {path: row for stage in stages.values() for path, row in stage["needed"].items()}
    for path, (rule, inputs) in needed.items():
        for one in inputs:
            assert one not in needed or Path(one).suffix, f"the rule {rule} reads the folder {one} for {path}"


def test_dependencies_are_outputs_of_earlier_stages_or_files_in_git(stages):
    earlier = set()
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name, stage in stages.items():
        for path in stage["deps"]:
            assert path in earlier or any(within(file, [path]) for file in tracked), f"{name}: {path}"
        if name != "memory":
            assert set(stage["deps"]) >= SOURCES
        earlier |= set(outputs(stage))


def test_the_last_stage_keeps_what_snakemake_remembers_of_all_others(stages):
    *others, last = stages.values()
    assert [Path(out).name for out in outputs(last)] == [MEMORY]
    needed = set(last["deps"])
    for stage in reversed(others):
        assert needed & set(outputs(stage)), "the stage could run after the last one"
        needed |= set(stage["deps"])


def test_every_parameter_exists_and_is_used(stages):
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    named = {name for stage in stages.values() for name in stage.get("params", []) if isinstance(name, str)}
    assert named == params.keys()


def test_stages_depend_on_the_whole_overlay_of_their_study():
    """So a line of the overlay that is new reaches them too."""
    made = yaml.safe_load(pipelines.of_overlay(TEMPLATE, "mine"))["stages"]
    for name, stage in yaml.safe_load(TEMPLATE)["stages"].items():
        assert ({"studies/mine.yaml": None} in made[name].get("params", [])) == ("params" in stage)


def test_pipelines_of_studies_share_no_output():
    texts = [TEMPLATE.replace("${study}", "desk"), *(pipelines.of_overlay(TEMPLATE, name) for name in ("a", "b"))]
    owned = [
        [Path(out) for stage in yaml.safe_load(text)["stages"].values() for out in outputs(stage)] for text in texts
    ]
    for one, other in itertools.permutations(owned, 2):
        assert len(one) == len(other) == len(set(one)) > 50
        assert not [(out, of) for out in one for of in other if out == of or of in out.parents]


def test_no_pipeline_makes_what_another_depends_on():
    """Otherwise ``dvc repro`` of one study would compute the other first."""
    texts = [TEMPLATE.replace("${study}", "desk"), pipelines.of_overlay(TEMPLATE, BESIDE)]
    ours, theirs = (yaml.safe_load(text)["stages"].values() for text in texts)
    made = [out for stage in theirs for out in outputs(stage)]
    assert not [(dep, out) for stage in ours for dep in stage["deps"] for out in made if Path(dep) in Path(out).parents]
    assert not [dep for stage in ours for dep in stage["deps"] if dep in made]


def test_no_command_of_an_overlay_computes_another_study():
    for name, stage in yaml.safe_load(pipelines.of_overlay(TEMPLATE, "mine"))["stages"].items():
        for command in commands(stage):
            assert "snakemake" not in command or "--configfile studies/mine.yaml" in command, name
            assert "desk" not in command and "${" not in command, name


def test_the_pipelines_in_git_are_those_that_dvc_yaml_makes():
    for path in ROOT.glob("recorded/*/dvc.yaml"):
        study = path.parent.name
        assert path.read_text() == pipelines.of_overlay(TEMPLATE, study), f"{path}: make record STUDY={study} writes it"
