"""Which tables one pass scores, and their controls: rows shuffled, untrained and random tables, documents cut short."""

import numpy as np
import pandas as pd
import pytest

from embscale.errors import EmbscaleError
from embscale.scoring import engine
from embscale.scoring.engine import Shuffled
from embscale.scoring.retrieval import Scorer, StoredTable
from embscale.tables import random_tables, table_files
from embscale.tables.variants import Context, Variant
from embscale.texts.beir import RetrievalData
from embscale.texts.tokens import TokenisedTexts

ROWS, DIMS, METRICS = 50, 12, ["ndcg_at_10", "recall_at_5"]


def texts(lists):
    offsets = np.cumsum([0, *map(len, lists)])
    return TokenisedTexts(np.concatenate([np.asarray(ids, np.int32) for ids in lists]), offsets)


@pytest.fixture(scope="module")
def lists():
    """Token ids of documents of unequal length, one empty, and of queries."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, ROWS, length) for length in [*rng.integers(1, 30, 39), 0]]
    return documents, [rng.integers(0, ROWS, 6) for _ in range(15)]


@pytest.fixture(scope="module")
def data(lists):
    documents, queries = ({f"{kind}{i}": "" for i in range(len(some))} for kind, some in zip("dq", lists, strict=True))
    return RetrievalData("T", documents, queries, {query: {f"d{i}": 1} for i, query in enumerate(queries)}, "0" * 64)


@pytest.fixture(scope="module")
def scorer(data, lists):
    return Scorer(data, *map(texts, lists))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "m.safetensors"
    table_files.save(path, random_tables.independent(ROWS, DIMS, 7), {})
    return path


def planned(tables, variants=(), **settings):
    defaults = {
        "variants_of": "all", "faithful": False, "suite": "s", "model": "m", "run": None, "shuffle_seed": None,
    }  # fmt: skip
    jobs, _ = engine.plan(list(map(str, tables)), variants, **defaults | settings)
    return jobs


def scored(scorer, jobs, *, untreated=False):
    """Scores of every query by variant, step, seed and columns of the variant."""
    found = {}
    for job in jobs:
        chosen = job.untreated() if untreated else job
        for several, scores in chosen.scores(scorer, scorer.rows, METRICS) if chosen else ():
            for keys in several:
                place = tuple(keys[name] for name in ("variant", "step", "seed", "variant_dims"))
                assert place not in found
                found[place] = keys, scores
    return found


def names(found):
    return sorted({(variant, step) for variant, step, _, _ in found})


def test_a_shuffled_table_has_the_same_rows_in_another_order(table):
    stored = StoredTable(table)
    before = table_files.load(table)
    shuffled = Shuffled(stored, 1)
    after = np.concatenate([shuffled[slice(start, start + 7)] for start in range(0, ROWS, 7)])
    assert after.shape == before.shape and not np.array_equal(after, before)
    assert sorted(map(tuple, after)) == sorted(map(tuple, before))
    columns = shuffled.columns(np.array([3, 8, 49]), 2, 9).numpy()
    assert np.array_equal(columns, after[[3, 8, 49], 2:9])
    assert np.array_equal(Shuffled(stored, 1)[slice(0, ROWS)], after)
    assert not np.array_equal(Shuffled(stored, 2)[slice(0, ROWS)], after)


def test_of_a_table_too_large_to_be_read_at_once_the_same_rows_are_shuffled(table, monkeypatch):
    expected = Shuffled(StoredTable(table), 1)[slice(0, ROWS)]
    monkeypatch.setattr("embscale.scoring.retrieval.BLOCK_BYTES", 0)
    assert np.array_equal(Shuffled(StoredTable(table), 1)[slice(0, ROWS)], expected)


@pytest.mark.parametrize("variant", ["full", "idf", "unit", "centred", "crop:5", "pad:30:3"])
def test_a_shuffled_table_is_treated_as_the_table_of_a_file_is(table, tmp_path, scorer, variant):
    """Shuffled first, then treated: idf weights belong to tokens, not to rows."""
    by_hand = tmp_path / "by_hand.safetensors"
    table_files.save(by_hand, Shuffled(StoredTable(table), 5)[slice(0, ROWS)], {})
    kind = Variant.parse(variant).kind
    found = scored(scorer, planned([table], [variant], shuffle_seed=5))
    expected = scored(scorer, planned([by_hand], [variant]))
    name = "shuffled" if kind == "full" else f"shuffled+{kind}"
    (ours,) = [scores for (own, *_), (_, scores) in found.items() if own == name]
    (theirs,) = [scores for (own, *_), (_, scores) in expected.items() if own == kind]
    pd.testing.assert_frame_equal(ours, theirs, atol=1e-9)


def test_rows_that_are_all_equal_score_the_same_when_shuffled(tmp_path, scorer):
    path = tmp_path / "equal.safetensors"
    table_files.save(path, np.ones((ROWS, DIMS), np.float32), {})
    found = scored(scorer, planned([path], ["idf"], shuffle_seed=1))
    for one, other in (("full", "shuffled"), ("idf", "shuffled+idf")):
        both = [scores for name in (one, other) for (own, *_), (_, scores) in found.items() if own == name]
        pd.testing.assert_frame_equal(*both)


def test_a_shuffled_table_has_keys_of_its_own(table, scorer):
    jobs = planned([f"0={table}", f"9={table}"], ["idf"], shuffle_seed=1, run=2)
    keys = [keys for keys, _ in scored(scorer, jobs).values()]
    assert {(row["run"], row["width"], row["dim"]) for row in keys} == {(2, DIMS, DIMS)}
    digests = {row["variant"].partition("+")[0]: row["table_sha256"] for row in keys}
    assert digests["shuffled"] != digests["full"] == digests["idf"]


def test_only_the_last_table_is_shuffled_and_controlled_ones_are_varied(table, scorer):
    tables = [f"{step}={table}" for step in (0, 3, 9)]
    full = [("full", step) for step in (0, 3, 9)]
    shuffled = [("shuffled", 9), ("shuffled+unit", 9)]
    for variants_of, steps in (("controlled", (0, 9)), ("last", (9,)), ("all", (0, 3, 9)), ("files", (0, 3, 9))):
        found = scored(scorer, planned(tables, ["unit"], variants_of=variants_of, shuffle_seed=1))
        assert names(found) == sorted([*full, *(("unit", step) for step in steps), *shuffled])


def test_at_other_lengths_tables_are_scored_as_they_are(table, scorer):
    tables = [f"0={table}", f"9={table}", f"random:{ROWS}x{DIMS}:1", "chance"]
    jobs = planned(tables, ["crop:4", "idf", "pad_faithful:30:1", "unit"], variants_of="files")
    found = scored(scorer, jobs, untreated=True)
    assert names(found) == [("chance", -1), ("full", 0), ("full", 9), ("random", -1)]
    jobs = planned([f"0={table}", f"9={table}"], ["crop:4", "idf", "pad_faithful:30:1"], shuffle_seed=1)
    found = scored(scorer, jobs, untreated=True)
    assert names(found) == [("full", 0), ("full", 9), ("shuffled", 9)]
    drawn = [f"random:{ROWS}x{dims}:1:legacy" for dims in (4, 9)]
    found = scored(scorer, planned(drawn, variants_of="last"), untreated=True)
    assert sorted(keys["dim"] for keys, _ in found.values()) == [4, 9]


@pytest.mark.parametrize(
    "variant", ["crop:5", "crop_random:5:1", "crop_pca:5", "pad:30:3", "pad_rms:30:3", "unit", "centred",
                "all_but_top:2", "whitened", "sif:0.001", "idf", "bf16"],
)  # fmt: skip
def test_a_random_table_is_treated_as_a_trained_one(scorer, variant):
    name = f"random:{ROWS}x{DIMS}:4"
    found = scored(scorer, planned([name], [variant]))
    assert len(found) == 2
    kind = Variant.parse(variant).kind
    ((keys, scores),) = [row for (own, *_), row in found.items() if own == f"random+{kind}"]
    assert (keys["seed"], keys["width"], keys["suite"]) == (4, DIMS, "random")
    context = Context.of(scorer.documents, ROWS)
    made = Variant.parse(variant).apply(random_tables.independent(ROWS, DIMS, 4), context)
    assert keys["dim"] == made.shape[1]
    pd.testing.assert_frame_equal(scores, scorer.per_query(made, METRICS), atol=1e-9)


@pytest.mark.parametrize("length", [1, 4, 29, 10_000])
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_length_counts_the_first_tokens_of_each_document_alone(data, lists, length, pooling):
    documents, queries = lists
    table = random_tables.independent(ROWS, DIMS, 2)
    cut = Scorer(data, *map(texts, lists), length=length, pooling=pooling)
    by_hand = Scorer(data, texts([ids[:length] for ids in documents]), texts(queries), pooling=pooling)
    pd.testing.assert_frame_equal(cut.per_query(table, METRICS), by_hand.per_query(table, METRICS))
    for one, other in zip(
        *(Context.of(some.documents, ROWS).document_frequency for some in (cut, by_hand)), strict=True
    ):
        assert one == other  # so idf counts what is pooled
    whole = Scorer(data, *map(texts, lists), pooling=pooling).per_query(table, METRICS)
    assert whole.equals(cut.per_query(table, METRICS)) == (length >= 29)


def test_chance_is_the_same_for_any_table_and_length(data, lists):
    frames = [Scorer(data, *map(texts, lists), length=length).chance(METRICS) for length in (None, 3)]
    pd.testing.assert_frame_equal(*frames)
    discounts = (1 / np.log2(np.arange(2, 12))).sum()
    assert frames[0].to_numpy() == pytest.approx(np.tile([discounts / 40, 5 / 40], (15, 1)))


def test_what_is_to_be_shuffled_is_a_file(scorer):
    with pytest.raises(EmbscaleError, match="last table is no file"):
        planned(["random:50x4:1"], shuffle_seed=1)


def test_a_reference_needs_no_table(scorer):
    found = scored(scorer, planned(["chance", "overlap", "bm25", "overlap_idf"], ["idf"]))
    assert names(found) == [(name, -1) for name in sorted(engine.REFERENCES)]
