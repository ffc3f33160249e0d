"""Flags and steps that the commands share which train static embeddings."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.cli._numbers import count, natural
from embscale.parameters import flags
from embscale.parameters.corpus import TableRows
from embscale.parameters.training import METHODS, StaticSeed
from embscale.texts import beir, tokens

if TYPE_CHECKING:
    from embscale.texts.tokens import TokenisedTexts
    from embscale.training.static_embeddings import Trained

WORDS: dict[str, str] = {
    "cbow": "word2vec: a token from the mean of its neighbours",
    "skip-gram": "word2vec: each neighbour from the token",
    "fasttext": "skip-gram with character n-grams",
    "glove": "weighted least squares on the logarithms of co-occurrence counts",
    "ppmi-svd": "truncated SVD of positive pointwise mutual information",
}


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """The texts, their tokens and the tokenizer."""
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")


def add_method(parser: argparse.ArgumentParser, method: str) -> None:
    """What a static table is trained on, and the settings of its method."""
    parser.add_argument(
        "--max-tokens", type=count, required=True, help="of the training split, as many as the language model sees"
    )
    parser.add_argument("--order-seed", type=natural, required=True, help="of the order of texts: the model's seed")
    parser.add_argument("--dim", type=count, required=True, help="columns of the table")
    flags.add(parser, TableRows, METHODS[method], StaticSeed)


def train(args: argparse.Namespace, settings: Any) -> Trained:  # noqa: ANN401 (the group of the method)
    """Train a table with the given settings on the tokens that the flags name."""
    from embscale.training import static_embeddings

    texts, names, seen = _texts(args.corpus, args.tokens, args.tokenizer, args.order_seed, args.max_tokens)
    trained = static_embeddings.train(
        args.method,
        texts,
        settings,
        dims=args.dim,
        vocab_size=args.vocab_size,
        tokens=names,
        seed=args.seed,
    )
    # The separators count, as they do for a language model, which reads them too.
    return dataclasses.replace(trained, tokens_seen=seen)


@functools.cache
def _texts(
    corpus: Path, tokenised: Path, folder: Path, order_seed: int, max_tokens: int
) -> tuple[TokenisedTexts, list[str], int]:
    """The texts to learn from, the characters of each token, and the positions of the texts with their separators."""
    from embscale.texts import streams

    stream, _, separator = streams.read(beir.corpus_file(corpus), tokenised, folder, seed=order_seed)
    tokenizer = tokens.load_tokenizer(folder)
    names = [tokenizer.id_to_token(token) or "" for token in range(tokenizer.get_vocab_size())]
    seen = stream[:max_tokens]
    return streams.texts_of(seen, separator=separator), names, len(seen)
