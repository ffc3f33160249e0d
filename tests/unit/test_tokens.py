"""Tokenised texts: equal to encoding one by one, whole on disk."""

import numpy as np
import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.texts import beir, tokens

TEXTS = ["The table of a model holds one row.", "", "row row row"]


@pytest.fixture
def tokenizer(tokenizer_folder):
    return tokens.load_tokenizer(tokenizer_folder)


def test_equal_to_encoding_one_by_one(tokenizer):
    group = tokens.tokenise(TEXTS, tokenizer, max_length=100, special_tokens=False)
    assert [list(group[i]) for i in range(3)] == [tokenizer.encode(text).ids for text in TEXTS]


def test_some_texts_at_a_time_are_all_of_them(monkeypatch, tokenizer):
    whole = tokens.tokenise(TEXTS, tokenizer, max_length=100, special_tokens=False)
    monkeypatch.setattr(tokens, "TEXTS_AT_ONCE", 2)
    parts = tokens.tokenise(TEXTS, tokenizer, max_length=100, special_tokens=False)
    assert np.array_equal(parts.ids, whole.ids) and np.array_equal(parts.offsets, whole.offsets)


def test_cut_at_the_limit(tokenizer):
    whole = tokens.tokenise(TEXTS, tokenizer, max_length=100, special_tokens=False)
    cut = tokens.tokenise(TEXTS, tokenizer, max_length=5, special_tokens=False)
    assert list(cut.lengths) == [5, 0, min(5, len(whole[2]))]
    assert list(cut[0]) == list(whole[0][:5])


def test_counts_add_up(tokenizer):
    group = tokens.tokenise(TEXTS, tokenizer, max_length=100, special_tokens=False)
    ids, counts, offsets = group.counts()
    for text in range(3):
        expected = np.unique(group[text], return_counts=True)
        part = slice(offsets[text], offsets[text + 1])
        assert np.array_equal(ids[part], expected[0]) and np.array_equal(counts[part], expected[1])


def test_survive_the_disk_and_a_damaged_file_is_reported(tokenizer, tmp_path):
    path = tmp_path / "tokens.safetensors"
    group = tokens.tokenise(TEXTS, tokenizer, max_length=100, special_tokens=False)
    tokens.save(path, {"documents": group}, {"data_sha256": "x"})
    groups, metadata = tokens.load(path)
    assert np.array_equal(groups["documents"].ids, group.ids) and metadata == {"data_sha256": "x"}
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EmbscaleError, match="not a file of tokens"):
        tokens.load(path)


def test_a_broken_tokenizer_is_reported(tmp_path):
    with pytest.raises(EmbscaleError, match=r"tokenizer\.json: no such file"):
        tokens.load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EmbscaleError, match=r"tokenizer\.json: not a tokenizer"):
        tokens.load_tokenizer(tmp_path)


@pytest.mark.parametrize("dev", ["", "second\td\t1\n"])
def test_queries_to_choose_settings_on_are_a_group_of_their_own(tokenizer_folder, tokenizer, tmp_path, dev):
    """Absent where a task has none."""
    texts = {"first": "a model", "second": "one row of a table", "unjudged": "nothing"}
    folder = tmp_path / "task"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(beir.jsonl_bytes([{"_id": "d", "text": "row"}]))
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes({"_id": q, "text": t} for q, t in texts.items()))
    for split, lines in (("test", "first\td\t1\n"), ("dev", dev)):
        if lines:
            (folder / f"qrels/{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    output = tmp_path / "tokens.safetensors"
    flags = ["--tokenizer", str(tokenizer_folder), "--max-length", "50", "--special-tokens", "exclude"]
    assert execute("tokenize", [str(folder), *flags, "-o", str(output)]) == 0
    groups, made_of = tokens.load(output)
    expected = {"documents": "row", "queries": "a model"} | ({"dev_queries": "one row of a table"} if dev else {})
    assert {name: [list(group[0]), len(group)] for name, group in groups.items()} == {
        name: [tokenizer.encode(text).ids, 1] for name, text in expected.items()
    }
    assert made_of["data_sha256"] == beir.load(folder).sha256
    assert made_of.get("dev_sha256") == (beir.load(folder, "dev").sha256 if dev else None)
