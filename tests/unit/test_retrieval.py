"""The fast route against plain sentence-transformers encoding and MTEB's own search."""

import mteb
import numpy as np
import pytest
import pytrec_eval
import torch

from embscale.checkpoints import dtypes
from embscale.devices import choose_device
from embscale.errors import EmbscaleError
from embscale.scoring.metrics import depth_of
from embscale.scoring.mteb_task import FolderTask, Search, mteb_name
from embscale.scoring.retrieval import (
    ArrayTable,
    Padding,
    PooledTexts,
    Scorer,
    StoredTable,
    StreamedTable,
    best,
    take,
)
from embscale.tables import random_tables, table_files
from embscale.texts import tokens
from embscale.texts.beir import RetrievalData

random_table = random_tables.independent

METRICS = ["ndcg_at_10", "map_at_100", "recall_at_100", "precision_at_5"]


@pytest.fixture(scope="module")
def data():
    """Forty documents of random words; query i shares words with its relevant documents."""
    generator = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    documents = {f"d{i}": " ".join(generator.choice(words, 12)) for i in range(40)} | {"empty": ""}
    queries = {f"d{i}": " ".join(documents[f"d{i}"].split()[:4]) for i in range(20)}
    qrels = {f"d{i}": {f"d{(i + 1) % 40}": 1, f"d{(i + 7) % 40}": 1, f"d{(i + 9) % 40}": 0} for i in range(20)}
    return RetrievalData("Words", documents, queries, qrels, "0" * 64)


@pytest.fixture(scope="module")
def tokenised(data, tokenizer_folder):
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    return [
        tokens.tokenise(list(texts.values()), tokenizer, max_length=2048, special_tokens=False)
        for texts in (data.documents, data.queries)
    ]


def test_per_query_scores_equal_the_plain_route(data, tokenised, tokenizer_folder):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = random_table(300, 32, 0)
    ours = Scorer(data, *tokenised).per_query(table, METRICS)

    static = StaticEmbedding(tokens.load_tokenizer(tokenizer_folder), embedding_weights=table)
    plain = FolderTask(data)
    plain.load_data()
    mteb.evaluate(SentenceTransformer(modules=[static], device="cpu"), plain, cache=None, show_progress_bar=False)
    for query, row in ours.iterrows():
        for metric in METRICS:
            assert row[metric] == pytest.approx(plain.per_query[query][metric], abs=1e-6), (query, metric)


def test_the_mean_over_queries_is_mtebs_own_score(data, tokenised):
    task = FolderTask(data)
    task.load_data()
    ranking = Scorer(data, *tokenised).rank(random_table(300, 16, 3))
    result = mteb.evaluate(Search(ranking), task, cache=None, show_progress_bar=False)
    scores = result.task_results[0].scores["test"][0]
    for metric in METRICS:
        mean = np.mean([row[metric] for row in task.per_query.values()])
        assert mean == pytest.approx(scores[metric], abs=6e-6), metric  # MTEB rounds to five digits


def test_a_document_with_the_querys_own_id_is_no_answer(data, tokenised):
    found = Search(Scorer(data, *tokenised).rank(random_table(300, 16, 0))).search(None)
    assert all(query not in documents and len(documents) == 40 for query, documents in found.items())


