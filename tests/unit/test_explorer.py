"""The explorer's data and page: what the rows say, in a form that no word can break out of."""

import base64
import gzip
import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.explorer import page, payload
from embscale.plotting import theme, views
from embscale.report import offline
from embscale.rows.labels import SUITE_NAMES
from explorer_rows import (
    HOSTILE,
    accuracy_rows,
    confusion_rows,
    curve_rows,
    difference_rows,
    estimate_rows,
    fact_rows,
    point_rows,
    query_rows,
    score_rows,
)


def unpacked(column):
    if "values" in column:
        return column["values"]
    runs = column.get("runs", [])
    codes = column.get("codes", [code for code, n in zip(runs[::2], runs[1::2], strict=True) for _ in range(n)])
    return [column["levels"][code] for code in codes]


def decoded(part):
    """The rows of a part of the payload, read back as the page's script reads them."""
    rows = pd.DataFrame({name: unpacked(column) for name, column in part["columns"].items()})
    assert len(rows) == part["count"]
    return rows


ROOT = Path(__file__).parents[2]

# The flags that every explorer gets.
SHOWN = ["--title", "A study", "--metric", "ndcg_at_10", "--length", "64"]


@pytest.fixture
def files(tmp_path, tokenizer_folder):
    """Files of rows, and the flags that hand them to the command."""
    made = {
        "scores": score_rows(),
        "estimates": estimate_rows(score_rows()),
        "differences": difference_rows(score_rows()),
        "curves": curve_rows(),
        "facts": fact_rows(),
        "points": point_rows(),
        "confusion": confusion_rows(),
        "layers": accuracy_rows(),
    }
    flags = [
        *SHOWN,
        "--tokenizer",
        f"wide={tokenizer_folder}",
    ]
    for name, rows in made.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        flags += [f"--{name}", str(tmp_path / f"{name}.csv")]
    return flags


def test_scores_come_back_as_they_went_in():
    rows = score_rows()
    back = decoded(payload.scores(rows, first_metric="ndcg_at_10", length="64"))
    for name in ("suite", "model", "variant", "task", "metric"):
        assert back[name].tolist() == rows[name].tolist()
    for name in ("value", "ci_low", "ci_high", "n", "dim", "step", "seed"):
        np.testing.assert_allclose(back[name].astype(float), rows[name].astype(float), rtol=1e-5)


def means(scores, **given):
    rows = {"differences": difference_rows(scores), "curves": curve_rows()} | given
    return payload.means(estimate_rows(scores), rows["differences"], rows["curves"], length="64")


def test_variants_are_named_for_the_address_and_for_readers():
    forms = [
        ("input", "full", "full", "as it is"),
        ("input", "crop:16", "crop:16", "first columns: 16"),
        ("input", "sif:0.001", "sif:0.001", "weighted by rarity (SIF) (0.001)"),
        ("input", "sif:0.01", "sif:0.01", "weighted by rarity (SIF) (0.01)"),
        ("input", "all_but_top:2", "all_but_top:2", "top directions removed"),
        ("shuffled", "full", "shuffled", "rows shuffled"),
        ("shuffled", "idf", "shuffled+idf", "rows shuffled, weighted by rarity (idf)"),
        ("input", "new:3", "new:3", "new"),
    ]
    rows = pd.DataFrame(forms, columns=["table", "treatment", "key", "name"])
    assert payload.variant_keys(rows).tolist() == rows["key"].tolist()
    names = payload.variant_names(rows["key"])
    assert names == dict(zip(rows["key"], rows["name"], strict=True))
    assert next(iter(names)) == "full" and list(names)[-2:] == ["shuffled", "shuffled+idf"]


def test_score_rows_and_means_use_the_same_names():
    rows = score_rows()
    back = decoded(payload.scores(rows, first_metric="ndcg_at_10", length="64"))
    own = back[~back["suite"].isin(["random", "reference"])]
    assert set(own["label"]) == set(means(rows)["label"]) == {"full", "crop:8", "idf", "pad:512"}
    assert set(back.loc[back["suite"] == "random", "label"]) == {"random", "random+idf"}


