"""Every published number beside ours: what answers it, how a difference is explained, and what it waits for."""

import numpy as np
import pandas as pd
import pytest

from embscale.checkpoints import suites
from embscale.claims import published_cells, published_scores, reproduction
from embscale.cli import execute
from embscale.scoring.named_tables import text_sha256
from embscale.scoring.scores import COLUMNS
from sources import ROOT

SCORES = {
    "suite": "pythia", "model": "pythia-70m", "tokenizer": "gpt-neox-20b", "variant": "full", "task": "SCIDOCS",
    "metric": "ndcg_at_10", "value": 0.04785, "ci_low": 0.04, "ci_high": 0.06, "n": 1000,
}  # fmt: skip
ESTIMATES = {
    "suite": "pythia", "model": "pythia-70m", "step": 143000, "tokenizer": "gpt-neox-20b", "table": "input",
    "treatment": "full", "width": 512, "task": "SCIDOCS", "metric": "ndcg_at_10", "length": "all", "queries": "all",
    "pooling": "mean", "special_tokens": "exclude", "value": 0.05, "ci_low": 0.04, "ci_high": 0.06, "n": 1000,
}  # fmt: skip
RUN = {
    "way": "faithful", "model": "gpt2", "trained_on": "imdb", "texts": "imdb", "tokens": 50, "texts_count": 1000,
    "n_layers": 13, "input": "raw", "control": "none", "masked": "", "value": 0.9, "ci_low": 0.89, "ci_high": 0.91,
    "n": 130000,
}  # fmt: skip


@pytest.fixture(scope="module")
def registry():
    points = suites.load(ROOT / "workflow/suites.yaml", ROOT / "workflow/pins.yaml")
    return {point.model: point for several in points.values() for point in several}


def table(registry, scores=(), estimates=(), layers=(), there=(), tasks=("SCIDOCS",)):
    """The table of planted rows, given as what differs from those above."""
    frames = [
        pd.DataFrame([{**base, **row} for row in rows], columns=[*dict.fromkeys([*columns, *base])])
        for rows, base, columns in (
            (scores, SCORES, COLUMNS),
            (estimates, ESTIMATES, ()),
            (layers, RUN, ()),
        )
    ]
    inventory = there if isinstance(there, dict) else dict.fromkeys(there, ("fetch", ""))
    return reproduction.table(*frames, reproduction.There(registry, inventory, tasks))


def of(rows, **values):
    for name, value in values.items():
        rows = rows[rows[name].isna() if value is None else rows[name] == value]
    return rows


def one(rows, **values):
    (found,) = of(rows, **values).to_dict("records")
    return found


FULL = {"variant": "full", "task": "SCIDOCS", "metric": "ndcg_at_10"}


def test_every_published_number_has_a_row_and_waits_where_nothing_was_run(registry):
    rows = table(registry)
    assert len(rows) == len(published_scores.load()) + len(published_scores.huang())
    assert list(rows) == reproduction.COLUMNS and rows["faithful"].isna().all() and (rows["explained"] == "").all()
    assert set(rows["status"]) == {"needs weights", "needs tokenizer"}
    assert (rows["needs"] != "").all()
    assert one(rows, model="opt-175b", **FULL)["needs"] == "opt-175b: on no hub, given on request"
    assert one(rows, model="pythia-14m", **FULL)["needs"] == "EleutherAI/pythia-14m-deduped (open)"
    assert "(gated)" in of(rows, model="Llama-2-7b-hf")["needs"].iloc[0]
    # Random tables, also those as large as a model's, need no weights.
    assert set(of(rows, variant="random")["status"]) == {"needs tokenizer"}
    # One number is of texts that nobody can choose again.
    assert rows["route"].sum() == len(rows) - 1


def test_an_equal_score_is_equal_and_ours_stands_beside_it(registry):
    found = one(table(registry, [{}], [{}], there=["pythia-70m"]), model="pythia-70m", **FULL)
    assert found["status"] == "run" and found["explained"] == reproduction.EQUAL
    assert (found["faithful"], found["corrected"], found["faithful_n"]) == (0.04785, 0.05, 1000)
    assert found["difference"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.047854, reproduction.EQUAL),  # rounds to the published digits
        (0.04786, reproduction.INSIDE),
        (0.2, reproduction.UNEXPLAINED),
    ],
)
def test_a_different_score_is_explained_by_digits_by_the_interval_or_not_at_all(registry, value, words):
    shift = value - 0.04785
    rows = table(registry, [{"value": value, "ci_low": 0.04 + shift, "ci_high": 0.06 + shift}], there=["pythia-70m"])
    found = one(rows, model="pythia-70m", **FULL)
    assert found["explained"] == words and found["difference"] == pytest.approx(shift)
    assert np.isnan(found["corrected"])


