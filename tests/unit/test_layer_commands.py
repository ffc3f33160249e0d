"""The commands on layer classifiers, from states to rows to figures, on two models made for it."""

import re
import shutil
import tempfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from layer_states import made, noise

from embscale.claims import published_scores
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.figures import layer_controls, layer_grid
from embscale.layers import ablations, hidden_states, probes
from embscale.layers.classifiers import CLASSIFIERS
from embscale.layers.examples import EXPECTED, INPUTS
from embscale.provenance.notes import read_note

pytestmark = pytest.mark.long

WIDTHS = (4, 6)
SHARED = (
    "--seeds 1 2 --test-fraction 0.25 --inverse-regularisation 1 --memory-gb 1 --chunk 100 --bootstrap-resamples 20 "
    "--bootstrap-seed 0 --first-position 1 --device cpu --suite tiny --step main"
)
COMMANDS = {
    "probe": f"{{a}} --texts docs --classifiers {' '.join(CLASSIFIERS)} --splits text token vector "
    f"--inputs {' '.join(INPUTS)} --controls {' '.join(EXPECTED)} --epochs 2 --tree-depth 3 --output {{rows}} "
    "--confusion {folder}/confusion.csv --curves {folder}/curves.csv",
    "grid": "{a} --texts docs --classifiers logistic_regression sgd --split text --windows 4 8 --counts 10 20 "
    "--epochs 2 --output {rows}",
    "ablate": "{a} --texts docs --split text --random-masks 2 --inverse-regularisations 0.1 1 --output {rows}",
    "transfer": "--states docs={a} --states code={b} --output {rows}",
}


def of(rows, **where):
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """States of two sources of texts for each width."""
    folder = tmp_path_factory.mktemp("states")
    for width in WIDTHS:
        for i, name in enumerate("ab"):
            states = made(noise(3, 320, width, seed=i) + np.arange(3)[:, None, None], texts=40, ids=name)
            hidden_states.save(folder / f"{name}{width}.safetensors", states)
    return {width: {name: folder / f"{name}{width}.safetensors" for name in "ab"} for width in WIDTHS}


def command(name, files, folder, *further):
    folder.mkdir(exist_ok=True, parents=True)
    arguments = COMMANDS[name].format(folder=folder, rows=folder / "rows.csv", **files).split()
    return execute(name, [*arguments, *SHARED.split(), "--model", f"tiny-{folder.name}", *further])


@pytest.fixture(scope="module")
def written(states, tmp_path_factory):
    """Folders with what each command writes for each model: command -> width -> folder."""
    folder = tmp_path_factory.mktemp("written")
    for name in COMMANDS:
        for width in WIDTHS:
            assert command(name, states[width], folder / name / str(width)) == 0
    return {name: {width: folder / name / str(width) for width in WIDTHS} for name in COMMANDS}


def read(folder, file="rows.csv"):
    return pd.read_csv(folder / file, dtype={"seed": str})


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_run_gives_the_same_bytes(name, states, written, tmp_path):
    assert command(name, states[4], tmp_path / "4") == 0
    files = sorted(path.name for path in written[name][4].glob("*.csv"))
    assert files
    for file in files:
        assert (tmp_path / "4" / file).read_bytes() == (written[name][4] / file).read_bytes()


@pytest.mark.parametrize("name", COMMANDS)
def test_rows_start_with_the_keys_and_hold_values_within_their_intervals(name, written):
    rows = read(written[name][4])
    keys = ["suite", "model", "step", "width", "texts", "tokens", "texts_count"]
    assert rows.columns[: len(keys)].tolist() == keys
    assert (rows["model"] == "tiny-4").all() and rows["step"].isna().all() and (rows["width"] == 4).all()
    assert set(rows["seed"]) == {"1", "2", "all"}
    assert rows[rows["metric"] == "accuracy"]["value"].between(0, 1).all()
    bounded = rows.dropna(subset=["ci_low"])
    assert (bounded["ci_low"] <= bounded["value"] + 1e-9).all() and (
        bounded["value"] <= bounded["ci_high"] + 1e-9
    ).all()


