"""Figures: drawn from tidy rows, the same bytes each time, described with the numbers that they show."""

import hashlib
import importlib
import io
import re
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest

from embscale.claims import published_scores
from embscale.cli import execute
from embscale.cli.draw import explorer_link
from embscale.figures import layer_accuracy, layer_confusion, scaling, suites
from embscale.plotting import theme, views
from embscale.report import numbers
from embscale.rows import labels, markdown
from embscale.rows.markdown import escape
from embscale.scoring import primary_length
from estimate_rows import differences, estimates

WIDTHS = (16, 32)
LAYERS = ("embedding", "block 1", "block 2")


def probe_rows():
    frame = pd.DataFrame(
        [
            {"model": f"ladder-w{width}", "layer": layer, "metric": metric, "value": value, "seed": seed}
            for width in WIDTHS
            for seed in ("1", "all")
            for layer, metric, value in (
                (None, "chance", 1 / 3),
                (None, "accuracy", 0.6 + width / 100),
                (None, "within_one_accuracy", 0.97),
                (None, "mean_absolute_layer_error", 0.2),
                *((layer, "recall", 0.5 + i / 10) for i, layer in enumerate(LAYERS)),
            )
        ]
    )
    return frame.assign(
        suite="ladder", step=40, n=500, n_layers=3, converged=True,
        ci_low=frame["value"] - 0.02, ci_high=frame["value"] + 0.02,
        classifier="logistic_regression", split="text", input="raw", control="none", tokens=32, texts_count=200,
    )  # fmt: skip


def all_rows():
    """Estimates of the first task at the first length, of all queries."""
    rows = estimates()
    return rows[(rows["task"] == "T") & (rows["length"] == "64") & (rows["queries"] == "all")]


def tasks_rows():
    rows = estimates()
    return rows[(rows["length"] == "64") & (rows["queries"] == "all")]


def lengths_rows():
    rows = estimates()
    return rows[(rows["task"] == "T") & (rows["queries"] == "all")]


def difference_rows():
    rows = differences()
    return rows[(rows["task"] == "T") & (rows["length"] == "64") & (rows["queries"] == "all")]


def curve_rows():
    """Trained less random tables at three points of the training, the last one above zero."""
    rows = difference_rows()
    rows = rows[(rows["against"] == "random") & (rows["treatment"] == "full")]
    last = rows[rows["step"] == 40].assign(step=4000, value=0.01, ci_low=0.005, ci_high=0.015)
    return pd.concat([rows, last]).assign(study="small", tokens=lambda rows: rows["step"] * 1000)


def heldout_rows():
    rows = differences()
    return rows[(rows["task"] == "T") & (rows["length"] == "64")]


def suite_rows():
    rows = all_rows()
    full = rows[(rows["suite"] == "ladder") & (rows["table"] == "input") & (rows["step"] == 40)]
    published = full.assign(suite="pythia", model=full["model"].str.replace("ladder-w", "pythia-"), step=np.nan)
    early = published.assign(step=1, value=0.9, ci_low=0.8, ci_high=1.0)
    return pd.concat([rows, published, early])


def corey_score_rows():
    """Two models of a suite of the first study on its task, the second scored as it published."""
    shared = {"suite": "pythia", "table": "input", "treatment": "full", "step": 143000}
    random = {"suite": "random", "model": "random", "table": "random", "treatment": "full"}
    rows = [
        shared | {"model": "pythia-14m-deduped", "width": 128, "value": 0.05},
        shared | {"model": "pythia-1b", "width": 2048, "value": 0.08063},
        random | {"width": 128, "value": 0.015},
        random | {"width": 2048, "value": 0.03},
    ]
    frame = pd.DataFrame(rows).assign(tokenizer="gpt-neox-20b", task="SCIDOCS", metric="ndcg_at_10", runs=1)
    frame["dim"] = frame["width"]
    return frame.assign(ci_low=frame["value"] - 0.005, ci_high=frame["value"] + 0.005)


FIGURES = {
    "suites": (suite_rows, "pythia on T: 2.00 (pythia-16, 16 columns) to 3.00 (pythia-32, 32 columns)"),
    "suite_variants": (corey_score_rows, "Pythia computed here: 5.00 at 128 columns, 8.06 at 2048"),
    "random_tokenizers": (corey_score_rows, "gpt-neox-20b computed here: 1.50 at 128 columns, 3.00 at 2048"),
    "table_geometry": (all_rows, "trained: as it is 3.00, weighted by rarity (idf) 6.00; random: as it is 4.00"),
    "scaling": (tasks_rows, "T, trained: 2.00 at width 16, 3.00 at width 32; T, untrained: 1.10 at width 16"),
    "table_controls": (difference_rows, "trained less random tables: as it is -1.00, weighted by rarity (idf) -2.00"),
    "random_baseline": (all_rows, "from 1.00 with 16 columns to 6.00 with 64. Without a table: token overlap 20.00"),
    "training": (
        curve_rows,
        "width 32: +0.10 before training, -1.00 at its lowest after 40,000 tokens, +1.00 after 4 million tokens; above "
        "random tables for good after 400,000 tokens",
    ),
    "lengths": (lengths_rows, "width 32, 64: trained 3.00, random 4.00; all: trained 0.75, random 1.00"),
    "heldout": (heldout_rows, "4.50 at width 32, -1.50 against random"),
    "layer_accuracy": (probe_rows, "w16 76.0 %, w32 92.0 %; chance is 33 %"),
}


