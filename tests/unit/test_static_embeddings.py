"""Static embeddings: counts by hand, SVD by numpy, planted groups, the same bytes again."""

import os
import subprocess
import sys

import numpy as np
import pytest
from small_corpus import save_corpus

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import note_path, read_note
from embscale.tables import table_files
from embscale.texts.tokens import TokenisedTexts
from embscale.training import glove, static_embeddings
from embscale.training.static_embeddings import Prediction

PREDICTION = Prediction(dims=12, window=3, epochs=15, learning_rate=0.05, subsample=0, negative=5, seed=1)
SOFTMAX = Prediction(dims=12, window=3, epochs=15, learning_rate=0.05, subsample=0, negative=0, seed=1)
VOCABULARY = 24  # the texts hold 20 of them


def joined(texts):
    offsets = np.cumsum([0, *map(len, texts)])
    return TokenisedTexts(np.concatenate(texts).astype(np.int32), offsets)


@pytest.fixture(scope="module")
def grouped():
    """Texts of the tokens 0 to 9 alone, or of 10 to 19 alone."""
    generator = np.random.default_rng(0)
    return joined([generator.integers(0, 10, 30) + 10 * (i % 2) for i in range(200)])


NAMES = [f"group{token // 10}word{token}" for token in range(VOCABULARY)]
METHODS = {
    "cbow": lambda texts: static_embeddings.cbow(texts, PREDICTION, vocab_size=VOCABULARY),
    "cbow, softmax": lambda texts: static_embeddings.cbow(texts, SOFTMAX, vocab_size=VOCABULARY),
    "skip-gram": lambda texts: static_embeddings.skip_gram(texts, PREDICTION, vocab_size=VOCABULARY),
    "skip-gram, softmax": lambda texts: static_embeddings.skip_gram(texts, SOFTMAX, vocab_size=VOCABULARY),
    "fasttext": lambda texts: static_embeddings.fasttext(
        texts, PREDICTION, vocab_size=VOCABULARY, tokens=NAMES[:22], ngrams=(3, 4), buckets=500
    ),
    "glove": lambda texts: glove.fit(
        static_embeddings.cooccurrences(texts, vocab_size=VOCABULARY, window=3),
        dims=12, epochs=30, learning_rate=0.05, x_max=10, seed=1,
    )[0],
    "ppmi-svd": lambda texts: static_embeddings.ppmi_svd(
        static_embeddings.cooccurrences(texts, vocab_size=VOCABULARY, window=3), dims=12, seed=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_tokens_that_stand_together_come_together(method, grouped):
    table = METHODS[method](grouped)
    assert table.shape == (VOCABULARY, 12) and table.dtype == np.float32
    unit = table[:20] - table[:20].mean(axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    cosines = unit @ unit.T
    same = np.equal.outer(np.arange(20) // 10, np.arange(20) // 10)
    assert cosines[same & ~np.eye(20, dtype=bool)].mean() > cosines[~same].mean() + 0.3
    assert not table[22:].any()  # neither seen nor known to the tokenizer
    assert table[20:22].any() == (method == "fasttext")  # which says something of unseen tokens
    assert np.array_equal(table, METHODS[method](grouped))


def test_an_unseen_token_has_the_mean_of_its_ngrams(grouped):
    """The same n-grams under another name give the same vector, and nothing is said of what is too short."""
    names = [*NAMES[:20], "xxgroup", "zzgroup", "a", "b"]
    table = static_embeddings.fasttext(
        grouped, PREDICTION, vocab_size=VOCABULARY, tokens=names, ngrams=(5, 5), buckets=50_000
    )
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    assert table[20].any() and unit[20] @ unit[21] > 0.2
    assert not table[22:].any()


def test_predictions_do_not_depend_on_the_hash_seed(grouped, tmp_path):
    """Python orders strings by another hash in each process."""
    script = (
        "import sys, numpy as np\n"
        "from embscale.training import static_embeddings as s\n"
        "from embscale.texts.tokens import TokenisedTexts\n"
        "ids = np.random.default_rng(0).integers(0, 50, 3000).astype(np.int32)\n"
        "texts = TokenisedTexts(ids, np.arange(0, 3001, 100))\n"
        "p = s.Prediction(dims=8, window=2, epochs=2, learning_rate=0.05, subsample=1e-3, negative=3, seed=1)\n"
        "names = [f'token{i}' for i in range(50)]\n"
        "a = s.skip_gram(texts, p, vocab_size=50)\n"
        "b = s.fasttext(texts, p, vocab_size=50, tokens=names, ngrams=(3, 5), buckets=100)\n"
        "sys.stdout.buffer.write(a.tobytes() + b.tobytes())\n"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1] and len(made[0]) == 2 * 50 * 8 * 4


def test_counts_equal_those_by_hand():
    generator = np.random.default_rng(0)
    texts = [generator.integers(0, 6, length).tolist() for length in (1, 9, 4, 17)]
    expected = np.zeros((7, 7))
    for text in texts:
        for i, one in enumerate(text):
            for j, other in enumerate(text):
                if 0 < abs(i - j) <= 3:
                    expected[one, other] += 1 / abs(i - j)
    found = static_embeddings.cooccurrences(joined(texts), vocab_size=7, window=3).toarray()
    assert found == pytest.approx(expected)


def test_ppmi_is_the_positive_logarithm_of_observed_to_expected():
    counts = static_embeddings.cooccurrences(joined([[0, 1, 2, 0, 1, 3, 3, 1]]), vocab_size=5, window=2)
    dense = counts.toarray()
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(dense * dense.sum() / np.outer(dense.sum(1), dense.sum(0)))
    assert static_embeddings.ppmi(counts).toarray() == pytest.approx(np.maximum(np.nan_to_num(expected), 0))
    assert np.isfinite(static_embeddings.ppmi(counts).toarray()).all()


def test_the_svd_is_that_of_numpy(grouped):
    counts = static_embeddings.cooccurrences(grouped, vocab_size=VOCABULARY, window=3)
    left, values, _ = np.linalg.svd(static_embeddings.ppmi(counts).toarray())
    table = static_embeddings.ppmi_svd(counts, dims=5, seed=1)
    assert np.abs(table) == pytest.approx(np.abs(left[:, :5] * np.sqrt(values[:5])), abs=1e-4)
    assert (table[np.abs(table).argmax(axis=0), range(5)] > 0).all()


def test_more_columns_than_tokens_are_reported(grouped):
    counts = static_embeddings.cooccurrences(grouped, vocab_size=VOCABULARY, window=3)
    with pytest.raises(EmbscaleError, match="20 columns: the PPMI of 20 distinct tokens has at most 19"):
        static_embeddings.ppmi_svd(counts, dims=20, seed=1)


@pytest.mark.parametrize(
    ("texts", "window", "words"),
    [
        ([[], []], 2, "the texts hold no token"),
        ([[0, 1, 9]], 2, "hold token 9, but the vocabulary ends before 9"),
        ([[0, 1], [2, 3, 4]], 3, "window 3: the longest text holds 3 tokens"),
    ],
)
def test_texts_of_which_no_table_can_be_made_are_reported(texts, window, words):
    with pytest.raises(EmbscaleError, match=words):
        static_embeddings.check(joined(texts), vocab_size=9, window=window)


def test_long_texts_lose_nothing():
    """gensim itself stops at 10,000 tokens of a sentence."""
    text = joined([np.concatenate([np.zeros(10_000), np.tile([1, 2], 500)])])
    assert static_embeddings.cbow(text, PREDICTION, vocab_size=3).any(axis=1).all()


@pytest.fixture
def study(tmp_path):
    """A folder with a corpus, its tokens and its tokenizer."""
    save_corpus(tmp_path)
    return tmp_path


SHARED = (
    "--vocab-size",
    "14",
    "--max-tokens",
    "500",
    "--order-seed",
    "1",
    "--dim",
    "4",
    "--window",
    "5",
    "--seed",
    "1",
)
PREDICT = ("--epochs", "2", "--learning-rate", "0.05", "--subsample", "0.001")
FLAGS = {
    "cbow": (*PREDICT, "--negative", "5"),
    "skip-gram": (*PREDICT, "--negative", "0"),
    "fasttext": (*PREDICT, "--negative", "5", "--ngrams", "3", "6", "--buckets", "100"),
    "glove": ("--epochs", "3", "--learning-rate", "0.05", "--x-max", "10"),
    "ppmi-svd": (),
}


def command(folder, method, output, *flags):
    files = ("--corpus", folder, "--tokens", folder / "tokens.safetensors", "--tokenizer", folder, "-o", output)
    return execute("static", [method, *map(str, files), *SHARED, *map(str, flags)])


@pytest.mark.parametrize("method", FLAGS)
def test_the_command_writes_the_same_table_again(method, study):
    for name in ("a", "b"):
        assert command(study, method, study / f"{name}.safetensors", *FLAGS[method]) == 0
    assert (study / "a.safetensors").read_bytes() == (study / "b.safetensors").read_bytes()
    table = table_files.load(study / "a.safetensors")
    assert table.shape == (14, 4) and table[1:13].any(axis=1).all()
    assert table[13].any() == (method == "fasttext") == table[0].any()  # neither unseen tokens nor the separator
    note = read_note(note_path(study / "a.safetensors"))
    assert note["params"]["method"] == method and note["params"]["window"] == 5
    assert note["facts"]["tokens_seen"] == 500
    assert note["facts"]["tokens_processed"] == 500 * note["params"].get("epochs", 1)
    assert ("losses" in note["facts"]) == (method == "glove")


def test_a_training_that_diverges_leaves_no_table(study, capsys):
    assert command(study, "glove", study / "a.safetensors", *FLAGS["glove"], "--learning-rate", "1e6") == 1
    assert "glove: training diverged" in capsys.readouterr().err and not (study / "a.safetensors").exists()


def test_a_wrong_choice_is_one_line(study, capsys):
    for text, words in (("{}", "not a chosen setting"), ('{"method": "cbow", "setting": "x_max", "value": 1}', "none")):
        (study / "choice.json").write_text(text, "utf-8")
        assert command(study, "cbow", study / "a.safetensors", *FLAGS["cbow"], "--settings", study / "choice.json") == 1
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1 and "choice.json" in error


def test_an_error_is_one_line(study, capsys):
    assert command(study, "ppmi-svd", study / "a.safetensors", "--dim", "14") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "14 columns: the PPMI of 12 distinct tokens has at most 11" in error
    assert command(study, "cbow", study / "a.safetensors", *FLAGS["cbow"], "--window", "50") == 1
    assert "window 50: the longest text holds 20 tokens" in capsys.readouterr().err
    assert not (study / "a.safetensors").exists()
