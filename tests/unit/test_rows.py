"""Which rows stand for a model: one rule for the last checkpoint, whoever asks."""

import numpy as np
import pandas as pd
import pytest

from embscale.claims import table_claims
from embscale.errors import EmbscaleError
from embscale.explorer import payload
from embscale.figures import position_tables, suite_variants, suites, table_metrics
from embscale.provenance import kept_results
from embscale.rows import tidy
from embscale.rows.selection import (
    is_last_checkpoint,
    ladder_tables,
    last_checkpoint,
    last_tables,
    widest_tables,
    with_unique_models,
)
from embscale.scoring.scores import KEYS

# Two suites have a model "small"; one model has steps and a revision without one; one has nothing else.
STEPS = [
    ("a", "small", 0.0, False),
    ("a", "small", 400.0, True),
    ("b", "small", 100.0, True),
    ("b", "wide", 100.0, False),
    ("b", "wide", np.nan, True),
    ("c", "single", np.nan, True),
]


def checkpoints(steps=STEPS):
    rows = pd.DataFrame(steps, columns=["suite", "model", "step", "last"])
    return rows.assign(
        variant="full",
        table="input",
        treatment="full",
        length="64",
        queries="all",
        run=np.nan,
        width=[8, 8, 16, 32, 32, 64][: len(rows)],
        task="t",
        tokenizer="k",
        metric="ndcg_at_10",
        dim=[8, 8, 16, 32, 32, 64][: len(rows)],
        value=np.arange(len(rows)) / 10,
        ci_low=0.0,
        ci_high=1.0,
        n=5,
        seed=np.nan,
        variant_dims=np.nan,
    )


@pytest.mark.parametrize("kind", ["float64", "Float64", "object", "str"])
def test_the_last_checkpoint_is_the_highest_step_or_the_one_without_a_step(kind):
    rows = checkpoints()
    if kind == "str":  # as in the files that git keeps
        rows["step"] = ["0", "400", "100", "100", "", ""]
    elif kind == "object":
        rows["step"] = rows["step"].astype(object).where(rows["step"].notna(), None)
    else:
        rows["step"] = rows["step"].astype(kind)
    assert is_last_checkpoint(rows).tolist() == rows["last"].tolist()
    pd.testing.assert_frame_equal(last_checkpoint(rows), rows[rows["last"]])


def test_the_rule_does_not_follow_the_order_of_rows():
    rows = checkpoints().sample(frac=1, random_state=1)
    assert is_last_checkpoint(rows).tolist() == rows["last"].tolist()


def test_variants_of_a_checkpoint_are_all_of_it():
    rows = pd.concat([checkpoints(), checkpoints().assign(variant="idf")], ignore_index=True)
    assert is_last_checkpoint(rows).tolist() == [*checkpoints()["last"]] * 2


def test_everybody_who_asks_for_the_last_checkpoint_gets_the_same():
    rows = checkpoints()
    last = {tuple(pair) for pair in rows.loc[rows["last"], ["suite", "model"]].itertuples(index=False)}
    values = sorted(rows.loc[rows["last"], "value"])

    assert sorted(last_tables(rows)["value"]) == values
    assert {tuple(x) for x in last_tables(rows)[["suite", "model"]].itertuples(index=False)} == last
    assert sorted(widest_tables(rows)["value"]) == [0.1, 0.4, 0.5]
    ladder = rows.assign(suite="ladder").drop(index=[2, 3, 4, 5])
    assert ladder_tables(ladder)["value"].tolist() == [0.1] and ladder_tables(ladder)["width"].tolist() == [8]
    pythia = rows.assign(suite=rows["suite"].map({"a": "pythia", "b": "opt", "c": "bloom"}))
    assert sorted(suite_variants.computed(with_unique_models(pythia))["value"]) == values
    geometry = rows.assign(stratum="all")
    shown = table_metrics._shown(geometry)
    assert sorted(shown.loc[shown["kind"] == "trained", "value"]) == values
    assert shown.loc[shown["kind"] == "untrained", "value"].tolist() == [0.0]
    positions = rows.assign(scheme="learned")
    assert sorted(position_tables._learned(positions)["value"]) == values
    kept, _ = kept_results._last_and_random(rows.astype({"value": "str"}), "64")
    assert sorted(kept["value"].astype(float)) == values
    explored = rows.assign(strength=np.nan, **{n: "x" for n in payload.SCORE_COLUMNS if n not in {*rows, "strength"}})
    marks = payload.scores(explored, first_metric="ndcg_at_10", length="64")["columns"]["last"]
    assert [marks["levels"][code] for code in marks["codes"]] == rows["last"].tolist()
    assert set(suites.last_tables(rows)["model"]) == {"small", "wide", "single"}


def test_models_of_one_name_are_told_apart_by_their_suites():
    rows = with_unique_models(checkpoints())
    assert rows["model"].tolist() == ["a/small", "a/small", "b/small", "wide", "wide", "single"]
    pd.testing.assert_frame_equal(with_unique_models(rows), rows)
    without = pd.DataFrame({"model": ["x"]})
    assert with_unique_models(without) is without


def test_rows_that_are_read_have_unique_models(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, suite in zip(paths, ("a", "b"), strict=True):
        checkpoints().query(f"suite == '{suite}'").to_csv(path, index=False)
    joined = tidy.read(paths, ("suite", "model"), where=[])
    assert set(joined["model"]) == {"a/small", "b/small", "wide"}
    assert set(tidy.read(paths, ("suite", "model"), where=["suite=b"])["model"]) == {"small", "wide"}


def per_query(rows):
    # As in the files of scores of every query: a key that does not apply is negative, and every key is there.
    missing = dict.fromkeys({*KEYS} - {*rows, "strength"}, "x")
    rows = rows.assign(**missing, heldout=False, strength=-1.0)
    rows = rows.fillna(dict.fromkeys(("run", "step", "seed", "variant_dims"), -1))
    frames = [
        rows.assign(query=f"q{number}", cluster=number, score=rows["value"] + number / 100) for number in range(4)
    ]
    return pd.concat(frames, ignore_index=True).drop(columns=["value", "ci_low", "ci_high", "n", "last"])


def test_claims_tell_models_of_one_name_apart():
    options = {"task": "t", "metric": "ndcg_at_10", "length": "64", "resamples": 10, "seed": 1}
    rows = per_query(checkpoints())
    panel = table_claims.panel([rows], **options)
    assert panel.models["suite"].to_dict() == {"a/small": "a", "b/small": "b", "wide": "b", "single": "c"}
    assert panel.cells["a/small", "full"][0] == pytest.approx(0.1 + 0.015)
    assert panel.cells["a/small", "full@0"][0] == pytest.approx(0.015)
    assert panel.cells["wide", "full"][0] == pytest.approx(0.4 + 0.015)
    with pytest.raises(EmbscaleError, match="has several scores as full"):
        table_claims.panel([rows, rows.assign(tokenizer="other")], **options)


def test_lengths_of_documents_are_names_where_all_are_numbers(tmp_path):
    (tmp_path / "scores.csv").write_text("task,length,value\nT,64,0.5\nT,32,0.25\n")
    rows = tidy.read([tmp_path / "scores.csv"], ("value",), where=["length=64"])
    assert rows["length"].tolist() == ["64"]
