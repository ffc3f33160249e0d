"""Each fault that the result check is there for is put in and must be found; sound results give no finding."""

import argparse
import json
import os

import pandas as pd
import pytest

import embscale
from embscale.provenance import result_check
from embscale.provenance.artifacts import file_sha256, note_path, write_with_provenance
from embscale.provenance.snakemake_metadata import record_path

EXPECTED = {
    "metrics": ["ndcg_at_10"],
    "lengths": ["64", "all"],
    "tables": [
        *(f"T=w8={run}=0=full,crop:8,unit" for run in (1, 2)),
        *(f"T=w8={run}=6=full,crop:8,unit,shuffled,shuffled+crop:8,shuffled+unit" for run in (1, 2)),
        "T=w16==main=full,unit",
        "U=w8=1=6=full,shuffled",
    ],
    "random": ["T=t=8=1,2=full,unit", "U=t=8=1,2=full"],
    "references": ["T=t=bm25,chance"],
}


def table_rows(task, suite, model, run, step, variant, dim, value, *, width=8, dims=None, seed=None):
    """Score rows of a table: as it is at both lengths, treated at the first alone."""
    plain = variant in ("full", "shuffled", "random", "bm25", "chance")
    return [
        {"suite": suite, "model": model, "run": run, "step": step, "tokenizer": "t", "variant": variant,
         "variant_dims": dims, "seed": seed, "dim": dim, "width": width, "task": task, "length": length,
         "metric": "ndcg_at_10", "value": value, "ci_low": value - 0.05, "ci_high": value + 0.05, "n": 30,
         "clusters": 10}
        for length in (("64", "all") if plain else ("64",))
    ]  # fmt: skip


@pytest.fixture
def scores():
    """Score rows of two models, one with two runs, as `EXPECTED` asks for."""
    rows = []
    for run in (1, 2):
        for step, tables in ((0, ("",)), (6, ("", "shuffled+"))):
            for table in tables:
                of = ("T", "s", "w8", run, step)
                rows += table_rows(*of, table.rstrip("+") or "full", 8, 0.3)
                rows += table_rows(*of, f"{table}crop", 8, 0.3, dims=8)
                rows += table_rows(*of, f"{table}unit", 8, 0.25)
    rows += table_rows("T", "s", "w16", None, None, "full", 16, 0.4, width=16)
    rows += table_rows("T", "s", "w16", None, None, "unit", 16, 0.3, width=16)
    rows += table_rows("U", "s", "w8", 1, 6, "full", 8, 0.3) + table_rows("U", "s", "w8", 1, 6, "shuffled", 8, 0.1)
    for seed in (1, 2):
        for task in ("T", "U"):
            rows += table_rows(task, "random", "random", None, None, "random", 8, 0.4, seed=seed)
        rows += table_rows("T", "random", "random", None, None, "random+unit", 8, 0.4, seed=seed)
    for name in ("bm25", "chance"):
        rows += table_rows("T", "reference", name, None, None, name, None, 0.2, width=None)
    return pd.DataFrame(rows)


@pytest.fixture
def layers():
    rows = [
        {"model": model, "classifier": "lr", "seed": "all", "layer": layer, "metric": metric, "value": value,
         "ci_low": value, "ci_high": value, "n": 20, "n_layers": 4}
        for model in ("w8", "w16")
        for metric, layer, value in (
            ("accuracy", None, 0.8), ("chance", None, 0.25), ("recall", "block 1", 0.5),
            ("mean_absolute_layer_error", None, 0.3),
        )
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_sound_rows_give_no_finding(scores, layers):
    assert result_check.score_problems(scores, **EXPECTED) == []
    assert result_check.layer_problems(layers, models=["w8", "w16"]) == []


def test_a_table_read_back_from_text_is_judged_the_same(scores, tmp_path):
    scores.to_csv(tmp_path / "scores.csv", index=False)
    assert result_check.score_problems(pd.read_csv(tmp_path / "scores.csv"), **EXPECTED) == []


@pytest.mark.fault(
    "a row of scores missing, or there twice",
    happens="the result check names it and stops the page",
    do="make the scores again",
)
def test_each_row_that_is_missing_or_there_twice_is_reported(scores):
    for row in range(len(scores)):
        (missing,) = result_check.score_problems(scores.drop(row), **EXPECTED)
        assert missing.endswith("missing")
        twice = result_check.score_problems(pd.concat([scores, scores.iloc[[row]]], ignore_index=True), **EXPECTED)
        assert any(line.endswith("not asked for") for line in twice)


@pytest.mark.parametrize(
    ("column", "value"), [("run", 3), ("length", "32"), ("task", "V"), ("step", 7), ("metric", "map_at_100")]
)
def test_a_row_of_another_run_length_task_step_or_metric_is_not_asked_for(scores, column, value):
    other = scores.assign(**{column: scores[column].where(scores.index != 0, value)})
    found = result_check.score_problems(other, **EXPECTED)
    assert sorted(line.rpartition(": ")[2] for line in found) == ["missing", "not asked for"]


def test_treated_tables_are_expected_at_the_first_length_alone(scores):
    unit = scores[scores["variant"] == "unit"].head(1).assign(length="all")
    (found,) = result_check.score_problems(pd.concat([scores, unit], ignore_index=True), **EXPECTED)
    assert found == "score T, w8, 1, 0, unit, ndcg_at_10, all: not asked for"


def test_a_single_cluster_needs_no_interval(scores):
    none = scores.assign(ci_low=float("nan"), ci_high=float("nan"))
    assert len(result_check.score_problems(none, **EXPECTED)) == len(scores)
    assert result_check.score_problems(none.assign(clusters=1), **EXPECTED) == []


@pytest.mark.fault(
    "a score that cannot be", happens="the result check names it and stops the page", do="make the scores again"
)
@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("value", float("nan"), "no number, interval or n"),
        ("ci_low", float("nan"), "no number, interval or n"),
        ("n", 0, "no number, interval or n"),
        ("value", 0.9, "outside its interval"),
        ("value", 1.2, "not from 0 to 1"),
    ],
)
def test_each_impossible_score_is_reported(scores, column, value, words):
    scores.loc[(scores["model"] == "w16") & (scores["variant"] == "full"), column] = value
    found = result_check.score_problems(scores, **EXPECTED)
    assert any(words in line and "w16" in line for line in found)