def test_means_have_their_tokens_and_the_difference_from_random_tables():
    rows = means(score_rows())
    assert set(rows["measure"]) == {"score", "difference"} and not set(rows["suite"]) & {"random", "reference"}
    wide = rows[rows["suite"] == "wide"]
    assert wide.groupby("step")["tokens"].unique().map(list).to_dict() == {0: [0], 400: [409_600]}
    assert rows.loc[rows["suite"] == "deep", "tokens"].isna().all()
    less = rows[rows["measure"] == "difference"]
    np.testing.assert_allclose(less["value"], less["score"] - less["control_score"])
    alone = payload.means(estimate_rows(score_rows()), None, None, length="64")
    assert set(alone["measure"]) == {"score"} and alone["tokens"].isna().all()


def test_the_last_checkpoint_is_the_highest_step_or_the_one_that_is_not_known():
    rows = means(score_rows())
    steps = rows[rows["suite"] == "wide"].groupby("last")["step"].unique()
    assert steps[True].tolist() == [400] and steps[False].tolist() == [0]
    assert rows.loc[rows["suite"] == "deep", "last"].all()


def test_models_are_named_by_suite_and_width_where_that_is_enough():
    known = [("ladder", "ladder-w64", 64), ("ladder-tied", "tied-a", 16), ("pythia", "pythia-70m", 512)]
    twins = [("cbow", "cbow-a", 32), ("cbow", "cbow-b", 32), ("skip-gram", "s", 32)]
    found = payload.models([pd.DataFrame(part, columns=["suite", "model", "width"]) for part in (known, twins)])
    assert {model["key"]: model["name"] for model in found} == {
        "ladder-tied/tied-a": "language model, tied, 16 wide",
        "skip-gram/s": "skip-gram, 32 wide",
        "cbow/cbow-a": "cbow-a",
        "cbow/cbow-b": "cbow-b",
        "ladder/ladder-w64": "language model, 64 wide",
        "pythia/pythia-70m": "pythia-70m",
    }
    assert [model["width"] for model in found] == [16, 32, 32, 32, 64, 512]


def test_colours_are_those_of_the_report():
    suites = ["ladder", "glove", "pythia", "bloom"]
    design = payload.design(suites, ["full", "idf", "shuffled"], [16, 64])["colours"]
    light, report = design["light"], theme.category_colours(list(SUITE_NAMES))
    assert light["suites"]["ladder"] == report["ladder"] and light["suites"]["glove"] == report["glove"]
    assert len(set(light["suites"].values())) == 4 and light["random"] == theme.MUTED
    assert list(light["widths"].items()) == list(zip(["16", "64"], theme.ordered_colours(2), strict=True))
    dark = design["dark"]
    for colours in (dark["categories"], dark["suites"].values(), dark["variants"].values(), dark["widths"].values()):
        assert min(payload.contrast(colour, payload.DARK_PAGE) for colour in colours) >= 4.5
    assert payload.contrast(dark["random"], payload.DARK_PAGE) >= 4.5
    assert payload.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert payload.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    style = (page.STYLE).read_text("utf-8")
    assert f"--page: {payload.DARK_PAGE};" in style and f"--text: {payload.DARK_INK};" in style


def test_a_suite_beyond_the_colours_has_one_too():
    many = [f"suite-{i}" for i in range(20)]
    assert set(payload.assigned(many, {})) == set(many)


def test_every_row_of_a_model_knows_the_width_of_its_own_table():
    back = decoded(payload.scores(score_rows(), first_metric="ndcg_at_10", length="64"))
    cropped = back[back["variant"] == "crop"]
    assert (cropped["dim"] == 8).all() and set(cropped["width"]) == {16, 32, 64}
    random = back[back["suite"] == "random"]
    assert (random["width"] == random["dim"]).all() and back.loc[back["suite"] == "reference", "width"].isna().all()


