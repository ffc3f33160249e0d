"""Tidy rows for the explorer's tests: two suites, random tables, references, layers, and a name that attacks."""

from __future__ import annotations

import numpy as np
import pandas as pd

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"> **bold** [x](javascript:1)'
)
TASKS = ("Cats", "Dogs")
METRICS = ("ndcg_at_10", "map_at_100")
POOLINGS = ("include", "exclude")
LAYERS = ("embedding", "block 1", "block 2")
MODELS = {"wide": {"wide-16": 16, "wide-32": 32, "wide-64": 64}, "deep": {"deep-32": 32, HOSTILE: 64}}
VARIANTS = {"full": {}, "crop": {"variant_dims": 8}, "idf": {}, "pad": {"variant_dims": 512, "seed": 42}}
NOTHING = {"step": np.nan, "variant_dims": np.nan, "strength": np.nan, "seed": np.nan, "dim": np.nan, "width": np.nan}


def score_rows(models: dict[str, dict[str, int]] | None = None) -> pd.DataFrame:
    """Scores of every model and variant; those of the suite "wide" at two steps, the other's steps unknown."""
    kinds = []
    for suite, widths in (models or MODELS).items():
        for model, width in widths.items():
            own = {"suite": suite, "model": model, "tokenizer": f"{suite}-bpe", "width": width}
            for variant, given in VARIANTS.items():
                row = NOTHING | own | given | {"variant": variant, "dim": given.get("variant_dims", width)}
                kinds.append(row | {"step": 400 if suite == "wide" else np.nan})
            if suite == "wide":
                kinds.append(NOTHING | own | {"step": 0, "variant": "full", "dim": width})
    for tokenizer in ("wide-bpe", "deep-bpe"):
        random = {"suite": "random", "model": "random", "tokenizer": tokenizer}
        for variant in ("random", "random+idf"):
            kinds += [
                NOTHING | random | {"variant": variant, "dim": dim, "width": dim, "seed": seed}
                for dim in (16, 32, 64, 128)
                for seed in (1, 2, 3)
            ]
        kinds.append(NOTHING | random | {"suite": "reference", "model": "bm25", "variant": "bm25"})
    rows = pd.DataFrame(kinds).merge(pd.DataFrame({"task": TASKS}), how="cross")
    rows = rows.merge(pd.DataFrame({"metric": METRICS}), how="cross")
    rows = rows.merge(pd.DataFrame({"special_tokens": POOLINGS}), how="cross")
    value = np.random.default_rng(0).uniform(0.05, 0.4, len(rows))
    digests = dict.fromkeys(("table_sha256", "tokenizer_sha256", "data_sha256"), "0123456789abcdef" * 4)
    return rows.assign(
        pooling="mean",
        run=np.nan,
        length="64",
        value=value,
        ci_low=value - 0.01,
        ci_high=value + 0.02,
        n=120,
        **digests,
    )


KEYS = ["suite", "model", "step", "width", "table", "treatment", "dim", "tokenizer", "pooling", "special_tokens"]
KEYS += ["task", "length", "metric"]
TOKENS = {0: 0, 400: 409_600}


def estimate_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """The means of score rows, of which each model has one; random tables have one for each seed."""
    parts = scores["variant"].str.split("+", expand=True).reindex(columns=[0, 1])
    other = parts[0].isin(["random", "shuffled"])
    table = parts[0].where(other, "input").mask(scores["suite"] == "reference", "reference")
    treatment = parts[1].fillna("full").where(other, scores["variant"])
    numbered = scores["variant_dims"].map(lambda dims: "" if np.isnan(dims) else f":{dims:g}")
    rows = scores.assign(table=table, treatment=treatment + numbered, queries="all", clusters=100)
    values = {name: (name, "mean") for name in ("value", "ci_low", "ci_high")}
    groups = rows.groupby([*KEYS, "queries"], dropna=False, sort=False)
    return groups.agg(**values, runs=("value", "size"), n=("n", "first"), clusters=("clusters", "first")).reset_index()


def difference_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """The same less random tables of the same tokenizer and width, where they went through the same treatment."""
    rows = estimate_rows(scores)
    same = ["width", "treatment", "tokenizer", "special_tokens", "task", "metric"]
    random = rows[rows["table"] == "random"][[*same, "value", "runs"]]
    random = random.rename(columns={"value": "control_score", "runs": "control_runs"})
    pairs = rows[rows["table"] == "input"].merge(random, on=same)
    less = {name: pairs[name] - pairs["control_score"] for name in ("value", "ci_low", "ci_high")}
    return pairs.assign(score=pairs["value"], **less, against="random", p=0.04)


def curve_rows() -> pd.DataFrame:
    """Tokens at the two steps of the suite "wide"."""
    models = pd.DataFrame({"suite": "wide", "model": list(MODELS["wide"])})
    return models.merge(pd.DataFrame({"step": list(TOKENS), "tokens": list(TOKENS.values())}), how="cross")