def reference(data, table, lists, *, pooling=np.mean):
    """pytrec_eval's scores of an exact search in float64, as BEIR's exact search and evaluation have it."""
    documents, queries = (
        np.array([pooling(table[ids].astype(np.float64), axis=0) if len(ids) else table[0] * 0.0 for ids in group])
        for group in lists
    )
    lengths = [np.maximum(np.linalg.norm(vectors, axis=1), 1e-12) for vectors in (queries, documents)]
    cosines = queries @ documents.T / np.outer(*lengths)
    run = {
        query: {name: float(score) for name, score in zip(data.documents, row, strict=True) if name != query}
        for query, row in zip(data.queries, cosines.astype(np.float32), strict=True)
    }
    evaluated = pytrec_eval.RelevanceEvaluator(data.qrels, {"ndcg_cut.3,10", "map_cut.3"}).evaluate(run)
    return {query: {mteb_name(name): value for name, value in row.items()} for query, row in evaluated.items()}


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
@pytest.mark.parametrize("block_bytes", [2**29, 1200])
def test_scores_are_trec_evals_of_an_exact_search(data, tokenised, pooling, block_bytes):
    """However the columns and the documents are cut into blocks."""
    table = random_table(300, 24, 5)
    scorer = Scorer(data, *tokenised, pooling=pooling, block_bytes=block_bytes)
    assert (len(scorer.chunks) > 1) == (block_bytes < 2**20)
    ours = scorer.per_query(table, ["ndcg_at_3", "ndcg_at_10", "map_at_3"])
    lists = [[group[i] for i in range(len(group))] for group in tokenised]
    expected = reference(data, table, lists, pooling=getattr(np, pooling))
    for query, row in ours.iterrows():
        assert row.to_dict() == pytest.approx({name: expected[query][name] for name in row.index}, abs=1e-6)


def small(documents, queries, qrels):
    """Data and tokens of texts that are given as lists of token ids."""

    def tokenised(lists):
        offsets = np.cumsum([0, *map(len, lists)])
        return tokens.TokenisedTexts(np.array([i for ids in lists for i in ids], np.int32), offsets)

    names = [dict.fromkeys(group, "") for group in (documents, queries)]
    groups = tokenised(list(documents.values())), tokenised(list(queries.values()))
    return RetrievalData("Small", *names, qrels, "0" * 64), *groups


def test_ties_go_to_the_document_whose_id_is_last_as_text():
    """As in trec_eval: "9" before "10" before "1", whatever the order of the files, also beyond the depth."""
    documents = {str(i): [1, 2] for i in range(1, 13)}
    data, *groups = small(documents, {"q": [1, 2]}, {"q": {"9": 1, "10": 1}})
    order = ["9", "8", "7", "6", "5", "4", "3", "2", "12", "11", "10", "1"]
    for depth, block_bytes in ((100, 2**29), (3, 2**29), (3, 16)):
        scorer = Scorer(data, *groups, depth=depth, block_bytes=block_bytes)
        assert list(Search(scorer.rank(random_table(3, 7, 0))).search(None)["q"]) == order[:depth]
    run = {"q": dict.fromkeys(documents, 0.5)}
    expected = pytrec_eval.RelevanceEvaluator(data.qrels, {"map_cut.20"}).evaluate(run)["q"]["map_cut_20"]
    ours = Scorer(data, *groups).per_query(random_table(3, 7, 0), ["map_at_20"])
    assert expected == (1 + 2 / 11) / 2 == pytest.approx(ours.loc["q", "map_at_20"])


def test_equal_texts_tie_exactly_in_any_order_of_their_tokens():
    generator = np.random.default_rng(0)
    documents = {f"d{i:03}": list(generator.integers(0, 50, 9)) for i in range(203)}
    documents |= {f"e{i}": generator.permutation(documents["d000"]).tolist() for i in range(5)}
    data, *groups = small(documents, {"q": [1, 2, 3]}, {"q": {"d001": 1}})
    found = Search(Scorer(data, *groups, depth=300).rank(random_table(50, 100, 0))).search(None)["q"]
    assert len({found[name] for name in ("d000", "e0", "e1", "e2", "e3", "e4")}) == 1


def test_a_text_without_tokens_is_a_zero_vector_and_scores_0():
    documents = {"a": [1], "b": [], "c": [2], "d": [0]}
    data, *groups = small(documents, {"q": [1], "empty": []}, {"q": {"a": 1}, "empty": {"a": 1}})
    table = np.array([[0, 0], [1, 0], [-1, 0.5]], np.float32)  # row 0 is all zeros
    found = Search(Scorer(data, *groups).rank(table)).search(None)
    assert found["q"] == pytest.approx({"a": 1, "b": 0, "d": 0, "c": -1 / np.sqrt(1.25)})
    assert found["empty"] == dict.fromkeys("dcba", 0.0) and list(found["empty"]) == list("dcba")