def test_a_number_known_to_be_wrong_keeps_its_reason_and_is_counted_apart(registry):
    crop = {"variant": "crop", "variant_dims": 128, "value": 0.02739}
    rows = table(registry, [crop], there=["pythia-70m"])
    found = of(rows, model="pythia-70m", variant="crop", task="SCIDOCS", metric="ndcg_at_10")
    assert dict(zip(found["valid"], found["explained"], strict=True)) == {
        True: reproduction.EQUAL,
        False: "the weights were never loaded into the cropped table, so every model of the suite has the score of one "
        "random table",
    }
    assert "1 were run whose published value is known to be wrong" in reproduction.sentences(rows)


def test_pads_and_draws_are_found_by_what_was_drawn(registry):
    pad = {"variant": "pad_faithful_legacy", "variant_dims": 5120, "seed": 42}
    rows_of = registry["pythia-6.9b"].rows
    assert rows_of == 50432
    beside, baseline = (
        {
            "suite": "random", "model": "random", "variant": "random_legacy", "variant_dims": 4096, "seed": 42,
            "table_sha256": text_sha256(f"random:{rows}x4096:42:legacy"), "value": value,
        }
        for rows, value in ((rows_of, 0.1), (50304, 0.2))
    )  # fmt: skip
    random = {"suite": "random", "model": "random", "table": "random", "step": None, "width": 4096, "value": 0.3}
    padded = {"treatment": "pad:5120", "value": 0.4}
    rows = table(registry, [pad, beside, baseline], [random, padded], there=["pythia-70m", "pythia-6.9b"])
    chosen = {"variant": "random", "variant_dims": 4096, "seed": 42, "metric": "ndcg_at_10"}
    own = one(rows, model="pythia-6.9b", **chosen)
    assert (own["faithful"], own["corrected"]) == (0.1, 0.3)
    assert one(rows, suite="random", tokenizer="gpt-neox-20b", **chosen)["faithful"] == 0.2
    found = one(rows, model="pythia-70m", variant="pad", variant_dims=5120, metric="ndcg_at_10")
    assert (found["faithful"], found["corrected"]) == (0.04785, 0.4)
    # Another table of the same tokenizer was not drawn.
    assert one(rows, model="pythia-12b", **(chosen | {"variant_dims": 5120}))["status"] == "not part of this study"


def test_weights_that_were_renamed_answer_under_their_new_name_first(registry):
    now, then = {"model": "pythia-14m", "value": 0.5}, {"model": "pythia-14m-deduped", "value": 0.01797}
    alone = one(table(registry, [now], there=["pythia-14m"]), model="pythia-14m", **FULL)
    assert alone["faithful"] == 0.5 and alone["explained"] == f"{reproduction.RENAMED}, pythia-14m-deduped"
    both = one(table(registry, [now, then], there=["pythia-14m", "pythia-14m-deduped"]), model="pythia-14m", **FULL)
    assert both["faithful"] == 0.01797 and both["explained"] == reproduction.EQUAL


def test_estimates_with_special_tokens_or_cut_documents_are_not_the_corrected_ones(registry):
    wrong = [{"length": "64"}, {"special_tokens": "include"}, {"queries": "heldout"}, {"step": 0}]
    rows = table(registry, [{}], [*wrong, {"value": 0.07}], there=["pythia-70m"])
    assert one(rows, model="pythia-70m", **FULL)["corrected"] == 0.07
    rows = table(registry, [{}], wrong[:3], there=["pythia-70m"])
    assert np.isnan(one(rows, model="pythia-70m", **FULL)["corrected"])


