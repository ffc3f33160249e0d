"""The worked example: a typical query, parts that add up to the score, and marks that stand where they belong."""

import json

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.report import worked_example as written
from embscale.report.render import Renderer, render
from embscale.scoring import worked_example
from embscale.scoring.retrieval import Scorer
from embscale.tables import table_files
from embscale.texts import beir, tokens
from report_texts import write_report

DOCUMENTS = {f"pkg.name_{i}": f"Return the {word} of two arrays, {word} by {word}." for i, word in enumerate(
    ["sum", "product", "difference", "maximum", "minimum", "mean", "norm", "angle"]
)}  # fmt: skip
QUERIES = {"q.sum": "Add: the sum", "q.norm": "Measure the norm of an array", "q.none": "zebra"}
QRELS = {"q.sum": {"pkg.name_0": 1}, "q.norm": {"pkg.name_6": 1}, "q.none": {"pkg.name_7": 1}}


@pytest.fixture(scope="module")
def task(tmp_path_factory, tokenizer_folder):
    """A small task with its tokens."""
    folder = tmp_path_factory.mktemp("task") / "Small"
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        lines = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    pairs = [f"{query}\t{found}\t1" for query, judged in QRELS.items() for found in judged]
    (folder / "qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *pairs]) + "\n", "utf-8")
    made = folder.parent / "tokens.safetensors"
    flags = [folder, "--tokenizer", tokenizer_folder, "--special-tokens", "exclude", "--max-length", "64"]
    assert execute("tokenize", [*map(str, flags), "-o", str(made)]) == 0
    return folder, made


@pytest.fixture(scope="module")
def scorer(task):
    groups, _ = tokens.load(task[1])
    return Scorer(beir.load(task[0]), groups["documents"], groups["queries"], depth=10, device="cpu")


@pytest.mark.parametrize("method", ["table", "bm25"])
def test_the_parts_of_the_tokens_add_up_to_the_score(scorer, method):
    table = np.random.default_rng(0).normal(size=(scorer.highest_id + 1, 8)).astype(np.float32)
    ranking, parts = worked_example.of_bm25(scorer) if method == "bm25" else worked_example.of_table(scorer, table)
    for query in range(len(QUERIES)):
        for place, score in zip(ranking.places[query], ranking.scores[query], strict=True):
            assert parts(query, int(place))[1].sum() == pytest.approx(score, abs=1e-6)


def test_the_query_is_the_one_nearest_to_the_means(scorer):
    """Recomputed here from MTEB's values, query by query."""
    generator = np.random.default_rng(1)
    methods = {
        name: worked_example.of_table(scorer, generator.normal(size=(scorer.highest_id + 1, 4)).astype(np.float32))
        for name in ("one", "two")
    } | {"three": worked_example.of_bm25(scorer)}
    query, followed = worked_example.follow(scorer, methods, "ndcg_at_10")
    values = np.array([scorer.per_query(found, ["ndcg_at_10"])["ndcg_at_10"] for found, _ in methods.values()])
    distances = ((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=0)
    assert query == list(QUERIES)[int(distances.argmin())]
    assert [one.mean for one in followed] == pytest.approx(values.mean(axis=1))
    for one in followed:
        assert [match.rank for match in one.matches] == [1, 2, 3]
        assert all(match.relevant == (match.document in QRELS[query]) for match in one.matches)
        scores = [match.score for match in one.matches]
        assert scores == sorted(scores, reverse=True)


def test_marks_stand_around_the_chosen_tokens_and_no_words_are_lost(tokenizer_folder):
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    ids = np.array(tokenizer.encode(DOCUMENTS["pkg.name_1"], add_special_tokens=False).ids)
    marked = int(ids[3])
    text = written.snippet(ids, {marked}, tokenizer)
    assert text.count("{.mark}") == sum(
        ids[place] == marked and (place == 0 or ids[place - 1] != marked) for place in range(len(ids))
    )
    assert tokenizer.decode([marked]).strip() in text


def test_what_the_command_writes_is_shown_on_the_page(task, tokenizer_folder, tmp_path):
    rows = tokens.load_tokenizer(tokenizer_folder).get_vocab_size()
    for seed, name in enumerate(("trained", "untrained")):
        table = np.random.default_rng(seed).normal(size=(rows, 8)).astype(np.float32)
        table_files.save(tmp_path / f"{name}.safetensors", table, {})
    (tmp_path / "tables").mkdir()
    partial, data = tmp_path / "tables/worked_example.md", tmp_path / "worked_example.csv"
    flags = [tmp_path / "trained.safetensors", "--untrained", tmp_path / "untrained.safetensors", "--seed", 7]
    flags += ["--beir", task[0], "--tokens", task[1], "--tokenizer", tokenizer_folder, "--length", 64]
    flags += ["--metric", "ndcg_at_10", "--data", data, "-o", partial]
    assert execute("worked-example", list(map(str, flags))) == 0
    found = pd.read_csv(data)
    assert len(set(found["method"])) == 5 and len(set(found["query"])) == 1
    assert found.loc[found["method"] == "BM25", "token_1"].notna().all()
    body = "## Example\n\n{{< include tables/worked_example.md >}}"
    files = {"tables/worked_example.md": partial.read_text("utf-8")}
    page = render(write_report(tmp_path / "report", body, files=files), Renderer("pandoc"), commit="abc", data="data")
    assert page.count("<mark>") >= 5
    assert "Source of this example" in page and 'href="data/worked_example.csv"' in page
    assert all(name in page for name in found["document"].unique())