@pytest.mark.parametrize("special_tokens", [True, False])
def test_documents_of_special_tokens_alone_are_pooled_or_empty(tokenizer_folder, special_tokens):
    from tokenizers.processors import TemplateProcessing

    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    tokenizer.post_processor = TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", 0)])
    data = RetrievalData("Small", {"a": "wide", "empty": ""}, {"q": "wide"}, {"q": {"a": 1}}, "0" * 64)
    groups = [
        tokens.tokenise(list(texts.values()), tokenizer, max_length=9, special_tokens=special_tokens)
        for texts in (data.documents, data.queries)
    ]
    table = random_table(300, 16, 0).astype(np.float64)
    query = table[groups[1][0]].mean(axis=0)
    expected = query @ table[0] / np.linalg.norm(query) / np.linalg.norm(table[0]) if special_tokens else 0
    found = Search(Scorer(data, *groups).rank(table)).search(None)["q"]
    assert found == pytest.approx({"a": 1, "empty": expected}, abs=1e-6) and list(found) == ["a", "empty"]


def test_squares_that_overflow_float32_give_the_right_cosine():
    """BEIR's exact search has no number for it, and takes -1."""
    data, *groups = small({"a": [1], "b": [2]}, {"q": [0]}, {"q": {"a": 1}})
    table = np.array([[1, 1], [3e38, 3e38], [1, -1]], np.float32)
    assert Search(Scorer(data, *groups).rank(table)).search(None)["q"] == pytest.approx({"b": 0, "a": 1})


def test_truncation_counts_special_tokens(tokenizer_folder):
    from tokenizers.processors import TemplateProcessing

    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    tokenizer.post_processor = TemplateProcessing(single="<|end|> $A <|end|>", special_tokens=[("<|end|>", 0)])
    cut = tokens.tokenise(["The table of a model", ""], tokenizer, max_length=4, special_tokens=True)
    assert list(cut.lengths) == [4, 2] and cut[0][0] == cut[0][-1] == 0 and 0 not in cut[0][1:-1]


def test_the_first_columns_are_scored_on_the_way(data, tokenised):
    table = random_table(300, 40, 2)
    scorer = Scorer(data, *tokenised, block_bytes=7000)
    for width, ranking in scorer.nested(ArrayTable(table), [3, 17, 40]):
        alone = scorer.rank(table[:, :width])
        assert ranking.scores == pytest.approx(alone.scores, abs=1e-6), width


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
@pytest.mark.parametrize("small_enough", [True, False])
def test_a_stored_table_scores_as_it_does_in_memory(tmp_path, monkeypatch, data, tokenised, dtype, small_enough):
    path, values = tmp_path / "t.safetensors", random_table(300, 33, 2)
    stored = (values.view(np.uint32) >> 16).astype("<u2") if dtype == "BF16" else values.astype(dtypes.STORED[dtype])
    path.write_bytes(table_files.header(dtype, values.shape, {}) + stored.tobytes())
    if not small_enough:
        monkeypatch.setattr("embscale.scoring.retrieval.BLOCK_BYTES", 0)
    scorer = Scorer(data, *tokenised, block_bytes=5000)
    expected = scorer.rank(table_files.load(path)).scores
    assert scorer.rank(StoredTable(path)).scores == pytest.approx(expected, abs=1e-6)
    rounded = torch.from_numpy(table_files.load(path)).bfloat16().float().numpy()
    columns = StoredTable(path, bfloat16=True).columns(np.array([0, 7, 299]), 3, 20)
    assert torch.equal(columns, torch.from_numpy(rounded[[0, 7, 299], 3:20]))


