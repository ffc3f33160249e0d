"""Static embeddings: tables that come from the co-occurrence of tokens alone, without a language model.

Word2vec and fastText are gensim's, the truncated SVD is scipy's, GloVe is `embscale.training.glove`.  All are
trained on the tokens that a model of the ladder sees, so that at equal width only the method differs.

A token that does not occur in the texts has a zero row, which adds nothing to the mean of a text; only fastText can
represent it, from its characters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from embscale.errors import EmbscaleError
from embscale.parameters import training as parameters
from embscale.texts.tokens import TokenisedTexts

if TYPE_CHECKING:
    from gensim.models import Word2Vec

#  gensim silently drops tokens of a sentence beyond this many.
SENTENCE_TOKENS = 10_000


@dataclass(frozen=True)
class Trained:
    """A table and what its training took.

    Attributes:
        table: float32 ``[vocab_size, dims]``; values that are not finite mean that the training diverged.
        tokens_seen: positions of the training texts that were read, each counted once.
        epochs: passes over them, or over the pairs counted in them.
        losses: of each epoch, where the method reports them.
        heldout_loss: in nats per token, of a language model; NaN for the others.
    """

    table: np.ndarray
    tokens_seen: int
    epochs: float
    losses: tuple[float, ...] = ()
    heldout_loss: float = math.nan

    @property
    def diverged(self) -> bool:
        """Whether the table has values that are not finite."""
        return not bool(np.isfinite(self.table).all())


@dataclass(frozen=True)
class Prediction:
    """How a table is trained by predicting tokens from their neighbours.

    Attributes:
        dims: columns of the table.
        window: the farthest neighbour.  Each token draws its own from 1 to this one, so that near neighbours count
            more (Mikolov et al. 2013a, section 3.2).
        epochs: passes over the texts.
        learning_rate: the highest, at the start; it falls linearly.
        subsample: tokens more frequent than this share are left out at random (Mikolov et al. 2013b, eq. 5).
        negative: tokens drawn as counter-examples for each prediction (Mikolov et al. 2013b, eq. 4); 0 stands for a
            hierarchical softmax over a Huffman tree of the tokens (eq. 3).
        seed: of the initial vectors and all draws.
    """

    dims: int
    window: int
    epochs: int
    learning_rate: float
    subsample: float
    negative: int
    seed: int

    def options(self) -> dict[str, Any]:
        """The same as arguments of gensim."""
        return {
            "vector_size": self.dims,
            "window": self.window,
            "epochs": self.epochs,
            "alpha": self.learning_rate,
            "sample": self.subsample,
            "negative": self.negative,
            "hs": int(self.negative == 0),
            "seed": self.seed,
            "min_count": 1,  # every token of the tokenizer gets its row
            "workers": 1,  # several would update one table in no fixed order, so runs would not be reproducible
        }


def check(texts: TokenisedTexts, *, vocab_size: int, window: int) -> None:
    """Reject texts from which no table can be trained.

    Raises:
        EmbscaleError: they are empty, hold a token beyond the vocabulary, or are all shorter than the window.
    """
    longest = int(texts.lengths.max(initial=0))
    if longest == 0:
        raise EmbscaleError("the texts hold no token; expected the training split of a corpus")
    if texts.ids.max() >= vocab_size:
        raise EmbscaleError(f"the texts hold token {texts.ids.max()}, but the vocabulary ends before {vocab_size}")
    if window >= longest:
        raise EmbscaleError(f"window {window}: the longest text holds {longest} tokens; give a smaller window")


def train(
    method: str,
    texts: TokenisedTexts,
    settings: parameters.Window,
    *,
    dims: int,
    vocab_size: int,
    tokens: Sequence[str],
    seed: int,
) -> Trained:
    """Train a table by the method of that name.

    Args:
        method: which.
        texts: what to learn from.
        settings: of the method.
        dims: columns of the table.
        vocab_size: rows of the table.
        tokens: the characters of each token, which fastText reads.
        seed: of the initial vectors and of all draws.

    Raises:
        EmbscaleError: no table can be trained from these texts.
    """
    check(texts, vocab_size=vocab_size, window=settings.window)
    if isinstance(settings, parameters.Word2Vec):
        prediction = Prediction(
            dims=dims,
            window=settings.window,
            epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            subsample=settings.subsample,
            negative=settings.negative,
            seed=seed,
        )
        if isinstance(settings, parameters.FastText):
            fewest, most = settings.ngrams
            table = fasttext(
                texts,
                prediction,
                vocab_size=vocab_size,
                tokens=tokens,
                ngrams=(fewest, most),
                buckets=settings.buckets,
            )
        else:
            table = (cbow if method == "cbow" else skip_gram)(texts, prediction, vocab_size=vocab_size)
        return Trained(table, len(texts.ids), settings.epochs)
    counts = cooccurrences(texts, vocab_size=vocab_size, window=settings.window)
    if isinstance(settings, parameters.GloVe):
        from embscale.training import glove

        table, losses = glove.fit(
            counts,
            dims=dims,
            epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            x_max=settings.x_max,
            seed=seed,
        )
        return Trained(table, len(texts.ids), settings.epochs, tuple(losses))
    return Trained(ppmi_svd(counts, dims=dims, seed=seed), len(texts.ids), 1)


def cbow(texts: TokenisedTexts, prediction: Prediction, *, vocab_size: int) -> np.ndarray:
    """Continuous bag of words: a token predicted from the mean of its neighbours (Mikolov et al. 2013a, section 3.1).

    Args:
        texts: what to learn from.
        prediction: how.
        vocab_size: rows of the table.

    Returns:
        The input vectors, float32 ``[vocab_size, dims]``.
    """
    return _word2vec(texts, prediction, vocab_size=vocab_size, skip_gram=False)


def skip_gram(texts: TokenisedTexts, prediction: Prediction, *, vocab_size: int) -> np.ndarray:
    """Each neighbour predicted from the token (Mikolov et al. 2013a, section 3.2); else as `cbow`."""
    return _word2vec(texts, prediction, vocab_size=vocab_size, skip_gram=True)


def _word2vec(texts: TokenisedTexts, prediction: Prediction, *, vocab_size: int, skip_gram: bool) -> np.ndarray:
    from gensim.models import Word2Vec

    names = [str(token) for token in range(vocab_size)]
    model = Word2Vec(_sentences(texts, names), sg=int(skip_gram), **prediction.options())
    return _rows(model, names, (vocab_size, prediction.dims))


def fasttext(
    texts: TokenisedTexts,
    prediction: Prediction,
    *,
    vocab_size: int,
    tokens: Sequence[str],
    ngrams: tuple[int, int],
    buckets: int,
) -> np.ndarray:
    """Skip-gram in which a token's vector is the mean of its own and those of its character n-grams.

    Bojanowski et al. 2017, "Enriching word vectors with subword information", section 3.2 (a sum there).  A token that
    the texts do not hold has the mean of its n-grams' vectors, and zeros if it is too short to have any.

    Args:
        texts: what to learn from.
        prediction: how.
        vocab_size: rows of the table.
        tokens: the characters of each token of the tokenizer, all different, up to ``[vocab_size]``.
        ngrams: fewest and most characters of an n-gram; a mark at either end of the token counts as one.
        buckets: vectors that the n-grams share by a hash.

    Returns:
        float32 ``[vocab_size, dims]``.
    """
    from gensim.models import FastText

    fewest, most = ngrams
    model = FastText(_sentences(texts, tokens), sg=1, min_n=fewest, max_n=most, bucket=buckets, **prediction.options())
    return _rows(model, tokens, (vocab_size, prediction.dims))


def _sentences(texts: TokenisedTexts, names: Sequence[str]) -> list[list[str]]:
    """Texts as lists of names, split where gensim would drop the rest."""
    sentences = [[names[token] for token in text] for text in texts]  # type: ignore[attr-defined]
    return [
        sentence[start : start + SENTENCE_TOKENS]
        for sentence in sentences
        for start in range(0, len(sentence), SENTENCE_TOKENS)
    ]


def _rows(model: Word2Vec, names: Sequence[str], shape: tuple[int, int]) -> np.ndarray:
    table = np.zeros(shape, np.float32)
    for token, name in enumerate(names):
        try:
            table[token] = model.wv[name]
        except KeyError:  # neither in the texts nor composed of n-grams
            continue
    return table


def cooccurrences(texts: TokenisedTexts, *, vocab_size: int, window: int) -> sparse.csr_matrix:
    """Co-occurrence counts of tokens, weighted by 1/distance (Pennington et al. 2014, section 4.2).

    Args:
        texts: where to count; no pair reaches over the end of a text.
        vocab_size: rows and columns.
        window: the largest distance that counts.

    Returns:
        float64 ``[vocab_size, vocab_size]``, symmetric.
    """
    text = np.repeat(np.arange(len(texts)), texts.lengths)
    shape = (vocab_size, vocab_size)
    counts = sparse.csr_matrix(shape)
    for distance in range(1, window + 1):
        near = text[:-distance] == text[distance:]
        pairs = texts.ids[:-distance][near], texts.ids[distance:][near]
        counts += sparse.csr_matrix((np.full(len(pairs[0]), 1 / distance), pairs), shape)
    return (counts + counts.T).tocsr()


def ppmi(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Positive pointwise mutual information, ``max(0, log(p(i, j) / (p(i) p(j))))`` (Levy and Goldberg 2014, eq. 10).

    Args:
        counts: of pairs, ``[tokens, tokens]``.

    Returns:
        In nats, of the same shape, nothing stored where it is 0.
    """
    pairs = counts.tocoo()
    rows, columns = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    information = np.log(pairs.data * counts.sum() / (rows[pairs.row] * columns[pairs.col]))
    positive = information > 0
    return sparse.csr_matrix(
        (information[positive], (pairs.row[positive], pairs.col[positive])), counts.shape, dtype=np.float64
    )