def test_the_rows_of_all_runs_are_there_and_other_lengths_are_left_out():
    rows = score_rows()
    ladder = rows["suite"] == "wide"
    runs = [rows.assign(run=rows["run"].mask(ladder, run), value=rows["value"] + run / 1000) for run in (1, 2, 3)]
    several = pd.concat([runs[0], runs[1][ladder], runs[2][ladder], runs[0].assign(length="all", value=0.9)])
    back = decoded(payload.scores(several, first_metric="ndcg_at_10", length="64"))
    assert back["value"].tolist() == pytest.approx(several.query("length == '64'")["value"].tolist(), rel=1e-5)
    with pytest.raises(EmbscaleError, match="no score of documents of the length '32'"):
        payload.scores(several, first_metric="ndcg_at_10", length="32")
    with pytest.raises(EmbscaleError, match="no score of documents of the length '32'"):
        payload.means(estimate_rows(rows), None, None, length="32")


def test_the_share_of_parameters_is_that_of_the_table():
    rows = fact_rows()
    back = decoded(payload.facts(rows)).set_index(["suite", "model"])
    for row in rows.dropna().itertuples():
        share = back.loc[(row.suite, row.model), "table_share"]
        assert share == pytest.approx(row.rows * row.dims / row.parameters, rel=1e-5)
    unknown = rows[rows["parameters"].isna()]
    assert len(unknown) and not set(unknown["model"]) & set(back.index.get_level_values("model"))


def test_facts_without_parameters_give_no_axis():
    assert payload.facts(fact_rows().drop(columns="parameters"))["count"] == 0


def test_tokens_are_spelled_by_the_tokenizer_of_their_suite():
    points = point_rows()
    back = decoded(payload.points(points, {"wide": lambda token: f"<{token}>"}))
    assert len(back) == len(points)
    expected = [
        f"<{token}>" if suite == "wide" else f"token {token}"
        for suite, token in zip(points["suite"], points["token"], strict=True)
    ]
    assert back["token"].tolist() == expected
    np.testing.assert_allclose(back["x"], points["x"], rtol=1e-3)


def test_confusion_counts_are_summed_over_seeds():
    rows = confusion_rows()
    part = payload.confusion(rows)
    back = decoded(part)
    for place, row in enumerate(back.itertuples()):
        own = rows[(rows["model"] == row.model) & (rows["classifier"] == row.classifier) & (rows["split"] == row.split)]
        own = own[own["control"] == row.control]
        for i, true in enumerate(part["layers"][place]):
            for j, predicted in enumerate(part["layers"][place]):
                cell = own[(own["true_layer"] == true) & (own["predicted_layer"] == predicted)]
                assert part["counts"][place][i][j] == cell["count"].sum() and len(cell) == 2


def test_the_study_s_rows_have_what_the_explorer_reads():
    from embscale.cli.geometry import COLUMNS
    from embscale.layers import probes, reductions
    from embscale.scoring import estimates, scores

    assert set(payload.SCORE_COLUMNS) <= set(scores.COLUMNS)
    assert set(payload.MEAN_COLUMNS) <= set(estimates.COLUMNS)
    assert set(payload.DIFFERENCE_COLUMNS) <= set(estimates.DIFFERENCES)
    assert set(payload.POINT_COLUMNS) <= {*reductions.POINTS, *COLUMNS}
    assert set(payload.CONFUSION_COLUMNS) <= set(probes.CONFUSION_COLUMNS)
    assert set(payload.LAYER_COLUMNS) <= set(probes.COLUMNS)
    # All that tells two classifiers or two pictures apart can be chosen.
    told = {"width", "tokens", "texts_count", "seed", "true_layer", "predicted_layer", "count"}
    assert set(probes.CONFUSION_COLUMNS) - told <= set(payload.LAYER_KEYS)


