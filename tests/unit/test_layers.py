"""One command for a checkpoint and its texts: the same rows and figures that the single commands make."""

import json
import random
from pathlib import Path

import pandas as pd
import pytest

from embscale.cli import execute
from embscale.parameters import flags
from embscale.provenance.artifacts import read_note

pytestmark = pytest.mark.long

SMALL = "--seeds 1 2 --controls scalar_norm --resamples 20 --bootstrap-resamples 20 "
SMALL += "--vectors 40 --groups 4 --dimensions 2 --neighbours 3"
FIGURES = ("layer_accuracy", "layer_confusion", "layer_norms", "layer_reductions")


def layers(checkpoint, texts, folder, *further):
    words = f"--tokens 8 --texts-count 12 {SMALL} --points 60 -o {folder}".split()
    return execute("layers", [str(checkpoint), "--texts", str(texts), *words, *further])


@pytest.fixture(scope="module")
def checkpoint_folder(checkpoint):
    return checkpoint("gpt2")


@pytest.fixture(scope="module")
def made(checkpoint_folder, tokenizer_folder, texts_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    words = ("--split", "text", "--tokenizer", str(tokenizer_folder))
    assert layers(checkpoint_folder, texts_file, folder, *words) == 0
    return folder


def test_rows_and_figures_are_in_the_folder_with_their_notes(made):
    rows = pd.read_csv(made / "probes.csv")
    assert set(rows["seed"]) == {"1", "2", "all"} and set(rows["split"]) == {"text"}
    assert set(rows["control"]) == {"none", "scalar_norm"} and set(rows["tokens"]) == {8}
    assert set(pd.read_csv(made / "norms.csv")["positions"]) == {"all", "after_first"}
    assert set(pd.read_csv(made / "points.csv")["reduction"]) == {"pca"}
    for figure in FIGURES:
        assert (made / "figures" / f"{figure}.svg").stat().st_size > 2000
        assert "![](" in (made / "figures" / f"{figure}.md").read_text()
    for name in ("states.safetensors", "probes.csv", "structure.csv", "points.csv"):
        assert read_note(made / f"{name}.note.json")["params"]


def test_the_rows_are_those_of_the_single_command(made, tmp_path):
    params = read_note(made / "probes.csv.note.json")["params"]
    words = [f"{made}/states.safetensors"]
    for name, value in params.items():
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    words += ["-o", f"{tmp_path}/rows.csv", "--confusion", f"{tmp_path}/confusion.csv"]
    assert execute("probe", [*words, "--curves", f"{tmp_path}/curves.csv"]) == 0
    assert (tmp_path / "rows.csv").read_bytes() == (made / "probes.csv").read_bytes()


def test_faithful_adds_the_studys_own_protocol(checkpoint_folder, tokenizer_folder, texts_file, tmp_path):
    words = ("--split", "token", "--faithful", "--epochs", "2", "--tokenizer", str(tokenizer_folder))
    assert layers(checkpoint_folder, texts_file, tmp_path, *words) == 0
    rows = pd.read_csv(tmp_path / "probes.csv")
    of_sgd = rows["classifier"] == "sgd"
    assert set(rows.loc[of_sgd, "split"]) == {"vector"} and set(rows.loc[~of_sgd, "split"]) == {"token"}
    assert set(pd.read_csv(tmp_path / "curves.csv")["epoch"]) == {1, 2}
    # The figures show the split that was asked for.
    accuracy = rows[
        (rows["classifier"] == "logistic_regression") & (rows["control"] == "none") & (rows["seed"] == "all")
    ]
    value = accuracy.loc[accuracy["metric"] == "accuracy", "value"].item()
    assert f"{100 * value:.1f} %" in (tmp_path / "figures" / "layer_accuracy.md").read_text()


def test_storage_is_reported_and_refused_over_budget(checkpoint_folder, tokenizer_folder, texts_file, tmp_path, capsys):
    words = ("--split", "text", "--tokenizer", str(tokenizer_folder), "--storage-gb", "1e-6")
    assert layers(checkpoint_folder, texts_file, tmp_path / "out", *words) == 1
    told = capsys.readouterr().err
    assert "layers x 96 vectors take" in told and "--storage-gb allows 1e-06" in told
    assert not list((tmp_path / "out").glob("*"))


def test_a_checkpoint_and_texts_are_enough(checkpoint_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = Path("texts.jsonl")
    words = [f"{first}{second}" for first in ("cat", "dog", "tree", "house") for second in ("s", "like", "less")]
    draw = random.Random(1)
    lines = [" ".join(draw.choices(words, k=40)) for _ in range(210)]
    texts.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    assert execute("layers", [str(checkpoint_folder), "--texts", str(texts)]) == 0
    folder = Path(f"layers-{checkpoint_folder.name}")
    params = read_note(folder / "probes.csv.note.json")["params"]
    expected = flags.section("layers")
    assert params["seeds"] == expected["seeds"] and params["splits"] == expected["splits"][:1]
    rows = pd.read_csv(folder / "probes.csv")
    assert set(rows["tokens"]) == {expected["tokens"]} and set(rows["texts_count"]) == {expected["texts_count"]}
    drawn = {f"{figure}{size}" for figure in FIGURES for size in ("", "-phone")}
    assert {path.stem for path in (folder / "figures").glob("*.svg")} == drawn


def test_help_states_every_value(capsys):
    with pytest.raises(SystemExit):
        execute("layers", ["--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "bootstrap resamples of the texts, for the norms (1000)" in told
        and "else an experiment draws (1 2 3 4 5)" in told
    )


def test_the_whole_runs_on_a_trained_checkpoint_and_compressed_texts(trained_checkpoint, reviews_file, tmp_path):
    assert layers(trained_checkpoint, reviews_file, tmp_path, "--split", "text") == 0
    rows = pd.read_csv(tmp_path / "probes.csv")
    of_all = rows[(rows["seed"] == "all") & (rows["metric"] == "accuracy") & (rows["control"] == "none")]
    accuracy = of_all.set_index("classifier")["value"]
    assert accuracy["logistic_regression"] > accuracy["majority"] + 0.2
    # Each block adds to a stream that was never shortened.
    assert (pd.read_csv(tmp_path / "norms.csv")["growth"] > 1).all()
