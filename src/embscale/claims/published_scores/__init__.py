"""The studies' own numbers, as they published or printed them, and which of them are wrong.

``corey2024.csv`` repeats numbers of github.com/jstephencorey/LMEmbeddingAnalysis (Joseph Corey, 2024, Apache-2.0): the
files under ``data/`` and the printed outputs of its plotting notebook, at the commits in `SOURCES`.  Names of models
and variants are this project's; scores are on the study's scale of 0 to 100, rounded to its three decimals.

| column | means |
|---|---|
| ``suite``, ``model`` | as in ``workflow/suites.yaml``; both ``random`` for the baselines by tokenizer |
| ``published_name`` | what the study calls it |
| ``tokenizer`` | name of the tokenizer |
| ``dims`` | columns of the model's table |
| ``variant``, ``variant_dims``, ``seed`` | as in ``scores.csv``: its ``full``, ``crop_128``, ``pad_N``, ``random_xn`` |
| ``task``, ``metric``, ``value`` | of MTEB; ``value`` from 0 to 100 |
| ``valid``, ``reason`` | false with the reason where the number is known to be wrong |
| ``source`` | a key of `SOURCES` |

``huang2024.csv`` repeats accuracies of github.com/SproutNan/LLM_layerclassifier (Huang, Wu, Li and Zhan, 2024; no
licence is stated, the file holds facts alone), to six decimals.  All are of the study's own protocol: a linear softmax
fitted by stochastic gradient descent, vectors split at random.

| column | means |
|---|---|
| ``suite``, ``model`` | as in ``workflow/suites.yaml`` |
| ``trained_on``, ``texts`` | on what it was fitted and tested: ``imdb``, ``ag_news``, ``pile``, ``pile_ascii`` |
| ``tokens``, ``texts_count`` | first tokens of each text, and texts |
| ``n_layers`` | layers to distinguish; on the Pile the blocks' outputs alone |
| ``input`` | ``raw``, or ``normalized``, by which the study does not say what it means |
| ``control`` | ``none``, or ``study_random``: random positive vectors as long as those of the layer |
| ``masked`` | dimensions set to zero when testing |
| ``value`` | share of vectors whose layer is named correctly, after the last epoch |
| ``source`` | a key of `LAYER_SOURCES` |

``references.csv`` repeats scores of retrieval systems of other kinds (``kind``: a general-purpose text encoder, a
static table, a lexical baseline) from MTEB's results repository, github.com/embeddings-benchmark/results, of the data
at the ``revision``; ``value`` from 0 to 100.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from embscale.claims.published_cells import RENAMED
from embscale.errors import EmbscaleError
from embscale.rows import tidy
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import last_checkpoint
from embscale.scoring.scores import NONE

FILE = Path(__file__).with_name("corey2024.csv")
SCALE = 100  # the study's scores run from 0 to 100

REPOSITORY = "https://github.com/jstephencorey/LMEmbeddingAnalysis"
NOTEBOOK = "notebooks/Data Analysis and Plotting.ipynb, printed output"
SOURCES = {
    "suites-ndcg": ("data/, scores of the suites, nDCG@10", "cee8cdb"),
    "suites-map": ("data/, scores of the suites, MAP@100", "86f05a0"),
    "random-ndcg": ("data/, random tables by tokenizer, nDCG@10", "cee8cdb"),
    "random-map": ("data/, random tables by tokenizer, MAP@100", "0f43148"),
    # Written after the crop branch was mended in the same commit.
    "notebook-pythia": (NOTEBOOK, "68b943c"),
    # Both from before the crop branch broke.
    "notebook-pythia-map": (NOTEBOOK, "5e2db4e"),
    "notebook-nfcorpus": (NOTEBOOK, "5e2db4e"),
    "notebook-opt": (NOTEBOOK, "2ac5445"),
}

REFERENCES_FILE = Path(__file__).with_name("references.csv")

LAYERS_FILE = Path(__file__).with_name("huang2024.csv")
LAYERS_REPOSITORY = "https://github.com/SproutNan/LLM_layerclassifier"
LAYER_SOURCES = {
    "grid": ("_untracked/data_classifier_ok.txt", "b39f010"),
    "pile": ("result/*.json, accuracy at epoch 990", "b39f010"),
    "notebooks": ("_untracked/*.ipynb, printed output", "b39f010"),
}


def load() -> pd.DataFrame:
    """Every published score, ``value`` from 0 to 1 as in ``scores.csv``; of each suite the narrowest model first."""
    numbers = ["variant_dims", "seed"]
    rows = _read(FILE).astype(dict.fromkeys(numbers, "Int64"))
    return rows.assign(value=rows["value"] / SCALE)


def huang() -> pd.DataFrame:
    """Every published accuracy of a layer classifier, ``value`` from 0 to 1."""
    return _read(LAYERS_FILE)


def references() -> pd.DataFrame:
    """Published scores of systems of other kinds, as marks to compare with; ``value`` from 0 to 1."""
    rows = _read(REFERENCES_FILE)
    return rows.assign(value=rows["value"] / SCALE)


def _read(path: Path) -> pd.DataFrame:
    """Rows whose words are never missing, but empty."""
    rows = tidy.load(path, names=("masked", "reason"))
    return rows.assign(**{name: rows[name].fillna("") for name in rows if pd.api.types.is_string_dtype(rows[name])})


def suites(rows: pd.DataFrame) -> dict[str, list[str]]:
    """The study's models by suite, from narrow to wide."""
    models = rows[rows["suite"] != "random"].drop_duplicates("model")
    return {str(suite): list(group["model"]) for suite, group in models.groupby("suite", sort=False)}


