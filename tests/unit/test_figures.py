"""Figures: drawn from tidy rows, the same bytes each time, described with the numbers that they show."""

import hashlib
import importlib
import io
import re

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.plotting import theme
from embscale.report import numbers
from embscale.rows import markdown
from embscale.rows.markdown import escape

WIDTHS = (16, 32)
LAYERS = ("embedding", "block 1", "block 2")


def score_rows():
    shared = {"metric": "ndcg_at_10", "task": "T", "n": 100}
    rows = [
        {"suite": "ladder", "model": f"ladder-w{width}", "step": step, "variant": variant, "dim": dim, "value": value}
        for width in WIDTHS
        for step, variant, dim, value in (
            (0, "full", width, 0.02),
            (40, "full", width, width / 1000),
            (40, "crop", 16, 0.011),
            (40, "pad", 64, 0.03),
        )
    ] + [
        {"suite": "random", "model": "random", "variant": "random", "dim": dim, "seed": seed, "value": value}
        for dim, seed, value in ((16, 1, 0.01), (16, 2, 0.012), (32, 1, 0.04), (32, 2, 0.042), (64, 1, 0.06))
    ]
    frame = pd.DataFrame(rows).assign(**shared, variant_dims=np.nan)
    return frame.assign(ci_low=frame["value"] - 0.002, ci_high=frame["value"] + 0.002)


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
        suite="ladder", n=500, n_layers=3, converged=True, ci_low=frame["value"] - 0.02, ci_high=frame["value"] + 0.02,
        classifier="logistic_regression", split="text", input="raw", control="none", tokens=32, texts_count=200,
    )  # fmt: skip


def geometry_rows():
    rows = score_rows()
    full = rows[(rows["variant"] == "full") & (rows["step"] == 40)]
    idf = full.assign(variant="idf", value=full["value"] * 2, ci_low=full["value"], ci_high=full["value"] * 3)
    bm25 = full.head(1).assign(suite="reference", model="bm25", variant="bm25", step=np.nan, dim=np.nan, value=0.4)
    return pd.concat([rows, idf, bm25.assign(ci_low=0.3, ci_high=0.5)])


def suite_rows():
    rows = score_rows().assign(tokenizer="a")
    full = rows[(rows["variant"] == "full") & (rows["step"] == 40)]
    published = full.assign(suite="pythia", model=full["model"].str.replace("ladder-w", "pythia-"), step=np.nan)
    early = published.assign(step=1, value=0.9, ci_low=0.8, ci_high=1.0)
    return pd.concat([rows, published.assign(value=[0.05, 0.07], ci_low=0.04, ci_high=0.08), early])


def corey_score_rows():
    """Two models of a suite of the first study on its task, the second scored as it published."""
    shared = {"suite": "pythia", "tokenizer": "gpt-neox-20b", "variant": "full", "step": 143000}
    rows = [
        shared | {"model": "pythia-14m-deduped", "dim": 128, "value": 0.05},
        shared | {"model": "pythia-1b", "dim": 2048, "value": 0.08063},
        *(
            {"suite": "random", "model": "random", "tokenizer": "gpt-neox-20b", "variant": "random", "dim": dim}
            | {"seed": seed, "value": value}
            for dim, seed, value in ((128, 1, 0.01), (128, 2, 0.02), (2048, 1, 0.03), (2048, 2, 0.03))
        ),
    ]
    frame = pd.DataFrame(rows).assign(task="SCIDOCS", metric="ndcg_at_10", variant_dims=np.nan)
    return frame.assign(ci_low=frame["value"] - 0.005, ci_high=frame["value"] + 0.005)


