"""Queries that gain and lose by training: made-up scores whose changes are known."""

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.scoring import query_changes, scores
from embscale.texts import beir

QUERIES = ["a", "b", "c", "d", "e"]
TEXTS = {query: f"what is {query}" for query in QUERIES}
SHARED = {
    "tokenizer": "t", "variant_dims": -1, "strength": -1, "pooling": "mean", "special_tokens": "exclude", "task": "T",
    "length": "64", "metric": "ndcg_at_10", "dim": 8, "variant": "full",
}  # fmt: skip


def scored(values, **keys):
    frame = pd.DataFrame({"query": QUERIES, "cluster": range(5), "score": values})
    return frame.assign(**SHARED | {"run": -1, "step": -1, "seed": -1, "width": 8} | keys)


def per_query():
    """Two runs and three draws, whose means differ by +0.3, -0.2, 0, +0.1, +0.3; the untrained table is far above."""
    random = {"suite": "random", "model": "random", "variant": "random"}
    draws = [scored(np.array([0.1, 0.5, 0.2, 0.3, 0.0]) + d, **random, seed=s) for s, d in ((1, 0.1), (2, 0), (3, 0.2))]
    own = {"suite": "ladder", "model": "w8"}
    untrained = [scored([1] * 5, **own, run=run, step=0) for run in (1, 2)]
    means = np.array([0.5, 0.4, 0.3, 0.5, 0.4])
    trained = [scored(means + noise, **own, run=run, step=40) for run, noise in ((1, 0.05), (2, -0.05))]
    alone = scored([1] * 5, suite="ladder", model="w16", width=16, run=1, step=40)
    return pd.concat([*draws, *untrained, *trained, alone], ignore_index=True)


def test_the_largest_changes_come_first_and_all_queries_are_counted():
    rows = query_changes.changes(per_query(), TEXTS, count=2)
    assert list(rows.columns) == query_changes.COLUMNS
    listed = rows[["model", "change", "rank", "query"]].to_numpy().tolist()
    # Equal gains by name; a query without a change is in neither list; w16 has no random tables beside it.
    assert listed == [["w8", "gain", 1, "a"], ["w8", "gain", 2, "e"], ["w8", "loss", 1, "b"]]
    assert rows["difference"].tolist() == pytest.approx([0.3, 0.3, -0.2])
    assert (rows["score"] - rows["control_score"]).tolist() == pytest.approx([0.3, 0.3, -0.2])
    assert rows["text"].tolist() == ["what is a", "what is e", "what is b"]
    counts = rows[["runs", "draws", "n", "higher", "lower", "equal"]].drop_duplicates().to_numpy().tolist()
    assert counts == [[2, 3, 5, 3, 1, 1]]


def test_the_changes_of_all_queries_add_up_to_the_difference_of_the_means():
    rows = query_changes.changes(per_query(), TEXTS, count=5)
    assert rows["difference"].sum() / 5 == pytest.approx(np.mean([0.3, -0.2, 0, 0.1, 0.3]))


def test_scores_of_other_queries_are_reported():
    with pytest.raises(EmbscaleError, match="query 'e' is not in the task; give the task of these scores"):
        query_changes.changes(per_query(), dict.fromkeys("abcd", ""), count=2)
    rows = per_query()
    short = rows[(rows["suite"] != "random") | (rows["query"] != "c")]
    with pytest.raises(EmbscaleError, match="w8, full: random tables were scored on other queries"):
        query_changes.changes(short, TEXTS, count=2)


def test_without_random_tables_there_is_a_table_without_rows():
    rows = per_query()
    rows = query_changes.changes(rows[rows["suite"] != "random"], TEXTS, count=2)
    assert list(rows.columns) == query_changes.COLUMNS and rows.empty


def test_the_command_reads_the_texts_of_the_task(tmp_path, capsys):
    folder = tmp_path / "T"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(beir.jsonl_bytes([{"_id": "d", "title": "", "text": "word"}]))
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes([{"_id": q, "text": t} for q, t in TEXTS.items()]))
    labels = "".join(f"{query}\td\t1\n" for query in QUERIES)
    (folder / "qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{labels}", "utf-8")
    scores.write_parquet(pd.concat([per_query(), per_query().assign(length="all")]), tmp_path / "s.parquet")
    given = [str(tmp_path / "s.parquet"), "--beir", str(folder), "-o", str(tmp_path / "rows.csv"), "--where"]
    assert execute("query-changes", [*given, "length=64", "--queries-listed", "1"]) == 0
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert rows[["query", "text", "length"]].to_numpy().tolist() == [["a", "what is a", 64], ["b", "what is b", 64]]
    with pytest.raises(SystemExit):
        execute("query-changes", [*given, "length=64", "--queries-listed", "0"])
    assert "--queries-listed" in capsys.readouterr().err