def test_accuracies_are_those_over_all_seeds_and_layers():
    rows = accuracy_rows()
    back = decoded(payload.accuracies(rows))
    whole = rows[(rows["seed"] == "all") & rows["layer"].isna()]
    assert 0 < len(whole) < len(rows)
    assert back["value"].tolist() == pytest.approx(whole["value"].tolist())


def test_a_metric_that_was_not_scored_is_reported():
    with pytest.raises(EmbscaleError, match="no score by the metric 'f1'; there are map_at_100, ndcg_at_10"):
        payload.scores(score_rows(), first_metric="f1", length="64")


def test_no_word_can_end_the_script_that_it_is_in():
    text = page.embedded_json({"name": HOSTILE, "comment": "<!-- <script>"})
    assert "<" not in text
    assert json.loads(text) == {"name": HOSTILE, "comment": "<!-- <script>"}


def test_a_number_that_json_does_not_have_is_nothing():
    part = payload.columns(pd.DataFrame({"value": [1.0, np.nan, np.inf, 0.123456789]}), digits=6)
    assert json.dumps(part["value"]["values"]) == "[1, null, null, 0.123457]"


def test_the_page_is_one_file_with_its_library_and_hostile_names_inert(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert execute("explorer", [*files, "-o", "explorer.html"]) == 0
    text = (tmp_path / "explorer.html").read_text("utf-8")
    assert offline.loads(text) == [] and len(text.encode()) <= page.LARGEST_PAGE
    assert HOSTILE not in text and html.escape(HOSTILE) in text and len(re.findall("<script", text)) == 3
    library = re.search(r'id="library">([^<]+)<', text)[1]
    assert gzip.decompress(base64.b64decode(library)).startswith(b"/**\n* plotly.js v")
    data = json.loads(re.search(r'id="payload">([^<]+)<', text)[1])
    assert HOSTILE in data["scores"]["columns"]["model"]["levels"]
    note = json.loads((tmp_path / "explorer.html.note.json").read_text("utf-8"))
    ours = {name.rpartition("/")[2] for name in note["inputs"] if name.startswith("embscale/")}
    assert {"explorer.js", "explorer.css", "style.css"} <= ours and note["facts"]["plotly.js"]
    assert len(note["inputs"]) - len(ours) == 9


@pytest.mark.long
def test_two_runs_give_the_same_bytes(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.html", "b.html"):
        assert execute("explorer", [*files, "-o", name]) == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_page_that_is_too_large_is_refused(files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page, "LARGEST_PAGE", 1_000_000)
    assert execute("explorer", [*files, "-o", "explorer.html"]) == 1
    assert re.search(r"would have \d\.\d MB, at most 1 are allowed; leave rows out", capsys.readouterr().err)
    assert not (tmp_path / "explorer.html").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--where", "task=none"], "no rows of the task 'none'"),
        (["--tokenizer", "wide"], "--tokenizer wide: expected SUITE=FOLDER"),
        (["--link", "Report"], "--link Report: expected TITLE=URL"),
        (["--facts", "{scores}"], "no column 'dims'"),
        (["--points", "{scores}"], "no column 'reduction'"),
    ],
)
def test_bad_input_is_reported_in_one_line(files, tmp_path, monkeypatch, capsys, flags, words):
    monkeypatch.chdir(tmp_path)
    given = [flag.format(scores=tmp_path / "scores.csv") for flag in flags]
    assert execute("explorer", [*files, *given, "-o", "explorer.html"]) == 1
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_study_without_hidden_states_or_facts_has_an_explorer_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    score_rows().to_csv("scores.csv", index=False)
    estimate_rows(score_rows()).to_csv("estimates.csv", index=False)
    pd.DataFrame(columns=[*payload.FACT_COLUMNS, "parameters"]).to_csv("inventory.csv", index=False)
    flags = [
        *SHOWN,
        "--scores",
        "scores.csv",
        "--estimates",
        "estimates.csv",
        "--facts",
        "inventory.csv",
    ]
    assert execute("explorer", [*flags, "-o", "explorer.html"]) == 0
    data = json.loads(re.search(r'id="payload">([^<]+)<', (tmp_path / "explorer.html").read_text("utf-8"))[1])
    assert data["layers"] == {"points": None, "confusion": None, "accuracies": None}


