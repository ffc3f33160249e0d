"""Train a static embedding table on the tokens that a rung of the ladder sees.

    embscale static skip-gram --corpus FOLDER --tokens TOKENS.safetensors --tokenizer FOLDER ... -o TABLE.safetensors

The table is of the kind that embscale extract writes, so that embscale score and embscale words take it as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.provenance.artifacts import recorded
from embscale.texts import beir, tokens

if TYPE_CHECKING:
    import numpy as np

    from embscale.texts.tokens import TokenisedTexts
    from embscale.training.static_embeddings import Prediction

METHODS = {
    "cbow": "word2vec: a token from the mean of its neighbours",
    "skip-gram": "word2vec: each neighbour from the token",
    "fasttext": "skip-gram with character n-grams",
    "glove": "weighted least squares on the logarithms of co-occurrence counts",
    "ppmi-svd": "truncated SVD of positive pointwise mutual information",
}
PATHS = ("corpus", "tokens", "tokenizer", "output")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags, those of each method apart."""
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    for method, words in METHODS.items():
        flags = methods.add_parser(method, help=words, description=f"Train a table: {words}.")
        flags.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
        flags.add_argument("--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize")
        flags.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")
        flags.add_argument("--vocab-size", type=int, required=True, help="rows of the table")
        flags.add_argument("--max-tokens", type=int, required=True, help="as many of the training split as a rung sees")
        flags.add_argument("--order-seed", type=int, required=True, help="of the order of texts: the rung's seed")
        flags.add_argument("--dim", type=int, required=True, help="columns of the table")
        flags.add_argument("--window", type=int, required=True, help="the farthest neighbour that counts, in tokens")
        flags.add_argument("--seed", type=int, required=True, help="of the initial vectors and of all draws")
        flags.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE.safetensors")
        if method != "ppmi-svd":
            flags.add_argument("--epochs", type=int, required=True)
            flags.add_argument("--learning-rate", type=float, required=True, help="the highest")
        if method == "glove":
            flags.add_argument("--x-max", type=float, required=True, help="count from which a pair has full weight")
        if method in ("cbow", "skip-gram", "fasttext"):
            flags.add_argument("--subsample", type=float, required=True, help="share above which tokens are left out")
            softmax = flags.add_mutually_exclusive_group(required=True)
            softmax.add_argument("--negative", type=int, help="counter-examples for each prediction")
            softmax.add_argument("--hierarchical-softmax", dest="negative", action="store_const", const=0)
        if method == "fasttext":
            flags.add_argument("--ngrams", type=int, nargs=2, required=True, metavar=("FEWEST", "MOST"))
            flags.add_argument("--buckets", type=int, required=True, help="vectors that the n-grams share")


def run(args: argparse.Namespace) -> None:
    """Take the tokens, train, write."""
    from embscale.tables import table_files
    from embscale.texts import streams
    from embscale.training import static_embeddings

    source = beir.corpus_file(args.corpus)
    params = {name: value for name, value in vars(args).items() if name not in PATHS}
    inputs = [source, args.tokens, tokens.tokenizer_file(args.tokenizer)]
    facts: dict[str, Any] = {}
    with recorded(command="static", params=params, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        stream, _, separator = streams.read(source, args.tokens, args.tokenizer, seed=args.order_seed)
        texts = streams.texts_of(stream[: args.max_tokens], separator=separator)
        static_embeddings.check(texts, vocab_size=args.vocab_size, window=args.window)
        table = _train(args, texts, facts)
        table_files.save(output, table, {"method": args.method})
        facts |= {"tokens": len(texts.ids), "rows_zero": int((~table.any(axis=1)).sum())}


def _train(args: argparse.Namespace, texts: TokenisedTexts, facts: dict[str, Any]) -> np.ndarray:
    """The table of the method that was asked for; what is learnt on the way goes into `facts`."""
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
