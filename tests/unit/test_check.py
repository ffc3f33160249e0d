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
    "tasks": ["T"],
    "metrics": ["ndcg_at_10"],
    "tables": [
        "w8=0=full",
        *(f"{table}={variant}" for table in ("w8=6", "w16=main") for variant in ("full", "crop:8", "unit")),
    ],
    "random": ["8:1", "8:2"],
}


@pytest.fixture
def scores():
    """Score rows of two models, as `EXPECTED` asks for."""
    rows = []

    def add(model, step, variant, dim, value, *, dims=None, seed=None):
        rows.append(
            {"suite": "s", "model": model, "step": step, "tokenizer": "t", "variant": variant, "variant_dims": dims,
             "seed": seed, "dim": dim, "task": "T", "metric": "ndcg_at_10", "value": value, "ci_low": value - 0.05,
             "ci_high": value + 0.05, "n": 30}
        )  # fmt: skip

    add("w8", 0, "full", 8, 0.2)
    for model, step, width in (("w8", 6, 8), ("w16", None, 16)):
        add(model, step, "full", width, 0.3)
        add(model, step, "crop", 8, 0.3 if width == 8 else 0.1, dims=8)
        add(model, step, "unit", width, 0.25)
    for seed in (1, 2):
        add("random", None, "random", 8, 0.4, seed=seed)
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


@pytest.mark.parametrize("row", range(9))
def test_each_row_that_is_missing_or_there_twice_is_reported(scores, row):
    (missing,) = result_check.score_problems(scores.drop(row), **EXPECTED)
    assert missing.endswith("missing")
    twice = result_check.score_problems(pd.concat([scores, scores.iloc[[row]]], ignore_index=True), **EXPECTED)
    assert any(line.endswith("not asked for") for line in twice)


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
    scores.loc[5, column] = value
    found = result_check.score_problems(scores, **EXPECTED)
    assert any(words in line and "w16" in line for line in found)


def test_crop_to_the_whole_table_must_score_as_the_table(scores):
    scores.loc[(scores["model"] == "w8") & (scores["variant"] == "crop"), "value"] += 0.01
    assert result_check.score_problems(scores, **EXPECTED) == [
        "score T, ndcg_at_10, w8, 6, 8: crop to all columns differs"
    ]


def test_random_tables_must_be_there(scores):
    assert "no random table was scored" in result_check.score_problems(
        scores[scores["variant"] != "random"], **EXPECTED
    )


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
