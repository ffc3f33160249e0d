"""What the explorer's script is given: tidy rows column by column, with every word stored once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.plotting import theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import metric_label
from embscale.rows.selection import is_last_checkpoint

SCORE_COLUMNS = (
    "suite", "model", "run", "step", "tokenizer", "variant", "variant_dims", "strength", "seed", "dim", "width",
    "pooling", "special_tokens", "task", "length", "metric", "table_sha256", "tokenizer_sha256", "data_sha256",
    "value", "ci_low", "ci_high", "n",
)  # fmt: skip
# Variants that are shown at first.
FIRST_VARIANTS = ("full", "crop", "pad", "pad_rms", "shuffled")
# Suites whose rows belong to no model.
RANDOM, REFERENCE = "random", "reference"

FACT_COLUMNS = ("suite", "model", "rows", "dims")
PARAMETERS = "parameters"

# Columns that distinguish rows about layers; a column that a file lacks is not offered as a choice.
LAYER_KEYS = ("suite", "model", "step", "texts", "trained_on", "classifier", "split", "input", "control")
POINT_COLUMNS = (
    "suite", "model", "step", "reduction", "scaling", "layers", "layer", "layer_index", "text", "position", "token",
    "x", "y", "explained1", "explained2", "trustworthiness",
)  # fmt: skip
CONFUSION_COLUMNS = ("suite", "model", "step", "true_layer", "predicted_layer", "count")
LAYER_COLUMNS = ("suite", "model", "step", "classifier", "seed", "layer", "metric", "value", "ci_low", "ci_high", "n")
ALL_SEEDS = "all"

DIGITS = 6  # significant ones of a number: more than any interval here is narrow
POINT_DIGITS = 4  # of a place in a picture
DIGEST_LENGTH = 12  # hexadecimal digits shown of a digest, as in the report

# Shades from the first layer to the last.  Dark ones would vanish on a dark page, pale ones on a light page.
SHADES = {"light": (0.0, 0.86), "dark": (0.42, 1.0)}
SHADE_STEPS = 64
# The plotting library's names of matplotlib's markers.
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "*": "star",
    "X": "x",
}

Columns = dict[str, dict[str, list[Any]]]


def columns(rows: pd.DataFrame, *, digits: int) -> Columns:
    """The columns of a table: numbers as they are, words as places in a list of words, nothing as None.

    A column whose value stays the same for many rows is encoded by its runs: place in the list, number of rows, and so
    on.
    """
    return {str(name): _column(rows[name], digits) for name in rows}


def _column(values: pd.Series, digits: int) -> dict[str, list[Any]]:
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    words = values if pd.api.types.is_bool_dtype(values) or numeric else values.fillna("").astype(str)
    codes, found = pd.factorize(words, use_na_sentinel=False)
    levels = [_number(value, digits) for value in found.astype(float)] if numeric else found.tolist()
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if 2 * len(starts) < len(codes):
        lengths = np.diff(starts, append=len(codes))
        return {"levels": levels, "runs": np.column_stack([codes[starts], lengths]).ravel().tolist()}
    if numeric:
        return {"values": [_number(value, digits) for value in values.astype(float)]}
    return {"levels": levels, "codes": codes.tolist()}


def _number(value: float, digits: int) -> float | None:
    """The shortest form that JSON has for a number; whole ones keep all their digits."""
    if not np.isfinite(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.{digits}g}")


def scores(rows: pd.DataFrame, *, first_metric: str, length: str) -> dict[str, Any]:
    """Score rows, with what a plot needs beside them.

    Of a model with several training runs the first is taken, so that a model has one point; the report has the means
    over runs.

    Args:
        rows: columns `SCORE_COLUMNS`.
        first_metric: the one that is shown at first.
        length: of documents; rows of other lengths are left out.

    Returns:
        The rows with the columns ``label`` (the variant as the parameters write it) and ``last`` (whether the row is
        of the model's last checkpoint; one whose step is not known is the last); the metrics by their readers' names;
        what is shown at first.

    Raises:
        EmbscaleError: no row has the first metric.
    """
    if first_metric not in set(rows["metric"]):
        raise EmbscaleError(
            f"no score by the metric {first_metric!r}; there are {', '.join(sorted(set(rows['metric'])))}"
        )
    first_run = rows.groupby(["suite", "model"])["run"].transform("min")
    rows = rows.loc[(rows["length"].astype(str) == length) & (rows["run"].isna() | (rows["run"] == first_run))]
    rows = rows[list(SCORE_COLUMNS)].reset_index(drop=True)
    if rows.empty:
        raise EmbscaleError(f"no score of documents of the length {length!r}; score with it first")
    digests = {name: rows[name].astype(str).str[:DIGEST_LENGTH] for name in rows if str(name).endswith("_sha256")}
    described = rows.assign(label=variant_labels(rows), last=is_last_checkpoint(rows), **digests)
    models = described[~described["suite"].isin([RANDOM, REFERENCE])]
    # The variants of the report's first figure; with several suites they would be too many lines.
    first = ["full"] if len(set(models["suite"])) > 1 else list(FIRST_VARIANTS)
    return {
        "count": len(rows),
        "columns": columns(described, digits=DIGITS),
        "metrics": {str(name): metric_label(group) for name, group in rows.groupby("metric")},
        "first_metric": first_metric,
        "first_variants": [
            label for kind in first for label in models.loc[models["variant"] == kind, "label"].drop_duplicates()
        ],
    }


def variant_labels(rows: pd.DataFrame) -> pd.Series:
    """Variants as the parameters write them, such as ``pad:512:42``: kind, columns, strength, seed."""
    numbers = [
        rows[name].astype(float).map(lambda value: "" if np.isnan(value) else f":{value:.12g}")
        for name in ("variant_dims", "strength", "seed")
    ]
    return rows["variant"].astype(str).str.cat(numbers)


def facts(rows: pd.DataFrame) -> dict[str, Any]:
    """Parameters of each model and the share of them that is in its table, where both are known.

    Args:
        rows: columns `FACT_COLUMNS`, and ``parameters`` where a file has it; a row for each checkpoint.
    """
    known = rows.reindex(columns=[*FACT_COLUMNS, PARAMETERS]).drop_duplicates(["suite", "model"])
    share = known["rows"].astype(float) * known["dims"].astype(float) / known[PARAMETERS].astype(float)
    complete_rows = known[["suite", "model", PARAMETERS]].assign(table_share=share).dropna()
    return {"count": len(complete_rows), "columns": columns(complete_rows, digits=DIGITS)}


def points(rows: pd.DataFrame, tokens: Mapping[str, Callable[[int], str]]) -> dict[str, Any]:
    """Hidden states on a plane.

    Args:
        rows: columns `POINT_COLUMNS`, and those of `LAYER_KEYS` that there are.
        tokens: for a suite, what turns the number of a token into its text; other suites' tokens stay numbers.
    """
    kept = rows[[name for name in rows if name in {*POINT_COLUMNS, *LAYER_KEYS}]]
    distinct = kept[["suite", "token"]].drop_duplicates()
    texts = [
        tokens[suite](int(token)) if suite in tokens else f"token {token}"
        for suite, token in distinct.itertuples(index=False)
    ]
    spelled = kept.merge(distinct.assign(spelled=texts), on=["suite", "token"], how="left", validate="many_to_one")
    return {
        "count": len(kept),
        "columns": columns(spelled.drop(columns="token").rename(columns={"spelled": "token"}), digits=POINT_DIGITS),
    }


def confusion(rows: pd.DataFrame) -> dict[str, Any]:
    """How often a vector of one layer was taken for another, all seeds together.

    Args:
        rows: columns `CONFUSION_COLUMNS`, and those of `LAYER_KEYS` that there are.

    Returns:
        A row for each classifier; with it the layers and, for each layer, what its vectors were taken for.
    """
    keys = [name for name in LAYER_KEYS if name in rows]
    found, layers, counts = [], [], []
    for key, group in rows.groupby(keys, sort=False, dropna=False):
        names = group["true_layer"].unique().tolist()
        table = group.groupby(["true_layer", "predicted_layer"])["count"].sum().unstack(fill_value=0)
        found.append(key)
        layers.append(names)
        counts.append(table.reindex(index=names, columns=names, fill_value=0).to_numpy().tolist())
    described = pd.DataFrame(found, columns=keys).astype({"step": float})
    return {"count": len(found), "columns": columns(described, digits=DIGITS), "layers": layers, "counts": counts}


def accuracies(rows: pd.DataFrame) -> dict[str, Any]:
    """What each classifier reached over all layers and all seeds; columns `LAYER_COLUMNS` and `LAYER_KEYS`."""
    whole = rows[(rows["seed"].astype(str) == ALL_SEEDS) & rows["layer"].isna()]
    kept = whole[[name for name in rows if name in {*LAYER_COLUMNS, *LAYER_KEYS}]].drop(columns=["seed", "layer"])
    return {"count": len(kept), "columns": columns(kept, digits=DIGITS)}


def design() -> dict[str, Any]:
    """Colours and markers of the report's figures."""
    places = {name: np.linspace(low, high, SHADE_STEPS) for name, (low, high) in SHADES.items()}
    shades = {
        name: [matplotlib.colors.to_hex(colour) for colour in matplotlib.colormaps["viridis"](where)]
        for name, where in places.items()
    }
    return {"colours": theme.CATEGORIES, "symbols": [SYMBOLS[marker] for marker in MARKERS], "shades": shades}
