"""The workflow itself: it runs whole on the tiny study, repeats to the byte, and reruns only what changed."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import reconcile
from embscale.cli.primer import CONCEPTS
from embscale.parameters.training import METHODS
from embscale.provenance.notes import read_note

ROOT = Path(__file__).resolve().parents[2]
TINY = ["--configfile", "studies/tiny.yaml"]


def snakemake(folder, *arguments, check=True):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done


def planned(folder, *arguments):
    """How many jobs of each rule would run."""
    output = snakemake(folder, "-n", *TINY, *arguments).stdout
    table = output.rpartition("Job stats:")[2].partition("Reasons:")[0].splitlines()
    rows = [line.split() for line in table if len(line.split()) == 2]
    return {rule: int(count) for rule, count in rows if count.isdigit() and rule not in ("total", "all")}


@contextlib.contextmanager
def edited(path, change):
    """A file with other content for a while."""
    before = path.read_bytes()
    path.write_bytes(change(before))
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.fixture(scope="module")
def checkout(copy_of_checkout):
    """A copy of what git tracks, with the tiny study computed in it."""
    folder = copy_of_checkout("checkout")
    snakemake(folder, *TINY)
    return folder


def test_the_page_is_there_with_all_its_figures(checkout):
    page = (checkout / "report/_site/studies/tiny/index.html").read_text()
    assert page.count("<figure") >= 6 and page.count("<svg") >= 6
    assert "{{<" not in page and "tiny" in page


def test_no_figure_shows_markup_of_its_ticks(checkout):
    """Names of models are no formulas, so that a label that is one would be shown as it is written."""
    figures = list((checkout / "results/tiny/report/figures").glob("*.svg"))
    assert figures and not [figure.name for figure in figures if "mathdefault" in figure.read_text()]


def test_nothing_is_left_to_do(checkout):
    assert "Nothing to be done" in snakemake(checkout, "-n", *TINY).stdout


# Commands that leave a note in every study.
NOTED = {
    "ablate", "appendix", "chapters", "check", "claims", "claims-table", "compare", "compare-tables", "draw",
    "estimates", "explorer", "extract", "factors", "gather", "geometry", "grid", "harvest", "inventory", "keep",
    "layer-claims", "logit-lens", "numbers", "position-scores", "positions", "probe", "project", "query-changes",
    "query-frequency", "reductions", "render", "reproduction", "score", "sizes", "states", "table-geometry",
    "task-correlation", "tokenize", "tokenizer", "train", "transfer", "warm-start", "words", "words-table",
    "worked-example",
}  # fmt: skip


def test_every_command_can_be_run_again_from_its_note_alone(checkout, tmp_path):
    """To the same bytes, so that a second run of the study gives them too; of several methods or concepts, each."""
    folder = tmp_path / "copy"
    shutil.copytree(checkout, folder, symlinks=True)
    paths = sorted(path for part in ("results/tiny", "report/_site") for path in (folder / part).rglob("*.note.json"))
    chosen = {}
    for path in paths:
        note = read_note(path)
        kind = [note["command"], *(note["params"][name] for name in ("method", "concept") if name in note["params"])]
        chosen[" ".join(kind)] = path.relative_to(folder)
    # Static tables of the width of the tuning come from there; one more is that of the warm start.
    parts = {f"tune {method}" for method in (*METHODS, "ladder")} | {"static ppmi-svd"}
    parts |= {f"primer {concept}" for concept in (*CONCEPTS, "sizes")}
    assert NOTED | parts <= set(chosen)
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    # The check counts the modules that notes name, and the process that replays them loads ever more: it comes first.
    order = sorted(chosen, key=lambda kind: kind != "check")
    command = [sys.executable, ROOT / "tests/replay.py", *(chosen[kind] for kind in order)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


@pytest.fixture(scope="module")
def scores(checkout):
    return pd.read_csv(checkout / "results/tiny/scores.csv", dtype={"length": str})


KEYS = ["suite", "model", "run", "step", "variant", "variant_dims", "strength", "seed", "width", "task", "length"]


def test_scores_have_every_row_once_and_are_sane(scores):
    assert not scores.duplicated([*KEYS, "metric"]).any()
    assert set(scores.groupby(KEYS, dropna=False).size()) == {3}  # metrics
    assert scores[["value", "ci_low", "ci_high"]].to_numpy().min() >= 0
    # Where all queries score the same, the mean and that of a resample differ by rounding alone.
    assert (scores["ci_low"] <= scores["value"] + 1e-9).all() and (scores["value"] <= scores["ci_high"] + 1e-9).all()


def test_every_run_and_its_controls_are_scored_alike(scores):
    """Each treatment of the last table at the first length, and tables as they are at all of them."""
    rows = scores[(scores["task"] == "NetworkXSeeAlso") & (scores["metric"] == "ndcg_at_10")]
    treatments = {"crop", "crop_random", "pad", "pad_rms", "unit", "centred", "idf"}
    ladder = rows[rows["suite"] == "ladder"]
    assert set(zip(ladder["model"], ladder["run"], strict=True)) == {
        (model, run) for model in ("ladder-w8", "ladder-w16") for run in (1, 2)
    }
    for _, of_run in ladder.groupby(["model", "run"]):
        first, other = (of_run[of_run["length"] == length] for length in ("16", "all"))
        for step, full, named in (
            (0, "full", "{}"), (6, "full", "{}"), (6, "shuffled", "shuffled+{}")
        ):  # fmt: skip
            variants = {full, *map(named.format, treatments)}
            assert variants <= set(first[first["step"] == step]["variant"])
        assert sorted(zip(other["step"], other["variant"], strict=True)) == [(0, "full"), (6, "full"), (6, "shuffled")]
    random = rows[(rows["suite"] == "random") & (rows["length"] == "16") & (rows["width"] == 8)]
    for _, of_draw in random.groupby("seed"):
        assert set(of_draw["variant"]) == {"random", *(f"random+{treatment}" for treatment in treatments)}


def test_crop_to_the_whole_table_scores_as_the_table(scores):
    """The check that would have caught the first study's cropped tables, whose weights were never loaded."""
    rows = scores[(scores["model"] == "ladder-w8") & (scores["step"] == 6) & (scores["length"] == "16")]
    narrow = rows[rows["task"] == "NetworkXSeeAlso"].set_index(["variant", "run", "metric"])["value"]
    assert len(narrow["crop"]) == 6 and narrow["crop"].equals(narrow["full"])


