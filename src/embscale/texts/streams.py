"""Token streams: the one that language models and static embeddings are trained on, and the held-out one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from embscale.errors import EmbscaleError
from embscale.texts import beir, tokens
from embscale.texts.splits import HELDOUT, TRAIN
from embscale.texts.tokens import END_OF_TEXT, TokenisedTexts


def read(corpus: Path, tokenised: Path, tokenizer: Path, *, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """What models are trained on, and what their loss is measured on, as streams.

    Args:
        corpus: the corpus' file, whose rows name their split.
        tokenised: its documents as tokens.
        tokenizer: the folder of the tokenizer.
        seed: of the order of texts.

    Returns:
        The stream for training, that of the texts held out by their names (those of held-out packages are of another
        kind, and in neither), and the separator that follows each text.

    Raises:
        EmbscaleError: the tokenizer has no separator, or the tokens are of other documents.
    """
    documents = tokens.load(tokenised)[0]["documents"]
    split = np.array(beir.splits_of(corpus))
    if len(documents) != len(split):
        raise EmbscaleError(
            f"{tokenised}: tokens of {len(documents)} documents, but {corpus} holds {len(split)}; "
            "run embscale tokenize again"
        )
    separator = tokens.load_tokenizer(tokenizer).token_to_id(END_OF_TEXT)
    if separator is None:
        raise EmbscaleError(f"{tokenizer}: has no token {END_OF_TEXT}; make it with embscale tokenizer")
    training, unseen = (
        stream(documents, np.flatnonzero(split == name), separator=separator, seed=seed) for name in (TRAIN, HELDOUT)
    )
    return training, unseen, separator


def stream(texts: TokenisedTexts, chosen: np.ndarray, *, separator: int, seed: int) -> np.ndarray:
    """The chosen texts in a random order, one after the other, each followed by the separator."""
    order = np.random.default_rng(seed).permutation(chosen)
    return np.concatenate([part for text in order for part in (texts[text], [separator])]).astype(np.int64)


def texts_of(stream: np.ndarray, *, separator: int) -> TokenisedTexts:
    """The texts of a stream or of its beginning, in its order, without the separators and without empty texts."""
    ends = np.flatnonzero(np.append(stream, separator) == separator)
    offsets = np.concatenate([[0], ends - np.arange(len(ends))])
    return TokenisedTexts(stream[stream != separator].astype(np.int32), np.unique(offsets))
