"""Scores of every query with planted means: of trained tables, of random ones, and of a random ranking."""

import numpy as np
import pandas as pd

from embscale.scoring import scores

QUERIES = 200
SHARED = dict.fromkeys(("run", "step", "variant_dims", "seed", "width"), scores.NONE) | {
    "variant": "full",
    "strength": float(scores.NONE),
    "pooling": "mean",
    "special_tokens": "exclude",
    "task": "SCIDOCS",
    "length": "all",
    "metric": "ndcg_at_10",
    "tokenizer_sha256": "t",
    "data_sha256": "d",
    "heldout": False,
}


def rows(mean, *, noise=0.02, queries=QUERIES, salt=0, **cells):
    """Scores of one table: of exactly this mean, each query with noise of its own."""
    name = repr(sorted(cells.items())) + str(salt)
    generator = np.random.default_rng(list(name.encode()))
    drawn = generator.normal(0, noise, size=queries)
    frame = pd.DataFrame({"query": [f"q{i:03}" for i in range(queries)], "cluster": range(queries)})
    frame["score"] = mean + drawn - drawn.mean()
    return frame.assign(**{**SHARED, "table_sha256": name, **cells})


RUNS = (-1, 1)  # few, so that the orders of runs are few


def suite(name, means, *, dims, tokenizer="tok", names=None, spread=0.0001, runs=RUNS, **cells):
    """Tables of several training runs, whose scores lie `spread` apart."""
    models = names or [f"{name}-{dim}" for dim in dims]
    return [
        rows(mean + spread * run, suite=name, model=model, dim=dim, tokenizer=tokenizer, run=2 + run, **cells)
        for model, mean, dim in zip(models, means, dims, strict=True)
        for run in runs
    ]


def randoms(means, *, dims, tokenizer="tok", seeds=(1, 2), **cells):
    shared = {"suite": "random", "model": "random", "variant": "random", "tokenizer": tokenizer, **cells}
    return [
        rows(mean, dim=dim, variant_dims=dim, seed=seed, **shared)
        for mean, dim in zip(means, dims, strict=True)
        for seed in seeds
    ]


def chance(**cells):
    """A random ranking scores 0.001."""
    shared = {"suite": "reference", "model": "chance", "variant": "chance", "dim": scores.NONE, "tokenizer": "tok"}
    return rows(0.001, noise=0.0001, **shared | cells)