def outputs(folder, stem):
    """The flags that say where a figure, its Markdown and its rows go."""
    files = {"--svg": f"{stem}.svg", "--partial": f"{stem}.md", "--data": f"{stem}-rows.csv.gz"}
    return [part for flag, name in files.items() for part in (flag, str(folder / name))]


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_the_command_draws_the_same_bytes_and_describes_them(name, tmp_path):
    rows, words = FIGURES[name]
    rows().to_csv(tmp_path / "rows.csv", index=False)
    metric = ["--where", "metric=ndcg_at_10"] if name != "layer_accuracy" else []
    for run in ("a", "b"):
        files = outputs(tmp_path, run)
        assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *metric, *files, "--image", "f.svg"]) == 0
    assert (tmp_path / "a-rows.csv.gz").read_bytes() == (tmp_path / "b-rows.csv.gz").read_bytes()
    svg = (tmp_path / "a.svg").read_bytes()
    assert svg == (tmp_path / "b.svg").read_bytes() and svg.count(b"<") > 60
    partial = (tmp_path / "a.md").read_text()
    image, _, source = partial.partition("\n\n")
    assert re.fullmatch(r'!\[\]\(f\.svg\)\{fig-alt="[^"]{80,}"\}', image) and words in image
    assert source.startswith('<details class="source">') and f"embscale draw {escape(name)}" in source
    digest = hashlib.sha256((tmp_path / "rows.csv").read_bytes()).hexdigest()
    assert digest[:12] in source and "({{< meta data >}}/b-rows.csv.gz)" in (tmp_path / "b.md").read_text()
    shown = rows()
    shown = shown[shown["metric"] == "ndcg_at_10"] if metric else shown
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "a-rows.csv.gz"), pd.read_csv(io.StringIO(shown.to_csv(index=False))), check_dtype=False
    )


def test_a_link_leads_to_the_view_of_the_explorer_that_the_rows_are_of():
    link = explorer_link(scaling.explorer(estimates().assign(metric="map_at_10")))
    address = re.search(r"\]\(\{\{< meta explorer >\}\}#([^)]+)\)", link)[1]
    state = parse_qs(address)
    assert state["view"] == ["tables"] and state["x"] == ["width"] and state["metric"] == ["map_at_10"]
    assert state["beside"] == ["intervals", "random", "reference"]


@pytest.mark.parametrize(("step", "name"), [(400, "ladder/ladder-w32, step 400"), (None, "ladder/ladder-w32")])
def test_the_confusion_leads_to_its_own_model_in_the_explorer(step, name):
    rows = pd.DataFrame({"suite": "ladder", "model": ["ladder-w16", "ladder-w32"], "width": [16, 32], "step": step})
    rows = rows.assign(classifier="logistic_regression", split="token", step=pd.to_numeric(rows["step"]))
    shown = layer_confusion.explorer(rows)
    assert (shown["view"], shown["model"], shown["split"], shown["input"]) == ("layers", name, "token", "raw")


def test_views_of_figures_name_what_is_drawn():
    rows = estimates().assign(metric="ndcg_at_10", task="Cats")
    assert views.scores(rows, suites=["ladder"])["task"] == "Cats"
    both = pd.concat([rows, rows.assign(task="Dogs")])
    assert "task" not in views.scores(both, suites=["ladder"])
    state = layer_accuracy.explorer(probe_rows())
    assert (state["model"], state["quality"]) == ("ladder/ladder-w32, step 40", "accuracy")


@pytest.mark.parametrize("name", FIGURES)
def test_a_missing_column_is_reported(name, tmp_path, capsys):
    column = importlib.import_module(f"embscale.figures.{name}").COLUMNS[0]
    FIGURES[name][0]().drop(columns=column).to_csv(tmp_path / "rows.csv", index=False)
    files = outputs(tmp_path, "a")
    assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *files]) == 1
    assert f"rows.csv: no column '{column}'" in capsys.readouterr().err


def test_an_unknown_figure_is_reported(tmp_path, capsys):
    files = outputs(tmp_path, "a")
    assert execute("draw", ["no_such", "--rows", str(tmp_path / "rows.csv"), *files]) == 1
    assert "no figure 'no_such'; known are" in capsys.readouterr().err