def recomputed(folder, *arguments):
    """The study's results computed again by a script that shares no code with the project."""
    command = [sys.executable, ROOT / "tests/independent_recomputation.py", folder / "results/tiny", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_other_code_finds_the_same_scores_means_and_intervals(checkout):
    done = recomputed(checkout)
    assert done.returncode == 0 and "0 mismatches" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["estimates", "differences"])
def test_other_code_notices_a_changed_number(checkout, name):
    rows = pd.read_csv(checkout / f"results/tiny/{name}.csv", dtype=str)
    keys = {"model": "ladder-w8", "treatment": "full", "length": "16", "metric": "ndcg_at_10"}
    which = rows.index[(rows[list(keys)] == pd.Series(keys)).all(axis=1)][0]
    rows.loc[which, "value"] = str(float(rows.loc[which, "value"]) + 2e-5)
    with edited(checkout / f"results/tiny/{name}.csv", lambda _: rows.to_csv(index=False).encode()):
        done = recomputed(checkout, "--model", "ladder-w8", "random")
    assert done.returncode == 1 and "value" in done.stderr, done.stdout + done.stderr


# What an edit of a chapter reruns: ledgers link to the figures that chapters show.
REREAD = {"text": 1, "claims_table": 2, "render": 1, "publish": 1}