def test_crop_to_the_whole_table_must_score_as_the_table(scores):
    wrong = (scores["model"] == "w8") & (scores["variant"] == "crop") & (scores["run"] == 2) & (scores["step"] == 6)
    scores.loc[wrong, "value"] += 0.01
    assert result_check.score_problems(scores, **EXPECTED) == [
        "score T, ndcg_at_10, 64, w8, 2, 6, 8: crop to all columns differs"
    ]


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("accuracy", 1.1, "not from 0 to 1"),
        ("accuracy", float("nan"), "no number"),
        ("recall", -0.1, "not from 0 to 1"),
        ("chance", 0.2, "chance is below one in 4"),
        ("mean_absolute_layer_error", 3.5, "no layer is so far from another"),
    ],
)
def test_each_impossible_layer_row_is_reported(layers, metric, value, words):
    row = (layers["model"] == "w8") & (layers["metric"] == metric)
    layers.loc[row, ["value", "ci_low", "ci_high"]] = value
    (found,) = result_check.layer_problems(layers, models=["w8", "w16"])
    assert words in found and "w8" in found


def test_a_model_without_accuracy_is_reported(layers):
    assert result_check.layer_problems(layers, models=["w8", "w16", "w32"]) == ["no accuracy of w32"]


def job(command, source, output, **params):
    with write_with_provenance(command=command, params=params, inputs=[source], outputs=[output]) as [made]:
        made.write_text("made of " + source.read_text())


@pytest.fixture
def artifacts(tmp_path, monkeypatch):
    """Two jobs, one after the other, and one that nothing follows."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path.relative_to(tmp_path) / "results"
    folder.mkdir()
    (folder / "source").write_text("x")
    job("one", folder / "source", folder / "a", seed=1)
    job("two", folder / "a", folder / "b", seed=1)
    job("one", folder / "source", folder / "old", seed=2)
    return folder


def findings(folder):
    notes = result_check.reached_notes([folder / "b"], folder)
    return [line for path, note in notes.items() for line in result_check.note_problems(path, note, {})]


def test_notes_are_followed_from_the_results_to_the_beginning(artifacts):
    notes = result_check.reached_notes([artifacts / "b"], artifacts)
    assert list(notes) == [note_path(artifacts / "a"), note_path(artifacts / "b")]
    assert result_check.leftovers(notes, artifacts) == [note_path(artifacts / "old")]
    assert findings(artifacts) == []


def test_of_two_notes_that_name_a_file_the_newer_holds(artifacts):
    """As after an update that names a job's note otherwise, when the note of before still lies there."""
    note = note_path(artifacts / "a")
    before = json.loads(note.read_text())
    before["outputs"] = dict.fromkeys([*before["outputs"], "results/z"], "0" * 64)
    before["sources"] = dict.fromkeys(before["sources"], "0" * 64)
    older = artifacts / "z.note.json"
    older.write_text(json.dumps(before))
    os.utime(older, (1, 1))
    assert findings(artifacts) == []


@pytest.mark.fault(
    "a file that its note does not describe", happens="the result check names it and stops the page", do="make it again"
)
def test_a_changed_output_or_input_is_reported(artifacts):
    (artifacts / "source").write_text("y")
    assert findings(artifacts) == ["results/a.note.json: results/source is another than the one it was made from"]
    (artifacts / "a").write_text("by hand")
    told = findings(artifacts)
    assert "results/a.note.json: results/a was changed or damaged after it was made" in told
    assert "results/b.note.json: results/a is another than the one it was made from" in told


def test_what_is_not_there_is_no_finding(artifacts):
    (artifacts / "a").unlink()
    assert findings(artifacts) == []


def test_a_changed_source_is_reported(artifacts):
    path = note_path(artifacts / "a")
    note = json.loads(path.read_text())
    note["sources"]["embscale/errors.py"] = "0" * 64
    path.write_text(json.dumps(note))
    assert findings(artifacts) == ["results/a.note.json: src/embscale/errors.py has changed since"]


def test_parameters_are_compared_with_what_snakemake_remembers(artifacts):
    path = note_path(artifacts / "a")
    note = json.loads(path.read_text())
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--device", default="auto")
    note["params"]["device"] = "cpu"
    assert result_check.parameter_problems(path, note, parser.parse_args) == [
        f"{path}: Snakemake does not remember the job"
    ]

    def remember(seed):
        record = record_path(path)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"shellcmd": f"python src/{embscale.__name__} one source --seed {seed} 2> log"}))

    remember(1)
    assert result_check.parameter_problems(path, note, parser.parse_args) == []
    remember(2)
    assert result_check.parameter_problems(path, note, parser.parse_args) == [f"{path}: seed is 1, but the rule says 2"]


def test_digests_of_files_are_read_once(artifacts):
    digests = {artifacts / "a": "given"}
    notes = result_check.reached_notes([artifacts / "b"], artifacts)
    assert len([line for path, note in notes.items() for line in result_check.note_problems(path, note, digests)]) == 2
    assert digests[artifacts / "b"] == file_sha256(artifacts / "b")