COMPARISON = [
    "suite", "model", "tokenizer", "variant", "variant_dims", "seed", "dims", "task", "metric", "ours", "ci_low",
    "ci_high", "n", "published", "difference", "inside", "valid", "remark",
]  # fmt: skip

# Our ways of doing what the study calls pad_N and random_xn, the closest first: those repeat its random numbers.
PADS = ("pad_faithful_legacy", "pad", "pad_faithful_current")
RANDOMS = ("random_legacy", "random", "random_current")


def compare(rows: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Our scores beside the published ones, for every model, or tokenizer of random tables, that was scored.

    Args:
        rows: of ``scores.csv``, one way of scoring.
        printed: from `load`.

    Returns:
        Columns `COMPARISON`; scores from 0 to 1; ``inside`` says whether the published score lies in our interval.

    Raises:
        EmbscaleError: two of our scores answer to one published score.
    """
    keys = ["owner", "variant", "variant_dims", "seed", "task", "metric"]
    # The study scored whole documents.
    ours = _owned(_closest(_numbered(last_checkpoint(rows[rows["length"] == "all"]))))
    ours = ours[ours["owner"].isin({*_owned(printed)["owner"], *RENAMED.values()})]
    twice = ours.duplicated(keys)
    if twice.any():
        first = ours[twice].iloc[0]
        raise EmbscaleError(
            f"{first['model']} has several scores as {first['variant']} on {first['task']}; choose one way of scoring "
            "with --where (such as --where special_tokens=include --where pooling=mean)"
        )
    now = printed["model"].map(RENAMED)
    renamed = now.isin(set(ours["owner"]))
    theirs = _owned(_numbered(printed).assign(model=now.where(renamed, printed["model"])))
    theirs["remark"] = printed["reason"]
    changed = printed["model"].isin(RENAMED) & ~renamed & (printed["variant"] != "random")
    theirs.loc[changed & (theirs["remark"] == ""), "remark"] = "the study's weights have another name now: " + now
    columns = [*keys, "value", "ci_low", "ci_high", "n"]
    both = theirs.rename(columns={"value": "published"}).merge(
        ours[columns].rename(columns={"value": "ours"}), on=keys, how="inner"
    )
    numbers = ["variant_dims", "seed"]
    both[numbers] = both[numbers].astype("Int64").mask(both[numbers] == NONE)
    both["difference"] = both["ours"] - both["published"]
    both["inside"] = both["published"].between(both["ci_low"], both["ci_high"])
    return both[COMPARISON]


def _closest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that can answer to a published score; of several ways of doing the same only the study's closest."""
    ways = {"full": ("full",), "crop": ("crop",), "pad": PADS, "random": RANDOMS}
    known = {name: (word, rank) for word, names in ways.items() for rank, name in enumerate(names)}
    rows = rows[rows["variant"].isin(known)]
    rows = rows.assign(rank=rows["variant"].map(lambda name: known[name][1]))
    rows = rows.assign(variant=rows["variant"].map(lambda name: known[name][0]))
    same = ["model", "tokenizer", "variant", "variant_dims", "seed", "task", "metric"]
    return rows[rows["rank"] == rows.groupby(same, dropna=False)["rank"].transform("min")].drop(columns="rank")


def _numbered(rows: pd.DataFrame) -> pd.DataFrame:
    """Empty numbers filled, so that they can be compared."""
    numbers = ("variant_dims", "seed")
    return rows.assign(
        **{name: pd.to_numeric(rows[name]).astype("Float64").fillna(NONE).astype(int) for name in numbers}
    )


def _owned(rows: pd.DataFrame) -> pd.DataFrame:
    """With ``owner``: the model, of random tables the tokenizer."""
    return rows.assign(owner=rows["model"].where(rows["variant"] != "random", rows["tokenizer"]))


def comparison_table(rows: pd.DataFrame) -> str:
    """Markdown rows of `compare`, on the study's scale; a sentence where there are none."""
    if rows.empty:
        return (
            "No model or tokenizer of the first study was scored on its tasks here, so the comparison with its "
            "published scores was **not run**.\n"
        )
    lines = [["table", "variant", "task", "metric", "ours", "published", "difference", "inside the interval"]]
    for row in rows.itertuples(index=False):
        words = [row.variant, *(str(number) for number in (row.variant_dims, row.seed) if not pd.isna(number))]
        interval = f"{row.ours * SCALE:.2f} [{row.ci_low * SCALE:.2f}, {row.ci_high * SCALE:.2f}]"
        said = f"{row.published * SCALE:.2f}" + ("" if row.valid else " (wrong)")
        name = row.tokenizer if row.suite == "random" else row.model
        difference, inside = f"{row.difference * SCALE:+.2f}", "yes" if row.inside else "no"
        lines.append(
            [escape(name), escape(":".join(words)), escape(row.task), row.metric, interval, said, difference, inside]
        )
    sound = rows[rows["valid"]]
    after = [
        f"{int(sound['inside'].sum())} of {len(sound)} published scores lie inside our 95 % interval over queries."
    ]
    after += [f"Wrong: {reason}." for reason in rows.loc[~rows["valid"], "remark"].unique()]
    after += [
        f"{row.model}: {row.remark}." for row in sound[sound["remark"] != ""].drop_duplicates("model").itertuples()
    ]
    return markdown_table(lines) + "".join(f"\n{sentence}\n" for sentence in after)


# What makes a run of ours the same as one of the second study's.
SAME_RUN = ["model", "trained_on", "texts", "tokens", "texts_count", "n_layers", "input", "control"]
LAYER_COMPARISON = ["suite", *SAME_RUN, "ours", "ci_low", "ci_high", "n", "published", "difference", "inside"]


def compare_layers(rows: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Our accuracies by the second study's protocol beside its own, for every run that both have.

    Args:
        rows: of `embscale.layers.probes`; those of other classifiers, splits and metrics are passed over.
        printed: from `huang`.

    Returns:
        Columns `LAYER_COMPARISON`; ``inside`` says whether the published accuracy lies in our interval.

    Raises:
        EmbscaleError: two of our accuracies answer to one published one.
    """
    chosen = {"classifier": "sgd", "split": "vector", "metric": "accuracy", "seed": "all", "design": "as_published"}
    for column, value in chosen.items():
        if column in rows.columns:  # only the grid distinguishes designs
            rows = rows[rows[column].astype(str) == value]
    twice = rows.duplicated(SAME_RUN)
    if twice.any():
        first = rows[twice].iloc[0]
        raise EmbscaleError(
            f"{first['model']} has several accuracies on {first['texts_count']} texts of {first['tokens']} tokens of "
            f"{first['texts']}; keep those of one step"
        )
    theirs = printed[printed["masked"] == ""].drop(columns=["masked", "source"]).rename(columns={"value": "published"})
    numbers = ["tokens", "texts_count", "n_layers"]
    ours = rows[[*SAME_RUN, "value", "ci_low", "ci_high", "n"]].rename(columns={"value": "ours"})
    both = theirs.merge(ours.astype(dict.fromkeys(numbers, "int64")), on=SAME_RUN, how="inner")
    both["difference"] = both["ours"] - both["published"]
    both["inside"] = both["published"].between(both["ci_low"], both["ci_high"])
    return both[LAYER_COMPARISON]


def layer_comparison_table(rows: pd.DataFrame) -> str:
    """Markdown rows of `compare_layers`, in percent; a sentence where there are none."""
    if rows.empty:
        return (
            "No GPT-2 or Llama-2 on the second study's texts, windows and numbers of texts is part of this study, so "
            "the comparison with its published accuracies was **not run**.\n"
        )
    lines = [["model", "trained on", "tested on", "tokens", "texts", "input", "ours, %", "published, %", "difference"]]
    for row in rows.itertuples(index=False):
        interval = f"{row.ours * SCALE:.1f} [{row.ci_low * SCALE:.1f}, {row.ci_high * SCALE:.1f}]"
        names = [escape(name) for name in (row.model, row.trained_on, row.texts)]
        counts = [str(row.tokens), f"{row.texts_count:,}", row.input]
        lines.append([*names, *counts, interval, f"{row.published * SCALE:.1f}", f"{row.difference * SCALE:+.1f}"])
    after = f"{int(rows['inside'].sum())} of {len(rows)} published accuracies lie inside our 95 % interval over texts."
    return f"{markdown_table(lines)}\n{after}\n"
