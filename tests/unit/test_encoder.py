"""A table as MTEB's encoder gives the vectors that plain arithmetic and sentence-transformers give."""

import json

import mteb
import numpy as np
import pytest
from mteb.models import EncoderProtocol
from mteb.types import PromptType
from sklearn.metrics.pairwise import paired_cosine_distances
from tokenizers.processors import TemplateProcessing

from embscale.errors import EmbscaleError
from embscale.scoring.encoder import Gathered, TableEncoder, TaskTexts
from embscale.tables.variants import Context
from embscale.texts import tokens
from hub.repositories import SENTENCES, VOCABULARY

TEXTS = [*SENTENCES, "", "wide wide wide", SENTENCES[0]]
POOLED = {"mean": np.mean, "sum": np.sum, "max": np.max}


@pytest.fixture
def tokenizer(tokenizer_folder):
    """Fresh for each test; like many, it puts a special token before each text if it is asked to."""
    made = tokens.load_tokenizer(tokenizer_folder)
    made.post_processor = TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", 0)])
    return made


@pytest.fixture
def table():
    return np.random.default_rng(0).standard_normal((VOCABULARY, 24)).astype(np.float32)


def texts_of(tokenizer, *, max_length=10**6, special_tokens=False):
    return TaskTexts(tokenizer, max_length=max_length, special_tokens=special_tokens)


def encode(encoder, texts, prompt_type=None, batch=3):
    """As MTEB calls it, with batches of columns."""
    batches = [{"text": texts[i : i + batch], "id": "x"} for i in range(0, len(texts), batch)]
    metadata = mteb.get_task("STSBenchmark").metadata
    asked = {"task_metadata": metadata, "hf_split": "test", "hf_subset": "default", "prompt_type": prompt_type}
    return encoder.encode(batches, **asked, batch_size=batch, show_progress_bar=False)


@pytest.mark.parametrize("pooling", POOLED)
@pytest.mark.parametrize("special_tokens", [False, True])
@pytest.mark.parametrize("max_length", [10**6, 5])
def test_vectors_are_what_the_rows_of_the_tokens_give(tokenizer, table, pooling, special_tokens, max_length):
    texts = texts_of(tokenizer, max_length=max_length, special_tokens=special_tokens)
    vectors = encode(TableEncoder(table, texts, pooling=pooling, name="t"), TEXTS)
    tokenizer.no_truncation()
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = tokenizer.encode(text, add_special_tokens=special_tokens).ids[:max_length]
        expected = POOLED[pooling](table[ids].astype(float), axis=0) if ids else np.zeros(24)
        np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)
    assert vectors.dtype == np.float32 and np.array_equal(vectors[0], vectors[-1])


def test_vectors_are_those_of_sentence_transformers(tokenizer, table, tokenizer_folder):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    module = StaticEmbedding(tokens.load_tokenizer(tokenizer_folder), embedding_weights=table.copy())
    expected = SentenceTransformer(modules=[module], device="cpu").encode(TEXTS)
    ours = encode(TableEncoder(table, texts_of(tokenizer), pooling="mean", name="t"), TEXTS)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_it_is_an_encoder_that_compares_by_cosine_and_knows_no_prompt(tokenizer, table):
    encoder = TableEncoder(table, texts_of(tokenizer), pooling="sum", name="t")
    assert isinstance(encoder, EncoderProtocol)
    a = encode(encoder, TEXTS[:4], PromptType.query)
    assert np.array_equal(a, encode(encoder, TEXTS[:4], PromptType.document))
    unit = a / np.linalg.norm(a, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.similarity(a, a[:2]), unit @ unit[:2].T, atol=1e-6)
    np.testing.assert_allclose(encoder.similarity_pairwise(a, a[::-1].copy()), (unit * unit[::-1]).sum(1), atol=1e-6)
    meta = encoder.mteb_model_meta
    assert (meta.embed_dim, meta.n_embedding_parameters) == (24, VOCABULARY * 24)


def test_padding_of_the_tokenizer_is_not_pooled(tokenizer, table):
    expected = encode(TableEncoder(table, texts_of(tokenizer), pooling="mean", name="t"), TEXTS)
    tokenizer.enable_padding(pad_id=1, pad_token="!", length=64)
    padded = encode(TableEncoder(table, texts_of(tokenizer), pooling="mean", name="t"), TEXTS)
    assert np.array_equal(padded, expected)


