"""Streams of tokens: each text once, and the same texts again."""

import json

import numpy as np
import pytest
import small_corpus

from embscale.errors import EmbscaleError
from embscale.texts import streams, tokens
from embscale.texts.tokens import TokenisedTexts


@pytest.fixture
def texts():
    return TokenisedTexts(np.array([1, 2, 3, 4, 5, 6], np.int32), np.array([0, 2, 3, 3, 6]))


def test_the_stream_holds_each_chosen_text_once_with_a_separator(texts):
    made = streams.stream(texts, np.array([0, 3]), separator=9, seed=0).tolist()
    assert made in ([1, 2, 9, 4, 5, 6, 9], [4, 5, 6, 9, 1, 2, 9])


def test_a_stream_gives_its_texts_again(texts):
    stream = streams.stream(texts, np.arange(4), separator=9, seed=1)
    again = streams.texts_of(stream, separator=9)
    assert sorted(text.tolist() for text in again) == [[1, 2], [3], [4, 5, 6]]  # the empty one is gone
    assert np.concatenate(list(again)).tolist() == [token for token in stream.tolist() if token != 9]


@pytest.mark.parametrize("length", range(9))
def test_the_beginning_of_a_stream_cuts_its_last_text(texts, length):
    stream = streams.stream(texts, np.array([0, 1, 3]), separator=9, seed=0)[:length]
    expected = [part.split() for part in " ".join(map(str, stream)).split("9")]
    assert [text.tolist() for text in streams.texts_of(stream, separator=9)] == [
        [int(token) for token in text] for text in expected if text
    ]


def test_tokens_of_other_documents_are_reported(tmp_path, texts):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"_id": "a", "text": "x", "metadata": {"split": "train"}}) + "\n", "utf-8")
    tokens.save(
        tmp_path / "t.safetensors",
        {"documents": texts},
        {"data_sha256": "x", "tokenizer_sha256": "y", "max_length": 9, "special_tokens": "exclude"},
    )
    with pytest.raises(EmbscaleError, match=r"tokens of 4 documents, but .*holds 1;"):
        streams.read(corpus, tmp_path / "t.safetensors", tmp_path, seed=1)


def test_held_out_packages_are_neither_trained_on_nor_measured(tmp_path):
    small_corpus.save_corpus(tmp_path)
    names = ["train", "heldout", "heldout_package"] * 20
    rows = [{"_id": str(i), "text": "", "metadata": {"split": name}} for i, name in enumerate(names)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    documents = tokens.load(tmp_path / "tokens.safetensors")[0]["documents"]
    *found, separator = streams.read(tmp_path / "corpus.jsonl", tmp_path / "tokens.safetensors", tmp_path, seed=1)
    for stream, name in zip(found, ("train", "heldout"), strict=True):
        expected = [documents[i].tolist() for i in range(60) if names[i] == name]
        assert sorted(t.tolist() for t in streams.texts_of(stream, separator=separator)) == sorted(expected)
