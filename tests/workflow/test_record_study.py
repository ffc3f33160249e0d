"""The record on a whole study, the tiny one: clones, experiments, damage and kills."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

pytestmark = pytest.mark.slow

RECORD = "recorded/tiny"
RESULTS = "results/tiny"
NOTHING = "Nothing to be done"
UP_TO_DATE = "Data and pipelines are up to date.\n"
PROBES = "layers.inverse_regularisation"


def merged(base, overlay):
    both = dict(base)
    for key, value in overlay.items():
        both[key] = merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
    return both


@pytest.fixture(scope="module")
def study(copy_of_checkout, project):
    """A repository whose params.yaml is the tiny study, recorded, pushed and committed."""
    toy = project(copy_of_checkout("study"))
    params, overlay = (yaml.safe_load(toy.read(name)) for name in ("params.yaml", "studies/tiny.yaml"))
    toy.write({"params.yaml": yaml.safe_dump(merged(params, overlay), sort_keys=False)})
    # The tiny study has nothing for one folder, which the pipeline of an overlay makes.
    one = "cmd: snakemake --cores all -- chapter_training"
    assert one in toy.read("dvc.yaml")
    both = one.replace("cmd: ", "cmd:\n      - mkdir -p results/tiny/static\n      - ")
    toy.write({"dvc.yaml": toy.read("dvc.yaml").replace(one, both)})
    for name in ("dvc.lock", "recorded", "remote"):
        subprocess.run(["rm", "-rf", name], cwd=toy.root, check=True)
    initialised(toy)
    toy.dvc("repro", "-q")
    assert "recorded: tiny: " in toy.python("workflow/lib/publish.py").stdout
    commit(toy, "record")
    return toy


def initialised(toy):
    toy.git("init", "-q")
    commit(toy, "start")
    set_up(toy)


def set_up(toy):
    """What a user has: a name in git, and the package of this checkout."""
    toy.git("config", "user.name", "t")
    toy.git("config", "user.email", "t@example.org")
    toy.environment |= {"PYTHONPATH": str(toy.root / "src"), "OMP_NUM_THREADS": "1"}


def commit(toy, words):
    toy.git("add", "-A")
    toy.git("commit", "-qm", words)


@pytest.fixture
def clone(study, project, tmp_path):
    """A fresh clone in another folder, its results fetched."""
    study.git("clone", "-q", str(study.root), str(tmp_path / "clone"))
    toy = project(tmp_path / "clone")
    set_up(toy)
    fetch(toy)
    return toy


def fetch(toy, *arguments):
    return toy.python("workflow/lib/fetch.py", *arguments)


@pytest.fixture
def computed(study, project, tmp_path):
    """A copy of the repository in which the study was computed, tensors and all."""
    shutil.copytree(study.root, tmp_path / "computed", symlinks=True)
    toy = project(tmp_path / "computed")
    set_up(toy)
    return toy


def wanted(toy, *arguments):
    """The rules that a dry run would run."""
    lines = toy.snakemake("-n", *arguments).stdout.splitlines()
    return {line.split()[1].rstrip(":") for line in lines if line.startswith(("rule ", "localrule "))} - {"all"}


def set_parameter(toy, name, value):
    params = yaml.safe_load(toy.read("params.yaml"))
    *groups, key = name.split(".")
    group = params
    for part in groups:
        group = group[part]
    group[key] = value
    toy.write({"params.yaml": yaml.safe_dump(params, sort_keys=False)})


def edit(path, change):
    """Change a file's bytes and keep its times."""
    before = path.stat()
    path.write_bytes(change(path.read_bytes()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_after_a_fetch_nothing_is_left_to_do(clone):
    assert NOTHING in clone.snakemake("-n").stdout
    assert clone.dvc("status").stdout == UP_TO_DATE
    assert clone.dvc("repro").stdout.endswith(UP_TO_DATE)
    assert clone.git("status", "--short").stdout == ""
    assert not list(clone.root.glob("results/**/*.safetensors"))
    assert "were recorded in this repository" in clone.read("report/_site/index.html")


def test_a_report_of_ones_own_leaves_the_clone_clean_and_does_not_pass_for_the_record(clone):
    rows = pd.read_csv(clone.root / RECORD / "scores.csv", dtype=str, keep_default_na=False)
    rows.loc[0, "value"] = "0.5"
    rows.to_csv(clone.root / RECORD / "scores.csv", index=False)
    commit(clone, "as if the record came from another processor")
    clone.snakemake("--cores", "2", "--quiet", "all")
    assert clone.git("status", "--short").stdout == ""
    page = re.sub(r"\s+", " ", clone.read("report/_site/index.html"))
    assert f"are not the recorded ones (scores: {len(rows) - 1} of {len(rows)} equal to the last digit" in page


@pytest.mark.fault(
    "a study recorded on another processor",
    happens="the record is replaced, and the difference shown",
    do="`git checkout` restores the earlier one",
)
def test_after_a_report_on_another_processor_the_record_is_replaced_and_the_difference_is_reported(
    study, project, tmp_path
):
    study.git("clone", "-q", str(study.root), str(tmp_path / "elsewhere"))
    toy = project(tmp_path / "elsewhere")
    set_up(toy)
    here = dict(toy.environment)
    # Without the wide instructions of this processor torch rounds as an older one does.
    toy.environment |= {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"}
    toy.snakemake("--cores", "2", "--quiet", "all")
    assert toy.git("status", "--short").stdout == ""
    computed = toy.read(f"{RESULTS}/scores.csv")
    assert computed != study.read(f"{RESULTS}/scores.csv")
    toy.environment = here
    told = toy.dvc("repro").stdout
    assert "The results of this machine are not those recorded in git: scores: " in told
    assert "Another processor rounds differently" in told and "`git checkout recorded/tiny dvc.lock`" in told
    assert toy.read(f"{RESULTS}/scores.csv") == computed, "what was there is recorded, not computed again"
    assert toy.read(f"{RECORD}/scores.csv") == toy.read(f"{RESULTS}/kept/scores.csv")
    assert toy.dvc("status").stdout == UP_TO_DATE and NOTHING in toy.snakemake("-n").stdout
    assert "were recorded in this repository" in toy.read("report/_site/index.html")
    assert "not those recorded" not in toy.dvc("repro", "--force", "--single-item", "record").stdout


@pytest.mark.fault(
    "a parameter changed where the tensors are missing", happens="what it reaches runs again", do="nothing"
)
@pytest.mark.parametrize(
    ("name", "value", "rules"),
    [
        ("ladder.warmup", 3, {"train_ladder", "extract_ladder", "score", "states", "probe", "render"}),
        (PROBES, 0.5, {"train_ladder", "states", "probe", "render"}),
        ("scores.bootstrap_resamples", 100, {"gather", "claims", "render"}),
    ],
)
def test_a_changed_parameter_is_seen_without_the_tensors_and_changed_back_nothing_is_left(clone, name, value, rules):
    before = clone.read("params.yaml")
    set_parameter(clone, name, value)
    assert rules <= wanted(clone)
    assert "params.yaml" in clone.dvc("status").stdout
    clone.write({"params.yaml": before})
    assert wanted(clone) == set()
    assert clone.dvc("status").stdout == UP_TO_DATE


@pytest.mark.fault("a source edited, under any time", happens="the jobs that can reach it run again", do="nothing")
def test_a_dirty_source_is_seen_whatever_its_time(clone):
    edit(clone.root / "src/embscale/training/ladder.py", lambda source: source + b"# a remark\n")
    assert {"train_ladder", "score", "render"} <= wanted(clone)
    assert "src/embscale" in clone.dvc("status").stdout


def test_with_the_tensors_a_probe_parameter_reruns_probes_figures_and_report(computed):
    set_parameter(computed, PROBES, 0.5)
    follow = {"layer_claims", "draw", "keep", "appendix", "numbers", "check", "explorer", "render", "publish"}
    assert wanted(computed) == {"probe", "grid", "ablate", "transfer"} | follow


@pytest.mark.fault("an older commit, then `dvc checkout`", happens="nothing is to be done", do="nothing")
def test_the_older_record_comes_back_with_dvc_checkout(computed):
    set_parameter(computed, "scores.bootstrap_resamples", 100)
    computed.dvc("repro", "-q")
    assert computed.python("workflow/lib/publish.py").returncode == 0
    commit(computed, "fewer resamples")
    newer = computed.read(f"{RESULTS}/scores.csv")
    for revision, same in (("HEAD~1", False), ("-", True)):
        computed.git("checkout", "-q", revision)
        computed.dvc("checkout", "-q")
        assert (computed.read(f"{RESULTS}/scores.csv") == newer) is same
        assert NOTHING in computed.snakemake("-n").stdout
        assert computed.dvc("status").stdout == UP_TO_DATE


@pytest.mark.fault(
    "a part of an older record among newer results", happens="it is made again, not recorded as of now", do="nothing"
)
def test_a_part_of_an_older_record_is_not_recorded_as_of_now(computed):
    """The trap: results of other parameters under the newest records of Snakemake."""
    set_parameter(computed, "layers.texts_seed", 2)
    computed.dvc("repro", "-q")
    commit(computed, "other texts")
    newer = computed.read(f"{RESULTS}/probes/ladder-w8.csv")
    computed.git("checkout", "-q", "HEAD~1", "--", "dvc.lock")
    computed.dvc("checkout", "-q", f"{RESULTS}/probes")
    computed.git("checkout", "-q", "HEAD", "--", "dvc.lock")
    assert computed.read(f"{RESULTS}/probes/ladder-w8.csv") != newer
    computed.dvc("repro", "-q")
    assert computed.read(f"{RESULTS}/probes/ladder-w8.csv") == newer


@pytest.mark.fault("a result truncated", happens="every run stops and names it", do="`make fetch`")
@pytest.mark.parametrize(
    "path", ["scores.csv", "per_query/NetworkXSeeAlso/ladder-w8.parquet", "tables/ladder-w8/step6.safetensors"]
)
@pytest.mark.parametrize("change", [lambda content: content[:-7], lambda content: content.replace(b"0", b"1", 1)])
def test_a_truncated_or_edited_result_stops_every_run_and_fetch_fixes_it(computed, path, change):
    found = computed.root / RESULTS / path
    whole = found.read_bytes()
    edit(found, change)
    for command in (("snakemake", "-n"), ("dvc", "repro")):
        done = computed.python("-m", *command, check=False)
        if command[0] == "dvc" and path.endswith(".safetensors"):
            continue  # no output of DVC, and nothing that DVC looks at has changed
        assert done.returncode != 0 and f"{path}: not what" in done.stdout
    computed.python("workflow/lib/reconcile.py")
    computed.dvc("checkout", "-q")
    computed.snakemake("--cores", "2", "--quiet", "all", "--", "chapter_ladder", "all")
    assert found.read_bytes() == whole
    assert NOTHING in computed.snakemake("-n").stdout


def accuracy(toy):
    return json.loads(toy.read(f"{RECORD}/metrics.json"))["accuracy"]


def test_experiments_give_the_numbers_of_a_run_with_those_parameters(computed, project, tmp_path):
    """Truth is a run of Snakemake alone with the parameter set by hand."""
    shutil.copytree(computed.root, tmp_path / "truth", symlinks=True)
    truth = project(tmp_path / "truth")
    set_up(truth)
    set_parameter(truth, PROBES, 0.001)
    truth.snakemake("--cores", "2", "--quiet", "all")
    expected = json.loads(truth.read(f"{RESULTS}/kept/metrics.json"))["accuracy"]
    assert expected != accuracy(computed)

    computed.dvc("exp", "run", "-q", "--temp", "--name", "temp", "-S", f"{PROBES}=0.001")
    computed.dvc("exp", "run", "-q", "--queue", "--name", "queued", "-S", f"{PROBES}=0.001")
    computed.dvc("queue", "start", "-q")
    deadline = time.monotonic() + 600
    while "Success" not in computed.dvc("queue", "status").stdout:
        assert time.monotonic() < deadline, computed.dvc("queue", "status").stdout
        time.sleep(3)
    computed.dvc("exp", "run", "-q", "--name", "here", "-S", f"{PROBES}=0.001")
    assert accuracy(computed) == expected
    for name in ("temp", "queued", "here"):
        reference = computed.git("rev-parse", f"refs/exps/{name}", check=False)
        commits = computed.git("for-each-ref", "--format=%(objectname) %(refname)", "refs/exps").stdout.split("\n")
        (sha,) = [line.split()[0] for line in commits if line.endswith(f"/{name}")]
        stored = json.loads(computed.git("show", f"{sha}:{RECORD}/metrics.json").stdout)
        assert stored["accuracy"] == expected, (name, reference.stdout)

    assert f"{PROBES}  1.0" in re.sub(" +", "  ", computed.dvc("params", "diff").stdout)
    told = json.loads(computed.dvc("metrics", "diff", "--json").stdout)[f"{RECORD}/metrics.json"]
    model, value = next(iter(expected.items()))
    assert told[f"accuracy.{model}"]["new"] == value
    assert f"accuracy.{model}" in computed.dvc("metrics", "show").stdout
    # Scores do not follow the parameter of the probes, so both sides of the plot are equal.
    plots = json.loads(computed.dvc("plots", "diff", "--json").stdout)["data"][f"{RECORD}/curves.csv"]
    points = {
        (point["rev"], point["table"], point["width"]): point["value"]
        for point in plots[0]["content"]["data"]["values"]
    }
    sides = [{key[1:]: value for key, value in points.items() if key[0] == side} for side in ("HEAD", "workspace")]
    assert sides[0] == sides[1] and len(sides[0]) == 2 + 5 + 3


def parts(process):
    """A process and all below it."""
    found = [process]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


@pytest.mark.fault(
    "DVC, Snakemake or jobs killed with -9, twenty times",
    happens="the next run finishes with the bytes of an undisturbed one",
    do="the same command again",
)
def test_killed_at_twenty_moments_the_study_finishes_with_the_same_bytes(study, project, tmp_path):
    generator = random.Random(7)
    study.git("clone", "-q", str(study.root), str(tmp_path / "killed"))
    toy = project(tmp_path / "killed")
    set_up(toy)
    kinds = {"snakemake": 0, "dvc": 0, "job": 0}
    while sum(kinds.values()) < 20:
        recover(toy)
        command = [["snakemake", "--cores", "2"], ["dvc", "repro"]][sum(kinds.values()) % 2]
        run = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=toy.root, env=toy.environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        time.sleep(generator.uniform(1, 12))
        try:
            below = parts(run.pid)[1:]
            victim = generator.choice([run.pid, *below])
            os.kill(victim, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            continue  # the run, or that part of it, ended first
        kinds[command[0] if victim == run.pid else "job"] += 1
        if victim != run.pid:
            os.kill(run.pid, signal.SIGKILL)
        run.wait()
        if (toy.root / "report/_site/index.html").exists():
            subprocess.run(["rm", "-rf", RESULTS, "report/_site"], cwd=toy.root, check=True)
    assert kinds["job"] and kinds["snakemake"] + kinds["dvc"], kinds
    recover(toy)
    toy.dvc("repro", "-q")
    for name in ("scores.csv", "kept/layers.csv", "claims.csv"):
        assert (toy.root / RESULTS / name).read_bytes() == (study.root / RESULTS / name).read_bytes(), name
    assert NOTHING in toy.snakemake("-n").stdout
    assert not list((toy.root / RESULTS).rglob(".unfinished-*"))


def recover(toy):
    """What the verbs begin with; a Snakemake that outlived its DVC is ended, as the message says."""
    done = toy.python("workflow/lib/recover.py", check=False)
    if done.returncode:
        (pid,) = re.findall(r"another run \(process (\d+)\) is running", done.stdout)
        os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.5)
        toy.python("workflow/lib/recover.py")


PARAMETERS = {
    "corpus": ("min_characters", 120),
    "tokenizer": ("max_length", 100),
    "ladder": ("warmup", 3),
    "hub": ("max_table_gb", 7.0),
    "scores": ("bootstrap_seed", 2),
    "claims": ("task", "SCIDOCS"),
    "layers": ("texts_seed", 2),
}


@pytest.mark.parametrize("group", PARAMETERS)
def test_the_stage_of_every_rule_that_a_parameter_reaches_lists_it(computed, group):
    key, value = PARAMETERS[group]
    stages = yaml.safe_load(computed.read("dvc.yaml"))["stages"]
    set_parameter(computed, f"{group}.{key}", value)
    told = computed.snakemake("-n").stdout
    first = set(re.findall(r"^rule (\w+):\n(?:    .*\n)*?    reason: (?:Params|Code|Set of input)", told, re.MULTILINE))
    assert first, told[-2000:]
    rows = [line.split("\t") for line in computed.snakemake("--summary").stdout.splitlines() if "\t" in line]
    listed = [(path, name) for name, stage in stages.items() for out in stage.get("outs", []) for path in out]
    outs = {path.replace("${study}", "tiny"): name for path, name in listed}
    for row in rows:
        if row[2] in first:
            (owner,) = {
                name for path, name in outs.items() if f"{row[0]}/".startswith(f"{path.replace('${study}', 'tiny')}/")
            }
            assert group in stages[owner]["params"], f"{owner}: the rule {row[2]} follows {group}"


def test_the_carried_record_is_small_and_whole(study):
    files = list((study.root / "remote/tiny").iterdir())
    stages = yaml.safe_load(study.read("dvc.yaml"))["stages"]
    assert {path.name.removesuffix(".tar.xz") for path in files} <= set(stages)
    listed = study.dvc("list", ".", "--recursive", "--dvc-only", "--size", "--json").stdout
    recorded = {row["path"]: row["size"] for row in json.loads(listed) if not row["path"].startswith("recorded/")}
    assert sum(path.stat().st_size for path in files) < sum(recorded.values()) / 4
    assert not [name for name in recorded if name.endswith(".safetensors") or "/step" in name]


@pytest.mark.fault("`.snakemake/metadata` lost", happens="the next run takes it from the record", do="nothing")
def test_lost_records_of_snakemake_come_back(clone):
    assert NOTHING in clone.snakemake("-n").stdout
    shutil.rmtree(clone.root / ".snakemake/metadata")
    assert NOTHING in clone.snakemake("-n").stdout


def test_after_a_run_the_record_is_outdated_and_put_back_it_does_not_pass_for_that_run(computed):
    memory = f"{RESULTS}/memory.json.xz"
    set_parameter(computed, "scores.bootstrap_resamples", 100)
    computed.snakemake("--cores", "2", "--quiet", "all")
    assert NOTHING in computed.snakemake("-n").stdout
    assert not (computed.root / memory).exists() and memory in computed.dvc("status").stdout
    # The results of the record again, under the parameter of that run.
    computed.dvc("checkout", "-q", "--force")
    assert (computed.root / memory).exists()
    assert {"gather", "render"} <= wanted(computed)


def test_a_second_study_is_recorded_and_fetched_beside_the_first(computed, project, tmp_path):
    before = {path: path.read_bytes() for path in (computed.root / "remote/tiny").iterdir()} | {
        name: (computed.root / name).read_bytes() for name in ("dvc.lock", f"{RESULTS}/memory.json.xz")
    }
    other = ["--configfile", "studies/second.yaml"]
    computed.write({"studies/second.yaml": "study: second\nlayers: {epochs: 6}\n"})
    computed.python("workflow/lib/pipelines.py", "--write", "second")
    computed.dvc("repro", "-q", "recorded/second/dvc.yaml")
    assert "recorded: second: " in computed.python("workflow/lib/publish.py", "second").stdout
    assert {path: (computed.root / path).read_bytes() for path in before} == before
    assert computed.dvc("status").stdout == UP_TO_DATE
    assert NOTHING in computed.snakemake("-n").stdout and NOTHING in computed.snakemake("-n", *other).stdout
    commit(computed, "record the second study")

    computed.git("clone", "-q", str(computed.root), str(tmp_path / "both"))
    toy = project(tmp_path / "both")
    set_up(toy)
    fetch(toy, "second")
    assert NOTHING in toy.snakemake("-n", *other).stdout
    assert toy.dvc("status", "recorded/second/dvc.yaml").stdout == UP_TO_DATE
    assert "were recorded in this repository" in toy.read("report/_site/studies/second/index.html")
    assert not (toy.root / RESULTS).exists()
    fetch(toy)
    assert NOTHING in toy.snakemake("-n").stdout and NOTHING in toy.snakemake("-n", *other).stdout
    assert toy.dvc("status").stdout == UP_TO_DATE and toy.git("status", "--short").stdout == ""
    assert toy.dvc("repro", "recorded/second/dvc.yaml").stdout.endswith(UP_TO_DATE)

    # The overlay, and nothing else, makes the second study stale.
    toy.write({"studies/second.yaml": "study: second\nlayers: {epochs: 7}\n"})
    assert "studies/second.yaml" in toy.dvc("status").stdout
    assert toy.dvc("status", "dvc.yaml").stdout == UP_TO_DATE
    assert toy.dvc("repro", "--dry").stdout.endswith(UP_TO_DATE)
    assert "probe" in wanted(toy, *other) and wanted(toy) == set()
