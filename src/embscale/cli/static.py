"""Train a static embedding table on the tokens that a model of the ladder sees.

    embscale static skip-gram --corpus FOLDER --tokens TOKENS.safetensors --tokenizer FOLDER ... -o TABLE.safetensors

The table is of the kind that embscale extract writes, so embscale score and embscale words accept it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.corpus import TableRows
from embscale.parameters.training import METHODS, StaticSeed
from embscale.texts import beir, tokens

if TYPE_CHECKING:
    import numpy as np

    from embscale.texts.tokens import TokenisedTexts
    from embscale.training.static_embeddings import Prediction

WORDS = {
    "cbow": "word2vec: a token from the mean of its neighbours",
    "skip-gram": "word2vec: each neighbour from the token",
    "fasttext": "skip-gram with character n-grams",
    "glove": "weighted least squares on the logarithms of co-occurrence counts",
    "ppmi-svd": "truncated SVD of positive pointwise mutual information",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of each method."""
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    for method, words in WORDS.items():
        method_parser = methods.add_parser(method, help=words, description=f"Train a table: {words}.")
        method_parser.add_argument(
            "--corpus", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format"
        )
        method_parser.add_argument(
            "--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize"
        )
        method_parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")
        method_parser.add_argument(
            "--max-tokens", type=int, required=True, help="of the training split, as many as a model sees"
        )
        method_parser.add_argument(
            "--order-seed", type=int, required=True, help="of the order of texts: the model's seed"
        )
        method_parser.add_argument("--dim", type=int, required=True, help="columns of the table")
        flags.add(method_parser, TableRows, METHODS[method], StaticSeed)
        method_parser.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE.safetensors")


def run(args: argparse.Namespace) -> None:
    """Read the tokens, train, write."""
    from embscale.tables import table_files
    from embscale.texts import streams
    from embscale.training import static_embeddings

    source = beir.corpus_file(args.corpus)
    inputs = [source, args.tokens, tokens.tokenizer_file(args.tokenizer)]
    facts: dict[str, Any] = {}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        stream, _, separator = streams.read(source, args.tokens, args.tokenizer, seed=args.order_seed)
        texts = streams.texts_of(stream[: args.max_tokens], separator=separator)
        static_embeddings.check(texts, vocab_size=args.vocab_size, window=args.window)
        table = _train(args, texts, facts)
        table_files.save(output, table, {"method": args.method})
        facts |= {"tokens": len(texts.ids), "rows_zero": int((~table.any(axis=1)).sum())}


def _train(args: argparse.Namespace, texts: TokenisedTexts, facts: dict[str, Any]) -> np.ndarray:
    """Train a table by the requested method; diagnostics are added to `facts`."""
    from embscale.training import static_embeddings as static

    match args.method:
        case "cbow":
            return static.cbow(texts, _prediction(args), vocab_size=args.vocab_size)
        case "skip-gram":
            return static.skip_gram(texts, _prediction(args), vocab_size=args.vocab_size)
        case "fasttext":
            tokenizer = tokens.load_tokenizer(args.tokenizer)
            return static.fasttext(
                texts,
                _prediction(args),
                vocab_size=args.vocab_size,
                tokens=[tokenizer.id_to_token(token) or "" for token in range(tokenizer.get_vocab_size())],
                ngrams=(args.ngrams[0], args.ngrams[1]),
                buckets=args.buckets,
            )
    counts = static.cooccurrences(texts, vocab_size=args.vocab_size, window=args.window)
    if args.method == "ppmi-svd":
        return static.ppmi_svd(counts, dims=args.dim, seed=args.seed)
    from embscale.training import glove

    table, facts["losses"] = glove.fit(
        counts,
        dims=args.dim,
        epochs=args.epochs,
        learning_rate=args.learning_rate,
        x_max=args.x_max,
        seed=args.seed,
    )
    return table


def _prediction(args: argparse.Namespace) -> Prediction:
    from embscale.training.static_embeddings import Prediction

    return Prediction(
        dims=args.dim,
        window=args.window,
        epochs=args.epochs,
        learning_rate=args.learning_rate,
        subsample=args.subsample,
        negative=args.negative,
        seed=args.seed,
    )
