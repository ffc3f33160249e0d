"""Names of metrics, models and variants, and formats of numbers, in figures, tables and text."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from embscale.rows.selection import LADDER, VARIATION

NOT_RUN = "not run"
PERCENT = 100  # scores and shares are shown from 0 to 100, as in the literature

# What is done to a table, by the kind of its treatment.
TREATMENT_NAMES = {
    "full": "as it is",
    "unit": "rows of norm 1",
    "centred": "mean subtracted",
    "all_but_top": "top directions removed",
    "whitened": "whitened",
    "sif": "weighted by rarity (SIF)",
    "idf": "weighted by rarity (idf)",
    "crop": "first columns",
    "crop_random": "columns at random",
    "crop_pca": "principal directions",
    "pad": "padded at the first study's scale",
    "pad_rms": "padded at its own scale",
}
REFERENCE_NAMES = {"bm25": "BM25", "overlap_idf": "token overlap, idf", "overlap": "token overlap", "chance": "chance"}
# Suites that a study trains itself.
SUITE_NAMES = {
    LADDER: "language model",
    "ppmi-svd": "SVD of PPMI",
    "skip-gram": "skip-gram",
    "fasttext": "fastText",
    "cbow": "CBOW",
    "glove": "GloVe",
}


def trained_here(suites: pd.Series) -> pd.Series:
    """Whether each suite is one that a study trains itself; variations of the ladder have names of their own."""
    return suites.isin(list(SUITE_NAMES)) | suites.str.startswith(VARIATION)


def metric_label(rows: pd.DataFrame) -> str:
    """The metric as readers know it: ``nDCG@10 × 100`` for ``ndcg_at_10``."""
    name = str(rows["metric"].iloc[0]).replace("_at_", "@").replace("ndcg", "nDCG").replace("map", "MAP")
    return f"{name} × 100"


def interval(row: pd.Series, *, digits: int = 2, signed: bool = False) -> str:
    """``1.23 [1.10, 1.35]``, times 100, with signs if it is a difference; without an interval, the value alone."""
    form = f"{'+' if signed else ''}.{digits}f"
    value, low, high = (f"{row[name] * PERCENT:{form}}".replace("-", "−") for name in ("value", "ci_low", "ci_high"))
    return value if pd.isna(row["ci_low"]) else f"{value} [{low}, {high}]"


def treatment_label(treatment: str) -> str:
    """A treatment as readers know it: ``first columns: 16`` for ``crop:16``."""
    kind, _, numbers = treatment.partition(":")
    name = TREATMENT_NAMES.get(kind, kind)
    # A weight or a seed tells a reader nothing; how many columns does.
    return f"{name}: {numbers.partition(':')[0]}" if kind.startswith(("crop", "pad")) and numbers else name


def length_label(length: str) -> str:
    """How much of each document is scored: ``first 64 tokens``."""
    return "whole documents" if length == "all" else f"first {length} tokens"


def ordered_lengths(lengths: Iterable[str]) -> list[str]:
    """Lengths of documents, the shortest first and whole documents last."""
    return sorted(set(lengths), key=lambda length: (length == "all", int(length) if length.isdecimal() else 0))


def runs_label(runs: int) -> str:
    """``one run`` or ``3 runs``: over how many training runs a mean is."""
    return "one run" if runs == 1 else f"{runs} runs"


def short_names(rows: pd.DataFrame) -> dict[str, str]:
    """Models in the order of the rows, without the suite's name: ``w64`` for ``ladder-w64``."""
    pairs = rows[["suite", "model"]].drop_duplicates()
    return {model: model.removeprefix(f"{suite}-") for suite, model in pairs.itertuples(index=False)}


def ordered_suites(rows: pd.DataFrame) -> list[str]:
    """The suites of the rows, those that a study trains itself first."""
    suites = list(dict.fromkeys(rows["suite"]))
    return [suite for suite in SUITE_NAMES if suite in suites] + [suite for suite in suites if suite not in SUITE_NAMES]