def test_a_caption_reruns_the_report_only(checkout):
    chapter = checkout / "report/chapters/answers.qmd"
    with edited(chapter, lambda text: text.replace(b"Can I trust this?", b"Is it right?")):
        assert planned(checkout) == REREAD


def test_a_figure_module_reruns_that_figure_and_the_page(checkout):
    with edited(checkout / "src/embscale/figures/random_baseline.py", lambda source: source + b"\n# a remark\n"):
        assert planned(checkout) == {"draw": 1, "appendix": 1, "numbers": 1, "check": 1, "render": 1, "publish": 1}


def test_a_probe_parameter_reruns_probes_and_what_follows(checkout):
    with edited(
        checkout / "studies/tiny.yaml",
        lambda study: study.replace(b"layers:\n", b"layers:\n  inverse_regularisation: 0.5\n"),
    ):
        jobs = planned(checkout)
    assert {rule: jobs.pop(rule) for rule in ("probe", "grid", "ablate", "transfer")} == {
        "probe": 2, "grid": 1, "ablate": 1, "transfer": 1,
    }  # fmt: skip
    # What follows from them, and nothing of tables, words or positions.
    assert set(jobs) <= {
        "draw",
        "layer_claims",
        "claims_table",
        "keep",
        "appendix",
        "numbers",
        "check",
        "explorer",
        "render",
        "publish",
    }


def test_changed_back_there_is_nothing_to_do(checkout):
    assert planned(checkout) == {}


def test_an_edited_result_stops_the_run(checkout):
    states = checkout / "results/tiny/states/docstrings/ladder-w8.safetensors"
    with edited(states, lambda content: content[:-1] + bytes([content[-1] ^ 1])):
        done = snakemake(checkout, *TINY, "--force", "results/tiny/probes/ladder-w8.csv", check=False)
    assert done.returncode != 0
    told = "ladder-w8.safetensors: not what ladder-w8.safetensors.note.json says: changed or damaged after it was made"
    assert told in done.stdout + done.stderr
    snakemake(checkout, *TINY)


def site(folder):
    """What a reader finds."""
    return {path: path.read_bytes() for path in (folder / "report/_site").rglob("*") if path.is_file()}


def test_a_page_that_cannot_be_made_leaves_the_one_before(checkout):
    before = site(checkout)
    with edited(checkout / "report/chapters/answers.qmd", lambda text: text + b"\nSee @fig-none.\n"):
        done = snakemake(checkout, *TINY, check=False)
        assert site(checkout) == before
    assert done.returncode != 0
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("failed: ")]
    assert len(told) == 1 and "answers.qmd" in told[0] and "@fig-none: no such label" in told[0]
    assert planned(checkout) == REREAD
    snakemake(checkout, *TINY)
    assert site(checkout).keys() == before.keys()


FAILING = """#!/bin/sh
[ "$1" = --version ] && echo 1.10.18 && exit
printf 'ERROR: Something in\\n  this text.\\n\\nStack trace:\\n    at f (file:///q.js:1:2)\\n' >&2
exit 1
"""


def test_quarto_is_asked_for_by_a_parameter(checkout, tmp_path, monkeypatch):
    before = site(checkout)
    others = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "quarto").exists()]
    with edited(checkout / "studies/tiny.yaml", lambda study: study + b"report:\n  renderer: quarto\n"):
        monkeypatch.setenv("PATH", os.pathsep.join(others))
        done = snakemake(checkout, *TINY, check=False)
        assert done.returncode != 0 and "no quarto is on PATH; install it" in done.stdout + done.stderr
        assert (checkout / "results/tiny/page/index.html").is_file(), "a job was started"
        (tmp_path / "quarto").write_text(FAILING)
        (tmp_path / "quarto").chmod(0o755)
        monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), *others]))
        done = snakemake(checkout, *TINY, check=False)
        told = "index.qmd: Quarto failed: ERROR: Something in this text. (exit status 1)"
        assert done.returncode != 0 and f"failed: embscale render: results/tiny/report/{told} (log: " in (
            done.stdout + done.stderr
        )
        assert site(checkout) == before
    snakemake(checkout, *TINY)