def test_parameters_are_counted_from_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_file({"table": np.zeros((5, 3), np.float32)}, "table.safetensors")
    save_file({"in": np.zeros((5, 3), np.float16), "bias": np.zeros(3), "one": np.zeros(())}, "whole.safetensors")
    models = [
        "--model",
        "ladder",
        "w3",
        "table.safetensors",
        "whole.safetensors",
        "--model",
        "cbow",
        "c3",
        "table.safetensors",
    ]
    assert execute("sizes", [*models, "-o", "sizes.csv"]) == 0
    rows = pd.read_csv("sizes.csv").set_index("model")
    assert rows.loc["w3", ["rows", "dims", "parameters"]].tolist() == [5, 3, 19]
    assert rows.loc["c3", "parameters"] == 15
    shares = decoded(payload.facts(rows.reset_index())).set_index("model")["table_share"]
    assert shares["w3"] == pytest.approx(15 / 19) and shares["c3"] == 1


def test_every_key_of_an_address_is_described():
    text = (ROOT / "docs/explorer.md").read_text("utf-8")
    keys = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `") and "#view" not in line]
    named = {name for key in keys for name in re.findall("`([a-z_]+)`", key)}
    fields = re.findall('<(?:select|input|fieldset)[^>]* id="([a-z_]+)"', page.DESIGN[1].read_text("utf-8"))
    assert named == {*fields, "view", "chosen"}
    addresses = re.findall("#(view=[^` \n]+)", text)
    assert addresses and {part.partition("=")[0] for address in addresses for part in address.split("&")} <= named
    rows = score_rows().assign(split="text", classifier="logistic_regression", input="raw", control="none")
    chosen = {"suites": ["wide"], "variants": ["full"]}
    states = [views.scores(rows, **chosen), views.differences(rows, **chosen, x="tokens"), views.classifiers(rows)]
    assert {key for state in [*states, views.reductions(point_rows())] for key in state} <= named


def test_what_is_no_model_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("table.safetensors").write_bytes(b"no")
    assert execute("sizes", ["--model", "ladder", "w3", "-o", "sizes.csv"]) == 1
    assert "--model ladder w3: expected SUITE MODEL TABLE" in capsys.readouterr().err
    assert execute("sizes", ["--model", "ladder", "w3", "table.safetensors", "-o", "sizes.csv"]) == 1
    assert "table.safetensors: not a safetensors file" in capsys.readouterr().err


def test_a_column_that_stays_the_same_is_reported_by_its_runs():
    rows = pd.DataFrame({"word": ["a"] * 5 + ["b"] * 4, "number": [0.5] * 4 + [np.nan] * 5, "all": range(9)})
    rows["last"] = rows["word"] == "a"
    told = payload.columns(rows, digits=3)
    assert told["word"] == {"levels": ["a", "b"], "runs": [0, 5, 1, 4]}
    assert told["number"] == {"levels": [0.5, None], "runs": [0, 4, 1, 5]}
    assert told["all"] == {"values": list(range(9))}
    assert told["last"] == {"levels": [True, False], "runs": [0, 5, 1, 4]}


def test_of_long_queries_the_beginning_is_shown():
    rows = query_rows().assign(text=["a" * 300, "b" * 301, "c"] * 3)
    found = decoded(payload.query_changes(rows))
    assert found["text"].tolist()[:3] == ["a" * 300, "b" * 299 + "…", "c"]
    assert found["difference"].tolist() == pytest.approx(rows["difference"].tolist())
    assert payload.query_changes(None) is None