def test_labels_are_moved_apart_no_further_than_needed():
    assert theme.spread(np.array([0.0, 100.0]), 10).tolist() == [0, 100]
    assert theme.spread(np.array([50.0, 50.0, 50.0]), 10) == pytest.approx([40, 50, 60])


MAIN = {"task": "T", "metric": "ndcg_at_10"}


def test_numbers_of_the_scores_by_hand():
    values = numbers.score_numbers(estimates(), differences(), **MAIN, length="64")
    assert values["best"] == "3.00 [2.80, 3.20]" and values["best_width"] == 32
    # Width 16: 2.00 trained and 1.00 random; width 32: 3.00 and 4.00; intervals of differences are 0.20 to each side.
    assert values["less_random_narrowest"] == "+1.00 [+0.80, +1.20]"
    assert values["less_random_widest"] == "−1.00 [−1.20, −0.80]"
    assert values["against_random"] == "above them at 1 and below them at 1 of 2 widths"
    assert values["against_shuffled"] == "above them at all 2 widths"
    # With idf weights all scores double.
    assert values["less_random_idf_widest"] == "−2.00 [−2.20, −1.80]" and values["idf_widest"] == "6.00 [5.80, 6.20]"
    assert (values["runs"], values["clusters"], values["length"]) == ("3 runs", "20", "first 64 tokens")
    # The second task's scores are three times as high, held-out ones half as high again.
    assert values["second_task"] == "U" and values["second_less_random_widest"] == "−3.00 [−3.20, −2.80]"
    assert values["heldout_less_random_widest"] == "−1.50 [−1.70, −1.30]"


def test_a_difference_whose_interval_contains_zero_is_on_neither_side():
    rows = pd.DataFrame({"ci_low": [-0.1, 0.0, 0.1], "ci_high": [-0.05, 0.2, 0.3]})
    assert numbers.sides(rows) == "above them at 1, below them at 1 and within the uncertainty at 1 of 3 widths"


def test_what_a_study_leaves_out_is_said():
    rows, apart = (of[(of["task"] == "T") & (of["treatment"] != "idf")] for of in (estimates(), differences()))
    apart = apart[apart["queries"] == "all"]
    values = numbers.score_numbers(rows, apart, **MAIN, length="64")
    for name in ("idf_widest", "less_random_idf_widest", "against_random_idf", "second_task", "heldout_queries"):
        assert values[name] == "not run", name


def test_a_score_without_an_interval_is_shown_alone():
    row = pd.Series({"value": -0.0123, "ci_low": np.nan, "ci_high": np.nan})
    assert labels.interval(row) == "−1.23" and labels.interval(abs(row), signed=True) == "+1.23"


def lengths_by_hand(bm25, narrowest=0.011, middle=0.11, chance=0.001):
    """Estimates of two widths at three lengths; by default the shortest meets both conditions, the longest neither."""
    rows = []
    for length, factor in {"32": 1.0, "64": 0.9, "all": 0.5}.items():
        shared = {"length": length, "step": np.nan}
        rows += [
            shared | {"suite": "ladder", "model": f"w{width}", "table": "input", "treatment": "full", "width": width}
            for width in (16, 64)
        ]
        rows += [
            shared
            | {"suite": "random", "model": "random", "table": "random", "treatment": "full", "width": width}
            | {"value": value * factor}
            for width, value in ((16, narrowest), (64, middle))
        ]
        rows += [
            shared | {"suite": "reference", "model": name, "table": "reference", "treatment": name, "value": value}
            for name, value in (("chance", chance), ("bm25", bm25))
        ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        # Ten times chance is 0.010: 0.011 is more, 0.0099 less.
        (lengths_by_hand(0.2), "32"),
        # A quarter of BM25 is 0.1, which the middle width reaches at 64 with 0.108 and not at all with 0.055.
        (lengths_by_hand(0.4, narrowest=0.1, middle=0.12), "64"),
        (lengths_by_hand(0.2, narrowest=0.1), "all"),
        (lengths_by_hand(0.8, narrowest=0.1), None),
    ],
)
def test_the_primary_length_is_the_longest_that_is_off_the_floor(rows, chosen):
    assert primary_length.choice(primary_length.ratios(rows)) == chosen
    told = numbers.length_words(rows.assign(task="T", metric="ndcg_at_10", queries="all"), **MAIN, length="32")
    assert told.startswith("The rule chooses the first 32 tokens") == (chosen == "32")
    assert ("**" in told) == (chosen != "32")


