"""embscale score: what it scores, what it writes, and how what does not fit is told."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from embscale.checkpoints import dtypes
from embscale.cli import execute
from embscale.scoring import scores
from embscale.tables import random_tables, table_files
from embscale.texts import beir
from hub.repositories import SENTENCES

pytestmark = pytest.mark.long

ROWS, DIMS = 300, 24
ROUNDING = 1e-9  # of means, where all queries score the same


@pytest.fixture
def folder(tmp_path):
    """A task of sixteen short documents; one is empty, and a query shares its id with a document."""
    folder = tmp_path / "Task"
    (folder / "qrels").mkdir(parents=True)
    words = [sentence.split() for sentence in SENTENCES]
    documents = [" ".join(words[i % 4][i // 4 :]) for i in range(15)] + [""]
    corpus = [{"_id": f"{i}", "title": "", "text": text} for i, text in enumerate(documents)]
    queries = [{"_id": f"{i}" if i else "q0", "text": " ".join(words[i % 4][2:5])} for i in range(6)]
    (folder / "corpus.jsonl").write_bytes(beir.jsonl_bytes(corpus))
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes(queries))
    judged = "".join(f"{query['_id']}\t{(i * 3 + 1) % 15}\t1\n" for i, query in enumerate(queries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "own.safetensors"
    table_files.save(path, random_tables.independent(ROWS, DIMS, 7), {})
    return path


@pytest.fixture
def score(tmp_path, folder, tokenizer_folder):
    """A function that runs the command and returns its rows, or its exit status where that is not 0."""

    def run(*words, tokenizer=("--tokenizer", tokenizer_folder), beir=("--beir", folder)):
        output = tmp_path / "scores.csv"
        argv = [*words, *tokenizer, *beir, "--bootstrap-resamples", "50", "-o", output]
        status = execute("score", list(map(str, argv)))
        return status or pd.read_csv(output, keep_default_na=False)

    return run


def values(rows):
    return rows.set_index(["variant", "variant_dims", "metric"])["value"]


def test_a_table_that_is_not_the_input_table_is_named_with_every_variant(score, table, tmp_path):
    """An output table among the rows of input tables would pass for one."""
    output = tmp_path / "output.safetensors"
    table_files.save(output, table_files.load(table), {"table": table_files.OUTPUT})
    rows = score(table, output, "--variants", "unit", "--model", "m")
    assert sorted(rows["variant"]) == ["full", "output", "output+unit", "unit"]
    by_variant = rows.set_index("variant")["value"]
    assert by_variant["output"] == by_variant["full"]


def test_a_row_per_table_variant_metric_and_task(score, table, tmp_path):
    parquet = tmp_path / "per_query.parquet"
    rows = score(
        *(table, f"400={table}", "random:300x8:1", "overlap", "bm25"),
        *("--metrics", "ndcg_at_10", "--metrics", "map_at_5"),
        *("--per-query", parquet),
    )
    assert list(rows.columns) == scores.COLUMNS and len(rows) == 10 and set(rows["n"]) == {6}
    assert set(zip(rows["suite"], rows["model"], rows["step"].astype(str), rows["dim"].astype(str), strict=True)) == {
        ("own", "own", "", "24"),
        ("own", "own", "400", "24"),
        ("random", "random", "", "8"),
        ("reference", "overlap", "", ""),
        ("reference", "bm25", "", ""),
    }
    assert (rows["ci_low"] <= rows["value"] + ROUNDING).all() and (rows["value"] <= rows["ci_high"] + ROUNDING).all()
    per_query = scores.read_parquet(parquet)
    assert len(per_query) == 60
    assert per_query["score"].mean() == pytest.approx(rows["value"].mean())
    note = json.loads((tmp_path / "scores.csv.note.json").read_text())
    assert str(table) in note["inputs"] and note["params"]["special_tokens"] == ["exclude"]


def test_variants_are_those_of_every_table_or_of_the_last(score, table):
    variants = ("--variants", "crop:5", "--variants", "crop:99", "--variants", "idf", "--variants", "all_but_top:2")
    rows = score(f"0={table}", f"1={table}", *variants)
    assert rows.groupby("step").size().to_dict() == {0: 5, 1: 5}
    found = values(rows[rows["step"] == 1])
    assert found["crop", "99"].item() == found["full", ""].item()
    assert set(rows["strength"].astype(str)) == {"", "2.0"}
    last = score(f"0={table}", f"1={table}", *variants, "--variants-of", "last")
    assert last.groupby("step").size().to_dict() == {0: 1, 1: 5}
    pd.testing.assert_series_equal(found, values(last[last["step"] == 1]))


@pytest.mark.parametrize(
    "variant",
    ["crop_pca:6", "pad:40:1", "pad_faithful:40:1", "pad_rms:40:1", "pad_ratio:2:1", "unit", "whitened", "sif:0.001"],
)
def test_a_variant_scores_as_the_table_that_it_makes(score, table, tmp_path, folder, tokenizer_folder, variant):
    from embscale.tables.variants import Context, Variant
    from embscale.texts import tokens

    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    texts = list(beir.load(folder).documents.values())
    documents = tokens.tokenise(texts, tokenizer, max_length=2048, special_tokens=False)
    made = Variant.parse(variant).apply(table_files.load(table), Context.of(documents, ROWS))
    table_files.save(tmp_path / "made.safetensors", made, {})
    rows = score(table, "--variants", variant)
    alone = score(tmp_path / "made.safetensors")
    row = rows[rows["variant"] != "full"].iloc[0]
    assert row["value"] == pytest.approx(alone["value"].item(), abs=1e-6) and row["dim"] == made.shape[1]


def test_several_pads_and_tables_score_as_each_alone(score, table, tmp_path):
    """The columns of a draw are shared by all tables that are padded with it."""
    narrow = tmp_path / "narrow.safetensors"
    table_files.save(narrow, random_tables.independent(ROWS, 9, 3), {})
    variants = [f"pad_faithful:{dims}:{seed}" for dims, seed in ((40, 1), (64, 1), (40, 2), (12, 1))]
    flags = [flag for variant in variants for flag in ("--variants", variant)]
    together = score(narrow, table, "random:300x40:1:legacy", *flags, "--variants", "crop:5", "--variants-of", "files")
    assert len(together) == 13
    named = together.set_index(["model", "variant", "variant_dims", "seed"])["value"]
    for path in (narrow, table):
        for variant in variants:
            alone = score(path, "--variants", variant).set_index(["model", "variant", "variant_dims", "seed"])["value"]
            assert named[alone.index].to_numpy() == pytest.approx(alone.to_numpy(), abs=1e-6)
    assert together.loc[together["variant_dims"].astype(str) == "12", "dim"].tolist() == [12, 24]


def test_nested_draws_score_as_each_alone(score):
    specifications = [f"random:300x{dims}:42:{name}" for dims in (3, 16, 40) for name in ("legacy", "current")]
    together = values(score(*specifications))
    for specification in specifications:
        alone = values(score(specification))
        assert together[alone.index].to_numpy() == pytest.approx(alone.to_numpy(), abs=1e-6)


def test_faithful_is_the_first_studys_protocol(score, table, tmp_path):
    faithful = score("random:300x16:42", table, "--faithful")
    plain = score("random:300x16:42:legacy", "--special-tokens", "include")
    assert set(faithful["special_tokens"]) == {"include"} and set(faithful["variant"]) == {"random_legacy", "full"}
    legacy = faithful[faithful["variant"] == "random_legacy"]
    assert legacy["value"].item() == plain["value"].item()
    rounded = dtypes.round_to_bfloat16(table_files.load(table))
    table_files.save(tmp_path / "rounded.safetensors", rounded, {})
    expected = score(tmp_path / "rounded.safetensors", "--special-tokens", "include")
    full = faithful[faithful["variant"] == "full"]
    assert full["value"].item() == expected["value"].item()


def test_tokens_made_before_give_the_same_scores(score, folder, tokenizer_folder, tmp_path):
    made = tmp_path / "tokens.safetensors"
    argv = [folder, "--tokenizer", tokenizer_folder, "--max-length", 2048, "--special-tokens", "exclude", "-o", made]
    assert execute("tokenize", list(map(str, argv))) == 0
    expected = score("random:300x16:1", "--tokenizer-name", "x")
    found = score("random:300x16:1", "--tokenizer-name", "x", tokenizer=("--tokens", made))
    pd.testing.assert_frame_equal(found, expected)


def test_several_tasks_share_tables_and_are_distinguished(score, folder, tmp_path):
    import shutil

    other = shutil.copytree(folder, tmp_path / "Other")
    queries = [json.loads(line) for line in (other / "queries.jsonl").read_text().splitlines()]
    (other / "queries.jsonl").write_bytes(beir.jsonl_bytes(row | {"text": row["text"] + " probe"} for row in queries))
    specifications = ("random:300x16:1", "random:300x9:1:legacy")
    both = score(*specifications, "--variants", "idf", beir=("--beir", folder, "--beir", other))
    for task in (folder, other):
        alone = score(*specifications, "--variants", "idf", beir=("--beir", task))
        rows = both[both["task"] == task.name]
        assert len(rows) == 4
        assert values(rows).to_numpy() == pytest.approx(values(alone).to_numpy(), abs=1e-6)


def test_several_factors_in_one_run_score_as_each_alone(score, table, folder, tokenizer_folder, tmp_path):
    """Whether the texts are tokenised here or were before."""
    from tokenizers import processors

    from embscale.texts import tokens

    marked = tmp_path / "marked"
    marked.mkdir()
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    tokenizer.post_processor = processors.TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", 0)])
    tokenizer.save(str(marked / "tokenizer.json"))
    asked = [table, "random:300x16:1:legacy", "--variants", "bf16", "--tokenizer-name", "marked"]
    factors = ["--pooling", "mean", "--pooling", "max", "--special-tokens", "exclude", "--special-tokens", "include"]
    together = score(*asked, *factors, tokenizer=("--tokenizer", marked))
    assert together.groupby(["pooling", "special_tokens"]).size().to_dict() == {
        (pooling, special): 4 for pooling in ("mean", "max") for special in ("exclude", "include")
    }
    assert together["value"].nunique() > 4
    for (pooling, special), rows in together.groupby(["pooling", "special_tokens"]):
        alone = score(*asked, "--pooling", pooling, "--special-tokens", special, tokenizer=("--tokenizer", marked))
        assert values(rows).to_numpy() == pytest.approx(values(alone).to_numpy(), abs=1e-6)
    made = []
    for special in ("include", "exclude"):
        made += ["--beir", folder, "--tokens", tmp_path / f"{special}.safetensors"]
        argv = [folder, "--tokenizer", marked, "--max-length", 2048, "--special-tokens", special, "-o", made[-1]]
        assert execute("tokenize", list(map(str, argv))) == 0
    again = score(*asked, *factors[:4], tokenizer=(), beir=made)
    pd.testing.assert_frame_equal(again, together)


@pytest.mark.parametrize("pooling", ["sum", "max"])
def test_pooling_goes_into_the_rows(score, table, pooling):
    rows = score(table, "--pooling", pooling)
    assert set(rows["pooling"]) == {pooling}
    if pooling == "sum":
        assert values(rows).item() == values(score(table)).item()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["random:50x8:1"], r"the texts hold token \d+, but the table has 50 rows"),
        (["random:300x8"], "expected random:ROWSxDIMS:SEED"),
        (["absent.safetensors"], "absent.safetensors: no such file"),
        (["overlap", "--variants", "cropp:3"], "expected one of full, crop"),
        (["overlap", "--faithful", "--special-tokens", "exclude"], "--faithful means --special-tokens include"),
        (["overlap", "--metrics", "ndcg"], "such as ndcg_at_10"),
        (["overlap", "--metrics", "best_at_10"], "there are ndcg, map, recall, precision at any depth"),
        (["overlap", "--faithful", "--lengths", "9"], "--faithful means --lengths all"),
        (["overlap", "--tokens", "a", "--tokens", "b"], "2 --tokens for 1 --beir"),
        (["overlap", "--tokens", "a", "--max-length", "9"], "--max-length is for making tokens"),
    ],
)
def test_what_does_not_fit_is_reported_in_one_line(score, capsys, words, message):
    assert isinstance(score(*words), int)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("embscale score: ") and re.search(message, last), last


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["overlap", "overlap"], "tables: overlap is given twice"),
        (["overlap", "--lengths", "9", "9"], "--lengths: 9 is given twice"),
        (["overlap", "--pooling", "max", "--pooling", "max"], "--pooling: max is given twice"),
    ],
)
def test_what_is_given_twice_is_not_scored_twice(score, capsys, words, message):
    with pytest.raises(SystemExit):
        score(*words)
    assert f"embscale score: {message}" in capsys.readouterr().err


@pytest.mark.parametrize("length", ["0", "-1", "few", "1.5"])
def test_a_length_is_a_number_of_tokens_or_all(score, capsys, length):
    with pytest.raises(SystemExit):
        score("overlap", f"--lengths={length}")
    assert f"{length!r}: expected a number of tokens from 1, or all" in capsys.readouterr().err


def test_a_table_of_another_vocabulary_is_named_with_the_tokenizer(
    score, table, tmp_path, folder, tokenizer_folder, capsys
):
    """Of several tables the one that does not fit; with tokens made before, as in the workflow, or now."""
    small = tmp_path / "other-vocabulary.safetensors"
    table_files.save(small, random_tables.independent(200, DIMS, 7), {})
    made = tmp_path / "tokens.safetensors"
    flags = ["--tokenizer", str(tokenizer_folder), "--max-length", "64", "--special-tokens", "exclude", "-o", str(made)]
    assert execute("tokenize", [str(folder), *flags]) == 0
    for tokenizer in (("--tokenizer", tokenizer_folder), ("--tokens", made)):
        assert score(table, f"400={small}", tokenizer=(*tokenizer, "--tokenizer-name", "my-bpe")) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        words = r"other-vocabulary.safetensors: 200 rows, but the texts hold token 2\d\d of the tokenizer my-bpe; give"
        assert last.startswith("embscale score: ") and re.search(words, last), last


def test_a_table_with_values_that_are_no_numbers_is_reported(score, tmp_path, capsys):
    path = tmp_path / "broken.safetensors"
    table_files.save(path, np.full((ROWS, 4), np.nan, np.float32), {})
    for words in ([path], [path, "--variants", "centred"]):
        assert score(*words) == 1
        assert "not finite numbers" in capsys.readouterr().err


def test_a_table_scores_the_same_at_any_scale_and_one_of_zeros_is_told(score, table, tmp_path, capsys):
    rows = table_files.load(table)
    scored = {}
    for factor in (1, 1e19, 1e37, 1e-23, 0):
        path = tmp_path / "scaled.safetensors"
        table_files.save(path, (rows.astype(np.float64) * factor).astype(np.float32), {})
        found = score(path, "--variants", "crop:8", "unit", "centred", "whitened")
        scored[factor] = values(found) if factor else found
        assert ("have a vector of zeros" in capsys.readouterr().err) == (factor == 0)
    assert all((scored[factor] - scored[1]).abs().max() < ROUNDING for factor in (1e19, 1e37, 1e-23))


def test_tokens_of_other_texts_or_of_another_protocol_are_reported(score, folder, tokenizer_folder, tmp_path, capsys):
    made = tmp_path / "tokens.safetensors"
    argv = [folder, "--tokenizer", tokenizer_folder, "--max-length", 2048, "--special-tokens", "exclude", "-o", made]
    assert execute("tokenize", list(map(str, argv))) == 0
    assert score("overlap", "--faithful", tokenizer=("--tokens", made)) == 1
    assert "--faithful needs include" in capsys.readouterr().err
    (folder / "queries.jsonl").write_text((folder / "queries.jsonl").read_text().replace('"text": "', '"text": "A '))
    assert score("overlap", tokenizer=("--tokens", made)) == 1
    assert "made of other texts" in capsys.readouterr().err


def test_rows_without_use_and_empty_documents_are_noted(score, tmp_path, capsys):
    path = tmp_path / "padded.safetensors"
    table_files.save(path, random_tables.independent(ROWS + 12, 4, 0), {})
    score(path)
    said = capsys.readouterr().err
    assert "312 rows, of which the tokenizer has no use for" in said and "1 documents have no token" in said


def test_there_must_be_somewhere_to_write_and_tokens(folder, tokenizer_folder, capsys):
    assert execute("score", ["overlap", "--beir", str(folder), "--tokenizer", str(tokenizer_folder)]) == 1
    assert "nowhere to write" in capsys.readouterr().err
    assert execute("score", ["overlap", "--beir", str(folder), "-o", "x.csv"]) == 1
    assert "no tokens" in capsys.readouterr().err