def test_a_study_without_the_task_or_without_access_says_so(registry):
    gated = {"Llama-2-7b-hf": ("gated", "Gated."), "pythia-70m": ("too large", "Its table is too large.")}
    rows = table(registry, there=gated)
    assert one(rows, model="pythia-70m", **FULL)["needs"] == "EleutherAI/pythia-70m (open); Its table is too large"
    rows = table(registry, there=["pythia-70m"], tasks=[])
    found = one(rows, model="pythia-70m", **FULL)
    assert (found["status"], found["needs"]) == ("not part of this study", "SCIDOCS under tasks")


GPT2 = {"model": "gpt2", "texts": "imdb", "tokens": 50, "texts_count": 1000, "masked": ""}


def test_accuracies_are_matched_by_the_whole_run(registry):
    corrected = {"way": "corrected", "value": 0.85}
    rows = table(registry, layers=[{}, corrected, {"tokens": 40, "value": 0.1}], there=["gpt2"])
    found = one(rows, **GPT2)
    assert (found["faithful"], found["corrected"]) == (0.9, 0.85) and found["published"] == pytest.approx(
        0.899, abs=1e-3
    )
    assert found["explained"] == reproduction.INSIDE
    assert one(rows, **(GPT2 | {"tokens": 40}))["explained"] == reproduction.UNEXPLAINED
    other = one(rows, **(GPT2 | {"tokens": 30}))
    assert (other["status"], other["needs"]) == ("not part of this study", "1000 texts of 30 tokens of imdb")


def test_the_report_counts_and_shows_what_was_run(registry):
    empty = reproduction.partial(table(registry))
    assert "1,170 numbers" in empty and "None of them was run here" in empty and "|" not in empty
    rows = table(registry, [{}], [{}], [{}], there=["pythia-70m", "gpt2"])
    words = reproduction.partial(rows)
    assert "2 were run here" in words and "1 are equal to the published digits, 1 more lie inside" in words
    assert "| corey2024 |" in words.replace("  ", " ") and "pythia-70m" in words and "pythia-160m" not in words


def test_the_command_writes_rows_table_and_download(tmp_path):
    estimates, inventory = tmp_path / "estimates.csv", tmp_path / "inventory.csv"
    pd.DataFrame([ESTIMATES]).to_csv(estimates, index=False)
    inventory.write_text("suite,model,checkpoint,repo,commit,rows,dims,licence,status,reason\n")
    outputs = [tmp_path / name for name in ("reproduction.csv", "reproduction.md", "reproduction.csv.gz")]
    flags = ["--registry", ROOT / "workflow/suites.yaml", "--pins", ROOT / "workflow/pins.yaml", "--tasks", "SCIDOCS"]
    flags += ["--bootstrap-resamples", 10, "--bootstrap-seed", 1, "--output", outputs[0], "--partial", outputs[1]]
    flags += ["--estimates", estimates, "--inventory", inventory, "--data", outputs[2]]
    assert execute("reproduction", [str(flag) for flag in flags]) == 0
    assert "({{< meta data >}}/reproduction.csv.gz)" in outputs[1].read_text()
    assert len(pd.read_csv(outputs[0])) == len(pd.read_csv(outputs[2])) == 1170


# What the rules ask for.


def test_what_is_asked_for_covers_every_published_score(registry):
    """Each published score is answered by a form of its model's table or by a draw that the rules name."""
    rows_of = {model: point.rows for model, point in registry.items()}
    for cell in published_cells.cells():
        if cell.variant == "random":
            drawn = published_cells.random_tables(cell.tokenizer, cell.task, rows_of)
            assert cell.drawn(cell.rows or rows_of[cell.model]) in drawn
        else:
            model = published_cells.model_now(cell.model, rows_of)
            assert cell.form in published_cells.forms(model, cell.task, rows_of)


def test_rows_of_the_baselines_are_those_that_the_study_names():
    rows = {cell.tokenizer: cell.rows for cell in published_cells.cells() if cell.model == "random"}
    assert rows == {"gpt-neox-20b": 50304, "t5-v1_1": 32128, "opt": 50272, "gpt2": 50257, "bloom": 250880}


def test_renamed_weights_are_scored_once_where_both_names_are_there():
    there = ["pythia-14m", "pythia-14m-deduped"]
    assert published_cells.forms("pythia-14m", "SCIDOCS", there) == []
    assert "full" in published_cells.forms("pythia-14m-deduped", "SCIDOCS", there)
    assert "full" in published_cells.forms("pythia-14m", "SCIDOCS", ["pythia-14m"])