def test_a_set_of_texts_is_tokenised_once_for_all_tables(tokenizer, table):
    class Counting:
        calls = 0

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def encode_batch_fast(self, *args, **kwargs):
            self.calls += 1
            return tokenizer.encode_batch_fast(*args, **kwargs)

    counting = Counting()
    texts = texts_of(counting)
    first = encode(TableEncoder(table, texts, pooling="mean", name="t"), TEXTS)
    second = encode(TableEncoder(2 * table, texts, pooling="mean", name="u"), TEXTS, batch=2)
    assert counting.calls == 1
    np.testing.assert_allclose(second, 2 * first, atol=1e-6)
    encode(TableEncoder(table, texts, pooling="mean", name="t"), TEXTS[::-1])
    assert counting.calls == 2


def test_no_two_sets_of_texts_are_taken_for_one(tokenizer, table):
    encoder = TableEncoder(table, texts_of(tokenizer), pooling="mean", name="t")
    assert len(encode(encoder, ["a", "b"])) == 2 and len(encode(encoder, ["a b"])) == 1
    assert len(encode(encoder, ['a", "b'])) == 1 and len(encode(encoder, ["a\0b"])) == 1


def test_context_counts_documents_and_leaves_queries_out(tokenizer, table):
    texts = texts_of(tokenizer)
    encoder = TableEncoder(table, texts, pooling="mean", name="t")
    encode(encoder, TEXTS[:3], PromptType.document)
    encode(encoder, TEXTS[3:])
    encode(encoder, TEXTS[3:], PromptType.document)  # the same texts again are no further documents
    encode(encoder, ["only asked for"], PromptType.query)
    documents = tokens.tokenise(TEXTS, tokenizer, max_length=10**6, special_tokens=False)
    ours, expected = texts.context(VOCABULARY), Context.of(documents, VOCABULARY)
    assert ours.documents == expected.documents == len(TEXTS)
    assert np.array_equal(ours.document_frequency, expected.document_frequency)
    assert np.array_equal(ours.frequency, expected.frequency)
    asked = tokens.tokenise(["only asked for"], tokenizer, max_length=10**6, special_tokens=False).ids
    assert np.array_equal(texts.rows, np.unique([*documents.ids, *asked]))


def test_gathered_rows_are_those_of_the_whole_table(table):
    ids = np.array([0, 3, 4, 99, VOCABULARY - 1])
    gathered = Gathered(np.array_split(table, 7), VOCABULARY, ids)
    assert np.array_equal(gathered[ids[::-1][:3]], table[ids[::-1][:3]])
    assert gathered.shape == table.shape


def test_a_table_of_another_tokenizer_is_refused(tokenizer, table):
    texts = texts_of(tokenizer)
    with pytest.raises(EmbscaleError, match=r"hold token \d+, but the table has 40 rows"):
        encode(TableEncoder(table[:40], texts, pooling="mean", name="t"), TEXTS)
    with pytest.raises(EmbscaleError, match="the table has 40 rows"):
        Gathered([table[:40]], 40, texts.rows)
    with pytest.raises(EmbscaleError, match="the table has 40 rows"):
        texts.context(40)


def test_a_tokenizer_of_the_files_own_limit_is_not_cut_by_it(tokenizer, table, tmp_path):
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert json.loads((tmp_path / "tokenizer.json").read_text())["truncation"]
    loaded = tokens.load_tokenizer(tmp_path)
    vectors = encode(TableEncoder(table, texts_of(loaded), pooling="sum", name="t"), TEXTS)
    tokenizer.no_truncation()
    ids = tokenizer.encode(TEXTS[0], add_special_tokens=False).ids
    np.testing.assert_allclose(vectors[0], table[ids].sum(axis=0), atol=1e-5)


@pytest.mark.parametrize("exponent", [60, 120, -45, -120])
def test_similarities_do_not_depend_on_the_scale_of_a_table(tokenizer, table, exponent):
    encoders = [
        TableEncoder(scaled, texts_of(tokenizer), pooling="mean", name="t")
        for scaled in (table, np.ldexp(table, exponent))
    ]
    plain, scaled = (encode(encoder, TEXTS) for encoder in encoders)
    for one in (encoders[0].similarity, lambda a, b: paired_cosine_distances(a, b[::-1])):  # both of MTEB's ways
        np.testing.assert_allclose(one(plain, plain), one(scaled, scaled), atol=1e-6)
