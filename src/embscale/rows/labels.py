"""Names of metrics, models and variants, and formats of numbers, in figures, tables and text."""

from __future__ import annotations

import pandas as pd

from embscale.rows.selection import LADDER

NOT_RUN = "not run"
PERCENT = 100  # scores and shares are shown from 0 to 100, as in the literature

VARIANT_NAMES = {
    "full": "trained table",
    "crop": "cropped",
    "pad": "padded",
    "pad_rms": "padded, same scale",
    "random": "random tables",
}
# Suites that a study trains itself.
SUITE_NAMES = {
    LADDER: "language model",
    "ppmi-svd": "SVD of PPMI",
    "skip-gram": "skip-gram",
    "fasttext": "fastText",
    "cbow": "CBOW",
    "glove": "GloVe",
}


def metric_label(rows: pd.DataFrame) -> str:
    """The metric as readers know it: ``nDCG@10 × 100`` for ``ndcg_at_10``."""
    name = str(rows["metric"].iloc[0]).replace("_at_", "@").replace("ndcg", "nDCG").replace("map", "MAP")
    return f"{name} × 100"


def interval(row: pd.Series, *, digits: int = 2) -> str:
    """``1.23 [1.10, 1.35]``, times 100."""
    value, low, high = (f"{row[name] * PERCENT:.{digits}f}" for name in ("value", "ci_low", "ci_high"))
    return f"{value} [{low}, {high}]"


def short_names(rows: pd.DataFrame) -> dict[str, str]:
    """Models in the order of the rows, without the suite's name: ``w64`` for ``ladder-w64``."""
    pairs = rows[["suite", "model"]].drop_duplicates()
    return {model: model.removeprefix(f"{suite}-") for suite, model in pairs.itertuples(index=False)}


def ordered_suites(rows: pd.DataFrame) -> list[str]:
    """The suites of the rows, those that a study trains itself first."""
    suites = list(dict.fromkeys(rows["suite"]))
    return [suite for suite in SUITE_NAMES if suite in suites] + [suite for suite in suites if suite not in SUITE_NAMES]