def fact_rows() -> pd.DataFrame:
    """Rows, columns and parameters of every model; those of the one with the hostile name are not known."""
    rows = [
        {"suite": suite, "model": model, "rows": 1000, "dims": width, "parameters": 1000 * width + 12 * width**2}
        for suite, widths in MODELS.items()
        for model, width in widths.items()
    ]
    return pd.DataFrame(rows).assign(parameters=lambda f: f["parameters"].mask(f["model"] == HOSTILE))


def _cases() -> pd.DataFrame:
    cases = [("wide", "wide-16", 400.0, 16), ("wide", "wide-64", 400.0, 64), ("deep", HOSTILE, np.nan, 64)]
    keys = pd.DataFrame(cases, columns=["suite", "model", "step", "width"])
    return keys.assign(texts="news", tokens=8, texts_count=5)


def point_rows() -> pd.DataFrame:
    """Eight vectors of every layer, reduced in two ways; t-SNE was not run for the last model."""
    rows = _cases().merge(pd.DataFrame({"reduction": ["pca", "tsne"]}), how="cross")
    rows = rows[(rows["reduction"] == "pca") | (rows["suite"] == "wide")]
    rows = rows.merge(pd.DataFrame({"scaling": ["raw", "unit"]}), how="cross")
    rows = rows.merge(pd.DataFrame({"layers": ["all", "blocks"]}), how="cross")
    rows = rows.merge(pd.DataFrame({"layer": LAYERS, "layer_index": range(len(LAYERS))}), how="cross")
    rows = rows[(rows["layers"] == "all") | (rows["layer_index"] > 0)]
    rows = rows.merge(pd.DataFrame({"text": 0, "position": range(8), "token": [5, 6, 7, 8, 5, 6, 7, 9]}), how="cross")
    x, y = np.random.default_rng(1).normal(size=(2, len(rows)))
    pca = rows["reduction"] == "pca"
    share = {
        name: pd.Series(value, rows.index).where(pca) for name, value in (("explained1", 0.5), ("explained2", 0.2))
    }
    return rows.assign(x=x, y=y, trustworthiness=0.87, **share)


def confusion_rows() -> pd.DataFrame:
    """Counts of two classifiers on two splits."""
    rows = _cases().assign(trained_on="news", input="raw", control="none")
    rows = rows.merge(pd.DataFrame({"classifier": ["logistic_regression", "lda"]}), how="cross")
    rows = rows.merge(pd.DataFrame({"split": ["text", "vector"], "seed": 1}), how="cross")
    rows = pd.concat([rows, rows[rows["classifier"] == "lda"].assign(control="gaussian")])
    rows = pd.concat([rows, rows.assign(seed=2)])
    rows = rows.merge(pd.DataFrame({"true_layer": LAYERS}), how="cross")
    rows = rows.merge(pd.DataFrame({"predicted_layer": LAYERS}), how="cross")
    return rows.assign(count=np.random.default_rng(2).integers(1, 50, len(rows)))


def accuracy_rows() -> pd.DataFrame:
    """What the classifiers reached: two seeds and all, over all layers and for one."""
    rows = _cases().assign(trained_on="news", input="raw", control="none", n=1200)
    rows = rows.merge(pd.DataFrame({"classifier": ["logistic_regression", "lda"]}), how="cross")
    rows = rows.merge(pd.DataFrame({"split": ["text", "vector"]}), how="cross")
    rows = rows.merge(pd.DataFrame({"seed": ["1", "2", "all"]}), how="cross")
    metrics = pd.DataFrame({"metric": ["chance", "accuracy", "recall"], "layer": [None, None, "block 1"]})
    rows = rows.merge(metrics, how="cross")
    value = np.random.default_rng(3).uniform(0.2, 0.9, len(rows))
    return rows.assign(value=value, ci_low=value - 0.05, ci_high=value + 0.05)


def query_rows() -> pd.DataFrame:
    """Queries of the suite "wide" on one task, two that gain and one that loses; the last has a name that attacks."""
    models = pd.DataFrame({"suite": "wide", "model": list(MODELS["wide"]), "width": list(MODELS["wide"].values())})
    queries = pd.DataFrame(
        {
            "change": ["gain", "gain", "loss"],
            "rank": [1, 2, 1],
            "query": ["q7", "q2", "q5"],
            "text": ["how cats purr", "=cats", HOSTILE],
            "score": [0.8, 0.5, 0.1],
            "control_score": [0.2, 0.4, 0.4],
        }
    )
    rows = models.merge(queries, how="cross").assign(task="Cats", metric="ndcg_at_10", tokenizer="wide-bpe")
    rows = rows.assign(pooling="mean", special_tokens="exclude", runs=1, draws=3, n=120, higher=70, lower=40, equal=10)
    return rows.assign(difference=rows["score"] - rows["control_score"])
