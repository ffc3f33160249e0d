"""Which rows stand for a model: one rule for the last checkpoint, whoever asks."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest

import sources
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
    explored = payload.means(rows.assign(table="trained"), None, None, length="64")
    assert explored["last"].tolist() == rows["last"].tolist()
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


WORDS = ["NA", "nan", "None", "null", "NaN", "N/A", "<NA>", "#N/A", "-inf", "True", "1e5", "007", "n/a", "1", "=1+1"]


@pytest.mark.fault(
    "a model, task or token called NA, None or null", happens="it is a word like any other", do="nothing"
)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_words_that_other_programs_read_as_nothing_are_words(tmp_path, suffix):
    rows = pd.DataFrame({"suite": WORDS, "model": WORDS, "word": WORDS, "step": [1, *[np.nan] * 14], "value": 0.5})
    tidy.write(rows, tmp_path / f"rows{suffix}")
    again = tidy.load(tmp_path / f"rows{suffix}")
    pd.testing.assert_frame_equal(again, rows.astype(dict.fromkeys(["suite", "model", "word"], "str")))
    text = tidy.load_text(tmp_path / f"rows{suffix}")
    assert text["model"].tolist() == WORDS and text["step"].tolist() == ["1.0", *[""] * 14]


@pytest.mark.parametrize("word", WORDS)
def test_a_column_of_names_holds_words_whatever_all_of_them_are(tmp_path, word):
    (tmp_path / "rows.csv").write_text(f"suite,model,value\n{word},{word},0.5\n")
    assert tidy.read([tmp_path / "rows.csv"], (), where=[f"model={word}"])["suite"].tolist() == [word]


def test_a_number_that_is_none_is_missing_however_it_is_written(tmp_path):
    (tmp_path / "losses.csv").write_text("step,loss,heldout_loss\n0,nan,8.5\n1,8.25,\n")
    rows = tidy.load(tmp_path / "losses.csv")
    assert rows["loss"].isna().tolist() == [True, False] and rows["heldout_loss"].isna().tolist() == [False, True]


@pytest.mark.fault("a table of rows that is none", happens="one line names it", do="make it again")
@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2,3\n4,5,6\n", b"a,b\n1,2\n4,5,6\n", b"\xff\xfe", b'a\n"', b"PAR1\x00\x15\x80"]
)
@pytest.mark.parametrize("reader", [tidy.load, tidy.load_text])
def test_what_is_no_table_is_reported(tmp_path, content, reader):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(EmbscaleError, match=r"rows\.csv: not a table"):
        reader(tmp_path / "rows.csv")


def test_a_damaged_archive_of_rows_is_reported(tmp_path):
    for content in (b"no gzip", gzip.compress(b"a,b\n1,2\n" * 100)[:-20]):
        (tmp_path / "rows.csv.gz").write_bytes(content)
        with pytest.raises(EmbscaleError, match=r"rows\.csv\.gz: not a table"):
            tidy.load(tmp_path / "rows.csv.gz")


@pytest.mark.parametrize(("function", "home"), [("read_csv", "rows/tidy.py"), ("read_table", "scoring/scores.py")])
def test_rows_have_one_reader(function, home):
    """Of CSV and of Parquet.  The Snakefile, which must not wait for pandas, reads published cells by `csv`."""
    package = sources.ROOT / "src/embscale"
    users = [path for path in package.rglob("*.py") if re.search(rf"\b(pd|pq)\.{function}\(", path.read_text("utf-8"))]
    assert [path.relative_to(package).as_posix() for path in users] == [home]
    others = r"\bpd\.read_(parquet|table|fwf|feather)\(|\bcsv\.(reader|DictReader)\("
    users = [path for path in package.rglob("*.py") if re.search(others, path.read_text("utf-8"))]
    assert [path.relative_to(package).as_posix() for path in users] == ["claims/published_cells.py"]