def test_the_middle_of_four_widths_is_the_wider_one():
    rows = lengths_by_hand(0.2)
    more = rows[rows["model"] == "w64"].assign(model="w128", width=128)
    four = pd.concat([rows, more, more.assign(model="w32", width=32)])
    assert primary_length.ratios(four)["middle"].tolist() == primary_length.ratios(rows)["middle"].tolist()


def test_numbers_of_the_layers_by_hand():
    values = numbers.layer_numbers(probe_rows(), "heldout")
    assert values["best"] == "92.0 [90.0, 94.0]" and values["worst_model"] == "ladder-w16"
    assert (values["chance"], values["layers"], values["seeds"], values["not_converged"]) == ("33 %", 3, 1, 0)


def test_tables_have_a_row_per_model():
    shown = tasks_rows()
    table = numbers.score_table(shown, metrics=["ndcg_at_10", "recall_at_100"])
    intervals = "2.00 [1.80, 2.20] | 1.00 [0.80, 1.20] | 1.10 [0.90, 1.30] | 0.40 [0.20, 0.60]"
    assert f"| T | nDCG@10 | 16 | {intervals} | 0.05 | 40.00 |" in table
    assert table.count("| U | recall@100 |") == 2
    treated = numbers.treatment_table(
        all_rows()[all_rows()["metric"] == "ndcg_at_10"], difference_rows().query("metric == 'ndcg_at_10'")
    )
    assert "| weighted by rarity (idf) | 32 | 6.00 [5.80, 6.20] | −2.00 [−2.20, −1.80] |" in treated
    assert "| first columns: 16 | 16 | 1.00 [0.80, 1.20] | +0.50 [+0.30, +0.70] |" in treated
    assert "| ladder-w32 | 3 | 92.0 [90.0, 94.0] | 97.0 [95.0, 99.0] | 0.20 | 500 |" in numbers.layer_table(
        probe_rows()
    )


def test_the_training_of_a_width_is_the_mean_of_its_runs():
    runs = [pd.DataFrame({"tokens": [0, 10], "heldout_loss": [8.0, last]}) for last in (4.0, 5.0)]
    assert "| 16 | 2 | 10 | 1,600 | 8.00 | 4.50 |" in numbers.ladder_table({16: runs}, 100)


def test_published_scores_of_other_systems_are_marked_in_the_panel_of_their_task():
    rows = suite_rows().assign(task="SCIDOCS")
    rows = rows[rows["metric"] == "ndcg_at_10"]
    assert "published for SCIDOCS: all-mpnet-base-v2 23.77" in suites.describe(rows)
    (panel,) = suites.draw(rows).axes
    assert sum("(published)" in text.get_text() for text in panel.texts) == len(published_scores.references())
    assert "published" not in suites.describe(rows.assign(task="T"))


@pytest.mark.parametrize("name", ["suites", "table_geometry"])
def test_a_figure_of_what_was_not_run_says_so_in_its_place(name, tmp_path):
    plain_rows = all_rows()
    plain_rows[plain_rows["treatment"].isin(["full", "bm25"])].to_csv(tmp_path / "rows.csv", index=False)
    files = outputs(tmp_path, "f")
    assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *files]) == 0
    assert "**not run**" in (tmp_path / "f.md").read_text() and "![" not in (tmp_path / "f.md").read_text()


def test_rows_that_no_condition_leaves_are_reported(tmp_path, capsys):
    all_rows().to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["scaling", "--rows", str(tmp_path / "rows.csv"), "--where", "task=V"]
    assert execute("draw", [*arguments, *outputs(tmp_path, "f")]) == 1
    assert "no rows of the task 'V'; there are T" in capsys.readouterr().err


def test_tables_say_what_was_not_run():
    inventory = pd.DataFrame(
        [("opt", "opt-175b", "main", "", np.nan, 50272, 12288, "OPT licence", "restricted", "On no hub.")],
        columns=["suite", "model", "checkpoint", "repo", "commit", "rows", "dims", "licence", "status", "reason"],
    )
    assert "| opt | opt-175b | not pinned | 50,272 × 12,288 | OPT licence | On no hub\\. |" in numbers.suites_table(
        inventory
    )
    assert "None" in numbers.suites_table(inventory.head(0))
    assert "**not run**" in numbers.other_tasks_table(None)


def test_columns_of_numbers_are_set_to_the_right():
    rows = [["name", "score", "remark"], ["a", "1.50 [1.00, 2.00]", "3 of them"], ["7b", "−0.2", "x"], ["c", "", ""]]
    assert re.sub("-+", "-", markdown.markdown_table(rows).splitlines()[1]) == "| :- | -: | :- |"


def test_columns_get_room_by_their_longest_cell_within_bounds():
    rule = markdown.markdown_table([["a", "b", "c"], ["x", "y" * 10, "z" * 500]]).splitlines()[1]
    assert [cell.count("-") for cell in rule.strip("| ").split(" | ")] == [6, 10, 36]