def test_a_folder_is_ready_for_quarto_by_hand(checkout):
    folder = checkout / "results/tiny/report"
    settings = yaml.safe_load((folder / "_metadata.yml").read_text())
    page = folder / "_page/index.html"  # where Quarto puts it
    addresses = [*(link["url"] for link in settings["links"]), f"{settings['data']}/scaling.csv.gz"]
    assert len(addresses) == 3 and settings["commit"] and settings["machine"]
    for address in addresses:
        place = Path(os.path.normpath(page.parent / address))
        assert place.is_file() and place.is_relative_to(checkout / "report/_site/studies/tiny")
    # What Quarto leaves there is no result, so that nothing is stale or unknown.
    for name in ("_page/index.html", "_page/figures/scaling.svg", ".quarto/xref/x", ".gitignore"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("by hand")
    done = snakemake(checkout, "-n", *TINY)
    assert "Nothing to be done" in done.stdout and "no record" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("stduy=x", "stduy: unknown key"),
        ("ladder={'steps': 'many'}", 'ladder.steps: given "many" (text); allowed: a whole number at least 1'),
        ("layers={'splits': ['word']}", "allowed: one of text, token, vector"),
    ],
)
def test_a_wrong_parameter_stops_before_the_first_job(checkout, config, message):
    done = snakemake(checkout, "-n", *TINY, "--config", config, check=False)
    assert done.returncode != 0 and message in done.stdout + done.stderr


def outputs(folder, study):
    """Everything that the rules write for a study of this name, but for what is fetched."""
    done = snakemake(folder, "-n", "--summary", *TINY, "--config", f"study={study}")
    rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    return {Path(row[0]) for row in rows[1:]}


@pytest.fixture(scope="module")
def theirs(checkout):
    """What the default study and the tests of its pages write."""
    default = snakemake(checkout, "-n", "--summary").stdout.splitlines()
    return {Path(line.split("\t")[0]) for line in default if "\t" in line} | {Path("report/_site/pictures")}


@pytest.mark.parametrize("study", ["chapters", "data", "pictures", "studies", "index"])
def test_no_study_writes_where_another_does(checkout, theirs, study):
    ours = outputs(checkout, study)
    assert len(ours) > 100 and Path(f"report/_site/studies/{study}/index.html") in ours
    for ones, others in ((ours, theirs), (theirs, ours)):
        assert not any(path in others for one in ones for path in (one, *one.parents))


def test_other_parameters_under_the_name_of_the_default_study_are_refused(checkout):
    study = yaml.safe_load((checkout / "params.yaml").read_text())["study"]
    done = snakemake(checkout, "-n", *TINY, "--config", f"study={study}", check=False)
    assert done.returncode != 0 and f"under the name of its study, {study}" in done.stdout + done.stderr


def test_lint_finds_nothing(checkout):
    assert "in a good condition" in snakemake(checkout, "--lint").stderr


def test_use_conda_without_conda_warns_and_goes_on(checkout, monkeypatch):
    folders = [f for f in os.environ["PATH"].split(os.pathsep) if not (Path(f) / "conda").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    done = snakemake(checkout, "--use-conda", *TINY)
    assert "no conda on PATH" in done.stderr and "Nothing to be done" in done.stderr


def test_the_snakefile_needs_no_heavy_import(checkout):
    """It loads where only Snakemake is installed, which itself needs pydantic but none of these."""
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'mteb', 'transformers', 'safetensors', 'huggingface_hub'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from snakemake.cli import main\n"
        "main(['-n', '--cores', '1', '--configfile', 'studies/tiny.yaml'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_lock_file_has_the_packages_of_the_corpus():
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    lock = reconcile.locked_versions(ROOT / "requirements.lock", ROOT / "pyproject.toml")
    assert set(params["corpus"]["packages"]) <= {"==".join(item) for item in lock.items()}
