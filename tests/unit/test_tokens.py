"""Tokenised texts: equal to encoding one by one, whole on disk."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from small_corpus import MADE_OF

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
    tokens.save(path, {"documents": group}, MADE_OF)
    groups, metadata = tokens.load(path)
    assert np.array_equal(groups["documents"].ids, group.ids) and metadata == MADE_OF
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EmbscaleError, match="not a file of tokens"):
        tokens.load(path)


WHOLE = {"ids": np.arange(5, dtype=np.int32), "offsets": np.array([0, 2, 5])}


@pytest.mark.parametrize(
    ("changes", "made_of"),
    [
        ({"ids": np.array([0, 1, 2, 3, -1], np.int32)}, MADE_OF),
        ({"ids": np.arange(5.0)}, MADE_OF),
        ({"ids": np.arange(5)}, MADE_OF),
        ({"ids": np.zeros((5, 1), np.int32)}, MADE_OF),
        ({"offsets": np.array([0, 2, 6])}, MADE_OF),
        ({"offsets": np.array([1, 2, 5])}, MADE_OF),
        ({"offsets": np.array([0, 6, 5])}, MADE_OF),
        ({"offsets": np.array([0, -1, 5])}, MADE_OF),
        ({"offsets": np.empty(0, np.int64)}, MADE_OF),
        ({}, {}),
        ({}, "a word"),
        ({}, [1]),
        ({}, None),
        *(({}, {key: value for key, value in MADE_OF.items() if key != name}) for name in MADE_OF),
        ({}, MADE_OF | {"max_length": "9"}),
        ({}, MADE_OF | {"max_length": 0}),
        ({}, MADE_OF | {"max_length": True}),
        ({}, MADE_OF | {"special_tokens": ["exclude"]}),
        ({}, MADE_OF | {"data_sha256": None}),
    ],
)
def test_a_file_that_holds_no_tokens_of_texts_is_refused_in_one_line(tmp_path, changes, made_of):
    path = tmp_path / "t.safetensors"
    arrays = {f"documents.{name}": array for name, array in (WHOLE | changes).items()}
    save_file(arrays, path, {"embscale": json.dumps(made_of)})
    with pytest.raises(EmbscaleError, match=r"t\.safetensors: not a file of tokens .*; remove it") as raised:
        tokens.load(path)
    assert "\n" not in str(raised.value)


def test_a_group_that_a_file_lacks_is_asked_for_in_vain(tmp_path):
    tokens.save(tmp_path / "t.safetensors", {"documents": tokens.TokenisedTexts(**WHOLE)}, MADE_OF)
    with pytest.raises(EmbscaleError, match="holds no queries, but documents; make it again"):
        tokens.load(tmp_path / "t.safetensors")[0]["queries"]


@pytest.mark.fault("a broken tokenizer", happens="one line names it", do="fetch it again")
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