def test_a_probe_tells_what_was_run(written):
    rows, curves, confusion = (read(written["probe"][4], f"{n}.csv") for n in ("rows", "curves", "confusion"))
    assert set(rows["texts_count"]) == {40} and set(rows["tokens"]) == {8} and (rows["trained_on"] == "docs").all()
    for control, expected in EXPECTED.items():
        assert (of(rows, control=control)["expected"] == expected).all() and len(of(rows, control=control))
    shares = of(rows, metric="mean_shift_share", seed="all")
    assert shares["classifier"].tolist() == ["logistic_regression", "decision_tree", "nearest_centroid"]
    assert set(curves["input"]) == {"raw", "unit", "z_scored"} and set(curves["epoch"]) == {1, 2} and len(curves) == 12
    tested = of(rows, metric="accuracy", seed="1")["n"].sum()
    assert of(confusion, seed="1")["count"].sum() == tested


@pytest.mark.parametrize("name", ["probe", "grid", "ablate", "transfer"])
def test_a_note_has_the_device_as_asked_for_and_as_it_was(written, name):
    (note,) = (read_note(path) for path in written[name][4].glob("rows.csv*.note.json"))
    assert note["params"]["device"] == "cpu" and note["facts"]["device"] == "cpu"


def test_a_grid_has_every_cell_in_both_designs(written):
    cells = of(read(written["grid"][4]), metric="accuracy", seed="all")
    shape = cells.groupby(["classifier", "split", "design", "tokens", "texts_count"]).size()
    assert len(shape) == 16 and (shape == 1).all()
    matched = of(cells, design="matched", classifier="logistic_regression")
    assert matched.groupby("texts_count")["n_train"].nunique().tolist() == [1, 1]


def test_a_transfer_has_every_pair_and_the_mixture(written):
    rows = of(read(written["transfer"][4]), metric="accuracy", seed="all")
    assert set(zip(rows["trained_on"], rows["texts"], strict=True)) == {
        (trained, tested) for trained in ("docs", "code", "mixed") for tested in ("docs", "code")
    }
    assert set(rows["split"]) == {"text_pair"}


def test_ablations_tell_the_first_position_in_and_out(written):
    rows = read(written["ablate"][4])
    assert set(rows["experiment"]) == {
        "contribution", "sign", "cumulative", "stability", "importance", "mask", "prefix", "regularisation", "position",
    }  # fmt: skip
    with_first, without = (of(rows, choice=choice, seed="all") for choice in ("with_first", "without_first"))
    assert with_first["n"].item() == without["n"].item() * 8 / 7
    assert of(rows, choice="bucket_with_first")["positions"].iloc[0] == "0"
    assert of(rows, choice="bucket")["positions"].iloc[0] == "1"


def test_states_without_first_positions_say_so(states, tmp_path, capsys):
    late = hidden_states.load(states[4]["a"])
    hidden_states.save(tmp_path / "late.safetensors", replace(late, position=late.position + 1))
    assert command("ablate", {"a": tmp_path / "late.safetensors"}, tmp_path / "4") == 0
    assert "tiny-4: the states have no vector before position 1" in capsys.readouterr().err
    row = of(read(tmp_path / "4"), choice="with_first").iloc[0]
    assert row["n"] == 0 and np.isnan(row["value"])