def test_a_streamed_table_is_made_once_unless_memory_forbids(data, tokenised):
    table, passes = random_table(300, 30, 2), []

    def blocks(start, stop):
        passes.append((start, stop))
        return (table[top : top + 64, start:stop] for top in range(0, 300, 64))

    scorer = Scorer(data, *tokenised, block_bytes=5000)
    streamed = StreamedTable(table.shape, np.arange(300), blocks)
    expected = scorer.rank(table).scores
    assert scorer.rank(streamed).scores == pytest.approx(expected, abs=1e-6) and passes == [(0, 30)]
    streamed = StreamedTable(table.shape, np.arange(0, 300), blocks, kept_bytes=4 * 300 * 12)
    scorer = Scorer(data, *tokenised)
    assert torch.equal(streamed.columns(np.array([5, 299]), 4, 9), torch.from_numpy(table[[5, 299], 4:9]))
    assert scorer.rank(streamed).scores == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("block_bytes", [2**29, 1200])
def test_padded_tables_score_as_those_that_hold_all_columns(data, tokenised, block_bytes):
    """In any order, several of the same width, and whatever was scored before."""
    wide = random_table(300, 40, 2)
    scorer, padding = Scorer(data, *tokenised, block_bytes=block_bytes), Padding(ArrayTable(wide))
    for dims in (39, 17, 17, 5, 30):
        table = random_table(300, dims, dims)
        (_, first), (width, full), (padded, pad) = scorer.nested(ArrayTable(table), [3, dims], padding)
        whole = np.concatenate([table, wide[:, dims:]], axis=1)
        assert (width, padded) == (dims, 40)
        assert first.scores == pytest.approx(scorer.rank(table[:, :3]).scores, abs=1e-6)
        assert full.scores == pytest.approx(scorer.rank(table).scores, abs=1e-6)
        assert pad.scores == pytest.approx(scorer.rank(whole).scores, abs=1e-6), dims


def test_columns_behind_several_tables_are_pooled_once(data, tokenised):
    class Counted(ArrayTable):
        met = ()

        def columns(self, rows, start, stop):
            self.met += (start, stop)
            return super().columns(rows, start, stop)

    wide = Counted(random_table(300, 40, 2))
    scorer, padding = Scorer(data, *tokenised), Padding(wide)
    for dims in (30, 30, 12):
        assert len(list(scorer.nested(ArrayTable(random_table(300, dims, 0)), [dims], padding))) == 2
    assert wide.met == (30, 40, 12, 30)


def test_a_padding_too_short_for_the_tokens_is_refused(data, tokenised):
    padding = Padding(ArrayTable(random_table(50, 12, 0)))
    with pytest.raises(EmbscaleError, match="but the table has 50 rows"):
        list(Scorer(data, *tokenised).nested(ArrayTable(random_table(300, 8, 0)), [8], padding))


def test_the_best_are_those_of_a_stable_sort():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 4, (20, 30), generator=generator).float()
    values, places = best(scores.clone(), torch.arange(30), 7)
    expected = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected[0][:, :7]) and torch.equal(places, expected[1][:, :7])


def test_texts_are_taken_in_any_order(tokenised):
    order = np.array([7, 40, 0, 7])
    taken = take(tokenised[0], order)
    assert [list(taken[i]) for i in range(4)] == [list(tokenised[0][i]) for i in order]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_table_with_values_that_are_no_numbers_is_refused(data, tokenised, value):
    table = random_table(300, 8, 0)
    table[tokenised[0][0][0], 3] = value
    with pytest.raises(EmbscaleError, match="not finite numbers in 1 rows"):
        Scorer(data, *tokenised).rank(table)


def test_metrics_name_a_depth_that_is_kept(data, tokenised):
    assert depth_of("ndcg_at_10") == 10
    for wrong in ("ndcg", "ndcg_at_0", "ndcg_at_x"):
        with pytest.raises(EmbscaleError, match="such as ndcg_at_10"):
            depth_of(wrong)
    with pytest.raises(EmbscaleError, match="kept to the depth of 5"):
        Scorer(data, *tokenised, depth=5).per_query(random_table(300, 8, 0), ["ndcg_at_10"])


def test_a_gpu_that_is_not_there_is_reported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == "cpu"
    with pytest.raises(EmbscaleError, match="finds no GPU"):
        choose_device("cuda")