def ppmi_svd(counts: sparse.csr_matrix, *, dims: int, seed: int) -> np.ndarray:
    """Left singular vectors of the PPMI times the roots of the singular values (Levy and Goldberg 2014, section 3.3).

    Args:
        counts: of `cooccurrences`.
        dims: how many, the largest first.
        seed: of the vector with which ARPACK starts; it changes only last digits.

    Returns:
        float32 ``[tokens, dims]``; the largest component of each column is positive.

    Raises:
        EmbscaleError: the texts hold too few distinct tokens for as many columns.
    """
    from scipy.sparse.linalg import svds

    matrix = ppmi(counts)
    seen = np.flatnonzero(matrix.getnnz(axis=1))  # rounding would make the other rows almost zero
    if dims >= len(seen):
        raise EmbscaleError(
            f"{dims} columns: the PPMI of {len(seen)} distinct tokens has at most {max(len(seen) - 1, 0)}; "
            "give a smaller --dim"
        )
    start = np.random.default_rng(seed).standard_normal(len(seen))
    vectors, values, _ = svds(matrix[seen][:, seen], k=dims, v0=start, return_singular_vectors="u")
    vectors = (vectors * np.sqrt(values))[:, ::-1]
    table = np.zeros((matrix.shape[0], dims), np.float32)
    table[seen] = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dims)])
    return table