@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_done_is_refused_before_the_first_fit_and_nothing_is_written(
    name, states, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(probes, "fit", lambda *given, **options: pytest.fail("a classifier was fitted"))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    assert command(name, states[4], tmp_path / "4", "--memory-gb", "1e-6") == 1
    told = capsys.readouterr().err
    expected = "decision_tree: " if name == "probe" else f"{tempfile.gettempdir()}: 0.0 GB are free"
    assert told.startswith(f"embscale {name}: {expected}") and "--memory-gb" in told and told.count("\n") == 1
    assert not list((tmp_path / "4").iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_in_a_late_fit_leaves_the_rows_of_those_before(name, states, written, tmp_path, monkeypatch, capsys):
    of_rows = "interval_rows" if name == "ablate" else "classifier_rows"
    module = ablations if name == "ablate" else probes
    inner, calls = getattr(module, of_rows), []

    def fails_late(*given, **options):
        calls.append(1)
        if len(calls) > 5:
            raise EmbscaleError("the last of it")
        return inner(*given, **options)

    monkeypatch.setattr(module, of_rows, fails_late)
    folder = tmp_path / "4"
    assert command(name, states[4], folder) == 1
    told = capsys.readouterr().err
    assert f"the rows so far are in {folder}/rows.csv.part" in told and "the last of it" in told
    assert {path.suffix for path in folder.iterdir()} == {".part"}
    kept, whole = read(folder, "rows.csv.part"), read(written[name][4])
    assert 0 < len(kept) < len(whole)
    pd.testing.assert_frame_equal(kept, whole[: len(kept)], check_dtype=False)
    # What is written in the end replaces them.
    monkeypatch.setattr(module, of_rows, inner)
    assert command(name, states[4], folder) == 0
    assert not list(folder.glob("*.part"))
    assert (folder / "rows.csv").read_bytes() == (written[name][4] / "rows.csv").read_bytes()


def test_bad_arguments_are_reported(states, tmp_path, capsys):
    files = states[4]
    with pytest.raises(SystemExit):
        command("probe", files, tmp_path / "4", "--classifiers", "svm")
    assert "--classifiers: invalid choice: 'svm' (choose from 'logistic_regression', 'sgd'" in capsys.readouterr().err
    assert command("grid", files, tmp_path / "4", "--counts", "99") == 1
    assert "99 texts are wanted, but the states are of 40" in capsys.readouterr().err
    assert command("transfer", {"a": files["a"], "b": ""}, tmp_path / "4") == 1
    assert "--states code=: expected NAME=FILE" in capsys.readouterr().err
    assert command("transfer", {"a": files["a"], "b": f"{files['b']} --states code={files['a']}"}, tmp_path / "4") == 1
    assert "--states: give two or more, each with a name of its own" in capsys.readouterr().err


def percent(rows, **where):
    found = of(rows, **{"seed": "all", "metric": "accuracy"} | where)["value"] * 100
    return f"{found.mean():.1f} %"


MAIN = {"classifier": "logistic_regression", "split": "text", "input": "raw", "control": "none"}
FIGURES = {
    "layer_accuracy": ("probe", "rows", lambda rows: f"4 {percent(rows, **MAIN, width=4)}"),
    "layer_splits": ("probe", "rows", lambda rows: f"unseen tokens {percent(rows, **MAIN | {'split': 'token'})}"),
    "layer_controls": ("probe", "rows", lambda rows: f"Gaussian {percent(rows, **MAIN | {'control': 'gaussian'})}"),
    "layer_inputs": ("probe", "rows", lambda rows: f"unit length {percent(rows, **MAIN | {'input': 'unit'})}"),
    "layer_curves": (
        "probe", "curves",
        lambda rows: f"loss {of(rows, epoch=2, input='unit', width=6)['train_loss'].mean():.2f}",
    ),
    "layer_confusion": (
        "probe", "confusion",
        lambda rows: "block 2 {:.1f} %".format(
            100 * of(rows, **MAIN, width=6, true_layer="block 2", predicted_layer="block 2")["count"].sum()
            / of(rows, **MAIN, width=6, true_layer="block 2")["count"].sum()
        ),
    ),
    "layer_grid": (
        "grid", "rows",
        lambda rows: percent(
            rows, classifier="logistic_regression", width=6, tokens=8, texts_count=20, design="matched"
        ) + " with 8",
    ),
    "layer_contributions": (
        "ablate", "rows",
        lambda rows: "{:.1f} % (dimension".format(
            of(rows, experiment="contribution", weights="raw", seed="all", width=4)["value"].abs().max()
        ),
    ),
    "layer_cumulative": (
        "ablate", "rows",
        lambda rows: "for 90 %: {:.0f} to {:.0f}".format(*of(
            rows, metric="dimensions_for_90_percent", weights="raw", seed="all", width=4
        )["value"].agg(["min", "max"])),
    ),
    "layer_masks": (
        "ablate", "rows",
        lambda rows: "largest variance {:+.1f}, random".format(
            100 * of(rows, experiment="mask", choice="outlier", k=2, fill="zero", seed="all", width=4,
                     metric="accuracy_change")["value"].item()
        ),
    ),
    "layer_importance": (
        "ablate", "rows",
        lambda rows: "weights of standardised dimensions {:.2f} (95 % interval".format(
            of(rows, experiment="importance", weights="standardised", seed="all", width=4,
               metric="rank_correlation")["value"].item()
        ),
    ),
    "layer_regularisation": (
        "ablate", "rows",
        lambda rows: "A line of accuracy against C: {:.1f} % at 0.1, {:.1f} % at 1. Chosen inside".format(*(
            100 * of(rows, experiment="regularisation", choice="given", inverse_regularisation=c, seed="all", width=4,
                     metric="accuracy")["value"].item()
            for c in (0.1, 1)
        )),
    ),
    "layer_stability": (
        "ablate", "rows",
        lambda rows: "weights as they are (the study's) {:.0f} %, weights of standardised dimensions {:.0f} %, random "
        "sets 50 %".format(*(
            100 * of(rows, experiment="stability", weights=weights, k=2, width=4)["value"].item()
            for weights in ("raw", "standardised")
        )),
    ),
    "layer_prefixes": (
        "ablate", "rows",
        lambda rows: "random dimensions, 1: {:.1f}".format(
            100 * of(rows, experiment="prefix", choice="random", k=1, seed="all", width=4, metric="accuracy")[
                "value"
            ].item()
        ),
    ),
    "layer_positions": (
        "ablate", "rows",
        lambda rows: "tested with the first position: all {:.1f} %, 0 {:.1f} %".format(*(
            100 * of(rows, experiment="position", seed="all", width=4, **where)["value"].item()
            for where in ({"choice": "with_first"}, {"choice": "bucket_with_first", "positions": "0"})
        )),
    ),
    "layer_mean_shift": ("probe", "rows", lambda rows: "linear (by necessity) 100 to 100 %"),
    "layer_calibration": (
        "probe", "rows",
        lambda rows: "random directions {:.1f}".format(
            100 * of(rows, **MAIN | {"control": "scalar_norm"}, seed="all", metric="expected_calibration_error")[
                "value"
            ].mean()
        ),
    ),
    "layer_transfer": ("transfer", "rows", lambda rows: percent(rows, width=4, trained_on="mixed", texts="code")),
}  # fmt: skip


def outputs(folder, name):
    files = {"svg": "svg", "partial": "md", "data": "csv"}
    return [word for flag, end in files.items() for word in (f"--{flag}", str(folder / f"{name}.{end}"))]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_show_what_the_rows_say_and_describe_it(name, written, tmp_path):
    source, file, words = FIGURES[name]
    paths = [str(written[source][width] / f"{file}.csv") for width in WIDTHS]
    for run in ("a", "b"):
        assert execute("draw", [name, "--rows", *paths, *outputs(tmp_path, run), "--image", "f.svg"]) == 0
    svg = (tmp_path / "a.svg").read_bytes()
    assert svg == (tmp_path / "b.svg").read_bytes() and svg.count(b"<") > 60
    partial = (tmp_path / "a.md").read_text()
    rows = pd.concat([pd.read_csv(path, dtype={"seed": str}) for path in paths])
    image, _, source = partial.partition("\n\n")
    assert re.fullmatch(r'!\[\]\(f\.svg\)\{fig-alt="[^"]{80,}"\}', image) and words(rows) in image, partial
    assert source.startswith('<details class="source">') and (tmp_path / "a.csv").is_file()


def test_controls_are_judged_by_what_was_predicted_of_them(written):
    rows = pd.concat([read(written["probe"][width]) for width in WIDTHS])
    found = layer_controls.as_predicted(rows)
    assert set(found) == set(layer_controls.CONTROLS.values())
    # Layers that differ in their means alone: Gaussian vectors of the same means do as well.
    assert found["Gaussian"].all() and list(found["Gaussian"].index) == ["tiny-4", "tiny-6"]
    of_directions = (rows["control"] == "scalar_norm") & (rows["metric"] == "log_loss")
    surely = rows.assign(ci_high=rows["ci_high"].where(~of_directions, 0.5))
    assert not layer_controls.as_predicted(surely)["random directions"].any()
    lengths = (rows["classifier"] == "norm_only") & (rows["metric"] == "accuracy")
    far = rows.assign(value=rows["value"].where(~lengths, 1.2))
    assert not layer_controls.as_predicted(far)["study's random"].any()


def test_published_accuracies_are_drawn_hollow_beside_ours(written):
    rows = read(written["grid"][4]).assign(model="gpt2", suite="gpt2")
    theirs = published_scores.huang().query("model == 'gpt2' and source == 'grid'")
    left, *others = layer_grid.draw(rows).axes
    assert len(others) == 3
    hollow = [line for line in left.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    shown = {(x, round(y, 6)) for line in hollow for x, y in zip(*line.get_data(), strict=True)}
    assert shown == {(row.texts_count, round(100 * row.value, 6)) for row in theirs.itertuples()}
    assert not [line for axes in others for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert "gpt2, published: 46.5 to 95.2 %" in layer_grid.describe(rows)


@pytest.mark.parametrize("name", ["layer_controls", "layer_curves"])
def test_a_figure_of_what_was_not_run_says_so(name, written, tmp_path):
    source, file, _ = FIGURES[name]
    rows = pd.read_csv(written[source][4] / f"{file}.csv", dtype={"seed": str})
    rows = of(rows, control="none") if name == "layer_controls" else rows.head(1).assign(epoch=np.nan)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *outputs(tmp_path, "f")]) == 0
    assert "**not run**" in (tmp_path / "f.md").read_text()