def test_pooling_is_the_mean_row(tokenised):
    table = torch.from_numpy(random_table(300, 8, 1))
    vectors = PooledTexts(tokenised[0]).pool(table)
    for text in range(len(tokenised[0]) - 1):
        mean = table[torch.from_numpy(tokenised[0][text]).long()].double().mean(0)
        assert torch.allclose(vectors[text].double(), mean, atol=1e-6)
    assert vectors[-1].abs().sum() == 0  # the empty document


def test_a_table_too_short_for_the_tokens_is_refused(data, tokenised):
    with pytest.raises(EmbscaleError, match="but the table has 50 rows"):
        Scorer(data, *tokenised).per_query(random_table(50, 8, 0), METRICS)


def test_an_unknown_metric_is_refused(data, tokenised):
    with pytest.raises(EmbscaleError, match="accuracy_at_10"):
        Scorer(data, *tokenised).per_query(random_table(300, 8, 0), ["accuracy_at_10"])


def test_tokens_of_other_texts_are_refused(data, tokenised):
    with pytest.raises(EmbscaleError, match="41 documents and 20 queries, but tokens of 20 and 20"):
        Scorer(data, tokenised[1], tokenised[1])


def test_measures_have_mtebs_names():
    assert [mteb_name(m) for m in ("ndcg_cut_10", "map_cut_100", "recall_5", "P_1")] == [
        "ndcg_at_10",
        "map_at_100",
        "recall_at_5",
        "precision_at_1",
    ]


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("factor", [1e19, 1e37, 1e-14, 1e-23, 1e-36])
def test_a_cosine_does_not_depend_on_the_scale_of_a_table(data, tokenised, factor, pooling):
    table = random_table(300, 32, 5)
    scorer = Scorer(data, *tokenised, pooling=pooling, block_bytes=4096)  # several blocks and chunks
    plain, scaled = scorer.rank(table), scorer.rank((table.astype(np.float64) * factor).astype(np.float32))
    assert np.allclose(plain.scores, scaled.scores, atol=1e-4 if factor == 1e-36 else 1e-5)  # few bits are left there
    assert (plain.places[:, :5] == scaled.places[:, :5]).mean() > 0.99


def test_one_huge_row_leaves_the_cosines_of_other_texts(data, tokenised):
    table = random_table(300, 32, 5)
    documents, queries = tokenised
    token = min(set(documents.ids) - set(queries[0]), key=lambda i: (abs(sum(i in text for text in documents) - 5), i))
    changed = table.copy()
    changed[token] *= np.float32(1e30)
    found = [
        dict(zip(r.documents[r.places[0]], r.scores[0], strict=True))
        for r in map(Scorer(data, *tokenised).rank, (table, changed))
    ]
    without = [name for name, text in zip(data.documents, documents, strict=True) if token not in text]
    assert 10 < len(without) < len(documents)
    assert all(found[0][name] == pytest.approx(found[1][name], abs=1e-6) for name in without if name in found[0])


def test_ordinary_tables_are_scored_in_float32(data, tokenised, monkeypatch):
    """Their recorded scores keep every digit: float64 is for what float32 cannot hold."""
    monkeypatch.setattr(
        torch.Tensor,
        "double",
        lambda self: pytest.fail("float64") if self.ndim > 1 and self.shape[1] > 1 else self.to(torch.float64),
    )
    for scale in (1e-8, 0.02, 1e8):
        Scorer(data, *tokenised).rank(random_table(300, 32, 5) * np.float32(scale))


def test_vectors_of_zeros_are_counted_but_for_texts_without_tokens(data, tokenised):
    table = random_table(300, 8, 0)
    table[:, :4] = 0
    for block_bytes in (2**20, 4096):
        scorer = Scorer(data, *tokenised, block_bytes=block_bytes)
        found = dict(scorer.nested(ArrayTable(table), [4, 8]))
        assert (found[4].zero_documents, found[4].zero_queries) == (40, 20)
        assert (found[8].zero_documents, found[8].zero_queries) == (0, 0)
        assert not found[4].scores[np.isfinite(found[4].scores)].any()
