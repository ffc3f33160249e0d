"""Time static embeddings: GloVe against gensim's word2vec per epoch, and both kinds of softmax against vocabulary size.

    python benchmarks/static.py [--tokens N] [--rounds N]

The texts are synthetic: Zipf-distributed tokens, each second one drawn near the one before so that pairs repeat.
Seconds of processor time, which other work on the machine disturbs least, in one thread; the least of several rounds,
without imports and without the first call, for which numba compiles.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from embscale.texts.tokens import TokenisedTexts
from embscale.training import glove, static_embeddings
from embscale.training.static_embeddings import Prediction

WINDOW, TEXT = 5, 400
WIDTHS = (16, 64, 256)
VOCABULARIES = (1_000, 4_000, 16_000, 64_000)


def texts(tokens, vocabulary):
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, vocabulary + 1)
    ids = generator.choice(vocabulary, tokens, p=chances / chances.sum())
    near = generator.random(tokens - 1) < 0.5
    ids[1:][near] = (ids[:-1][near] + generator.integers(1, 20, near.sum())) % vocabulary
    offsets = np.append(np.arange(0, tokens, TEXT), tokens)
    return TokenisedTexts(ids.astype(np.int32), offsets)


def prediction(**changes):
    settings = {"dims": 64, "window": WINDOW, "epochs": 1, "learning_rate": 0.025, "subsample": 1e-3, "negative": 5}
    return Prediction(**settings | changes, seed=1)


def seconds(function, rounds):
    times = []
    for _ in range(rounds):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def per_epoch(train, rounds):
    """Of five epochs less one, by four: what an epoch costs without vocabulary, tree and counting."""
    return (seconds(lambda: train(5), rounds) - seconds(lambda: train(1), rounds)) / 4


def compare(tokens, rounds):
    some, vocabulary = texts(tokens, 4_000), 4_000
    counts = static_embeddings.cooccurrences(some, vocab_size=vocabulary, window=WINDOW)
    counting = seconds(lambda: static_embeddings.cooccurrences(some, vocab_size=vocabulary, window=WINDOW), rounds)
    print(f"{tokens} tokens, vocabulary {vocabulary}, {counts.nnz} pairs, counted in {counting:.2f} s\n")
    print("| dims | GloVe, s per epoch | CBOW | skip-gram | GloVe / CBOW | GloVe / skip-gram |")
    print("|---|---|---|---|---|---|")
    for dims in WIDTHS:

        def of_glove(epochs, dims=dims):
            glove.fit(counts, dims=dims, epochs=epochs, learning_rate=0.05, x_max=100, seed=1)

        def of_cbow(epochs, dims=dims):
            static_embeddings.cbow(some, prediction(dims=dims, epochs=epochs), vocab_size=vocabulary)

        def of_skip_gram(epochs, dims=dims):
            static_embeddings.skip_gram(some, prediction(dims=dims, epochs=epochs), vocab_size=vocabulary)

        of_glove(1)
        ours, cbow, skip_gram = (per_epoch(train, rounds) for train in (of_glove, of_cbow, of_skip_gram))
        cells = [
            dims,
            f"{ours:.3f}",
            f"{cbow:.3f}",
            f"{skip_gram:.3f}",
            f"{ours / cbow:.2f}",
            f"{ours / skip_gram:.2f}",
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def softmax(tokens, rounds):
    print("\nMicroseconds per token and epoch, 64 columns\n")
    print(
        "| vocabulary | CBOW, negative sampling | CBOW, hierarchical | skip-gram, negative | skip-gram, hierarchical |"
    )
    print("|---|---|---|---|---|")
    for vocabulary in VOCABULARIES:
        some, cells = texts(tokens, vocabulary), []
        for method in (static_embeddings.cbow, static_embeddings.skip_gram):
            for negative in (5, 0):

                def train(epochs, method=method, negative=negative, vocabulary=vocabulary, some=some):
                    # Nothing is left out, so that each vocabulary trains on as many tokens.
                    how = prediction(epochs=epochs, negative=negative, subsample=0)
                    method(some, how, vocab_size=vocabulary)

                cells.append(f"{per_epoch(train, rounds) / tokens * 1e6:.2f}")
        print(f"| {vocabulary} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with threadpool_limits(1):
        compare(args.tokens, args.rounds)
        softmax(args.tokens, args.rounds)


if __name__ == "__main__":
    main()