FIGURES = {
    "suites": (suite_rows, "pythia on T: 5.00 (pythia-16, 16 columns) to 7.00 (pythia-32, 32 columns)"),
    "suite_variants": (corey_score_rows, "Pythia computed here: 5.00 at 128 columns, 8.06 at 2048"),
    "random_tokenizers": (corey_score_rows, "gpt-neox-20b computed here: 1.50 at 128 columns, 3.00 at 2048"),
    "table_geometry": (geometry_rows, "at width 32: as trained 3.20, weighted by rarity (idf) 6.40"),
    "scaling": (score_rows, "trained table: 1.60 at width 16, 3.20 at width 32"),
    "random_baseline": (score_rows, "from 1.10 with 16 columns to 6.00 with 64"),
    "training": (score_rows, "width 32: 2.00 before training, 3.20 after step 40"),
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
    metric = ["--where", "metric=ndcg_at_10"] if "score" in rows.__name__ else []
    for run in ("a", "b"):
        files = outputs(tmp_path, run)
        assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *metric, *files, "--image", "f.svg"]) == 0
    assert (tmp_path / "a-rows.csv.gz").read_bytes() == (tmp_path / "b-rows.csv.gz").read_bytes()
    svg = (tmp_path / "a.svg").read_bytes()
    assert svg == (tmp_path / "b.svg").read_bytes() and svg.count(b"<path") > 20
    partial = (tmp_path / "a.md").read_text()
    image, _, source = partial.partition("\n\n")
    assert re.fullmatch(r'!\[\]\(f\.svg\)\{fig-alt="[^"]{80,}"\}', image) and words in image
    assert source.startswith('<details class="source">') and f"embscale draw {escape(name)}" in source
    digest = hashlib.sha256((tmp_path / "rows.csv").read_bytes()).hexdigest()
    assert digest[:12] in source and "({{< meta data >}}/b-rows.csv.gz)" in (tmp_path / "b.md").read_text()
    shown = rows()
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "a-rows.csv.gz"), pd.read_csv(io.StringIO(shown.to_csv(index=False))), check_dtype=False
    )


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


def test_numbers_of_the_scores_by_hand():
    values = numbers.score_numbers(score_rows())
    assert values["best"] == "3.20 [3.00, 3.40]" and values["best_width"] == 32
    # Width 16: 1.60 above its random tables' 1.10; width 32: 3.20 below their 4.10.
    assert (values["above_random"], values["below_random"]) == (1, 1)
    assert values["below_untrained"] == 1
    assert values["random_largest"] == "6.00" and values["random_largest_dims"] == 64


def test_numbers_of_the_layers_by_hand():
    values = numbers.layer_numbers(probe_rows(), "heldout")
    assert values["best"] == "92.0 [90.0, 94.0]" and values["worst_model"] == "ladder-w16"
    assert (values["chance"], values["layers"], values["seeds"], values["not_converged"]) == ("33 %", 3, 1, 0)


def test_tables_have_a_row_per_model():
    assert "| 16 | 1.60 [1.40, 1.80] | 1.10 [0.90, 1.30] | 3.00 [2.80, 3.20] | 1.10 |" in numbers.score_table(
        score_rows()
    )
    assert "| ladder-w32 | 3 | 92.0 [90.0, 94.0] | 97.0 [95.0, 99.0] | 0.20 | 500 |" in numbers.layer_table(
        probe_rows()
    )


@pytest.mark.parametrize("name", ["suites", "table_geometry"])
def test_a_figure_of_what_was_not_run_says_so_in_its_place(name, tmp_path):
    score_rows().assign(tokenizer="a").to_csv(tmp_path / "rows.csv", index=False)
    files = outputs(tmp_path, "f")
    assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *files]) == 0
    assert "**not run**" in (tmp_path / "f.md").read_text() and "![" not in (tmp_path / "f.md").read_text()


def test_rows_that_no_condition_leaves_are_reported(tmp_path, capsys):
    score_rows().to_csv(tmp_path / "rows.csv", index=False)
    arguments = ["scaling", "--rows", str(tmp_path / "rows.csv"), "--where", "task=U"]
    assert execute("draw", [*arguments, *outputs(tmp_path, "f")]) == 1
    assert "no rows of the task 'U'; there are T" in capsys.readouterr().err


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
