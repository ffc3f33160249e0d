"""What the explorer's script is given: tidy rows column by column, with every word stored once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.plotting import tables, theme
from embscale.plotting.theme import MARKERS
from embscale.rows.labels import (
    REFERENCE_NAMES,
    SUITE_NAMES,
    TREATMENT_NAMES,
    interval,
    metric_label,
    ordered_suites,
    treatment_label,
)
from embscale.rows.selection import VARIATION, is_last_checkpoint, main_run
from embscale.rows.treatments import FULL, INPUT, RANDOM, REFERENCE, SHUFFLED, treatments

SCORE_COLUMNS = (
    "suite", "model", "run", "step", "tokenizer", "variant", "variant_dims", "strength", "seed", "dim", "width",
    "pooling", "special_tokens", "task", "length", "metric", "table_sha256", "tokenizer_sha256", "data_sha256",
    "value", "ci_low", "ci_high", "n",
)  # fmt: skip
# Means over training runs: scores, and what they are above random tables of the same width.
MEAN_COLUMNS = (
    "suite", "model", "step", "width", "table", "treatment", "dim", "tokenizer", "pooling", "special_tokens", "task",
    "length", "metric", "queries", "value", "ci_low", "ci_high", "runs", "n", "clusters",
)  # fmt: skip
DIFFERENCE_COLUMNS = (*MEAN_COLUMNS, "against", "score", "control_score", "control_runs", "p")
CURVE_COLUMNS = ("suite", "model", "step", "tokens")
ALL_QUERIES = "all"
SCORE, DIFFERENCE = "score", "difference"
# Shown at first of a study with one suite; with several they would be too many lines.
FIRST_VARIANTS = (FULL, SHUFFLED)
TABLE_NAMES = {SHUFFLED: "rows shuffled", "output": "output table", "effective": "effective table"}

FACT_COLUMNS = ("suite", "model", "rows", "dims")
PARAMETERS = "parameters"

QUERY_COLUMNS = (
    "suite", "model", "width", "task", "metric", "tokenizer", "pooling", "special_tokens", "change", "rank", "query",
    "text", "score", "control_score", "difference", "runs", "draws", "n", "higher", "lower", "equal",
)  # fmt: skip
QUERY_LENGTH = 300  # characters shown of a query

# Columns that distinguish rows about layers; a column that a file lacks is not offered as a choice.
LAYER_KEYS = ("suite", "model", "step", "texts", "trained_on", "classifier", "split", "input", "control")
POINT_COLUMNS = (
    "suite", "model", "step", "reduction", "scaling", "layers", "layer", "layer_index", "text", "position", "token",
    "x", "y", "explained1", "explained2", "trustworthiness", "width",
)  # fmt: skip
CONFUSION_COLUMNS = ("suite", "model", "step", "true_layer", "predicted_layer", "count")
LAYER_COLUMNS = (
    "suite", "model", "step", "width", "classifier", "seed", "layer", "metric", "value", "ci_low", "ci_high", "n",
)  # fmt: skip
ALL_SEEDS = "all"

DIGITS = 6  # significant ones of a number: more than any interval here is narrow
POINT_DIGITS = 4  # of a place in a picture
DIGEST_LENGTH = 12  # hexadecimal digits shown of a digest, as in the report

# Shades from the first layer to the last.  Dark ones would vanish on a dark page, pale ones on a light page.
SHADES = {"light": (0.0, 0.86), "dark": (0.42, 1.0)}
SHADE_STEPS = 64
# The dark page (style.css) and its ink, and the contrast with it that a line needs to be seen.
DARK_PAGE, DARK_INK = "#15181c", "#e2e6ea"
LEAST_CONTRAST = 4.5
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
    """Score rows, each of one table of one training run: what the means are made from, and random tables by draw.

    Args:
        rows: columns `SCORE_COLUMNS`.
        first_metric: the one that is shown at first.
        length: of documents; rows of other lengths are left out.

    Returns:
        The rows with the columns ``table``, ``treatment`` and ``label`` (see `variant_keys`); the metrics by their
        readers' names.

    Raises:
        EmbscaleError: no row has the first metric, or the length.
    """
    if first_metric not in set(rows["metric"]):
        raise EmbscaleError(
            f"no score by the metric {first_metric!r}; there are {', '.join(sorted(set(rows['metric'])))}"
        )
    rows = of_length(rows, length)[list(SCORE_COLUMNS)].reset_index(drop=True)
    digests = {name: rows[name].astype(str).str[:DIGEST_LENGTH] for name in rows if str(name).endswith("_sha256")}
    described = treatments(rows.assign(**digests))
    described = described.assign(label=variant_keys(described))
    return {
        "count": len(rows),
        "columns": columns(described, digits=DIGITS),
        "metrics": {str(name): metric_label(group) for name, group in rows.groupby("metric")},
        "first_metric": first_metric,
    }


def of_length(rows: pd.DataFrame, length: str) -> pd.DataFrame:
    """The scores of documents of one length.

    Raises:
        EmbscaleError: there are none.
    """
    kept = rows[rows["length"].astype(str) == length]
    if kept.empty:
        raise EmbscaleError(f"no score of documents of the length {length!r}; score with it first")
    return kept


def means(
    estimates: pd.DataFrame, differences: pd.DataFrame | None, curves: pd.DataFrame | None, *, length: str
) -> pd.DataFrame:
    """What is plotted of tables: means over training runs, as in the report.

    Args:
        estimates: columns `MEAN_COLUMNS`.
        differences: columns `DIFFERENCE_COLUMNS`; those against random tables are kept.
        curves: columns `CURVE_COLUMNS`: how many tokens a model had seen at a step.
        length: of documents; rows of other lengths are left out.

    Returns:
        A row for each mean, its ``measure`` `SCORE` or `DIFFERENCE`, with ``label`` (see `variant_keys`), ``tokens``,
        and whether it is of the model's ``last`` checkpoint.  Of a difference `score` and `control_score` are its two
        parts.
    """
    parts = [estimates.assign(measure=SCORE)]
    if differences is not None:
        parts.append(differences[differences["against"] == RANDOM].assign(measure=DIFFERENCE))
    kept = [
        part[(part["queries"] == ALL_QUERIES) & ~part["table"].isin([RANDOM, REFERENCE])]
        for part in (of_length(part, length) for part in parts)
    ]
    rows = pd.concat(kept, ignore_index=True)
    names = [*MEAN_COLUMNS, "score", "control_score", "control_runs", "p", "measure"]
    rows = rows.reindex(columns=[name for name in names if name not in ("queries", "length")])
    seen = pd.DataFrame(columns=list(CURVE_COLUMNS)) if curves is None else curves[list(CURVE_COLUMNS)]
    rows = rows.merge(
        seen.drop_duplicates(["suite", "model", "step"]).astype({"step": float, "tokens": float}),
        on=["suite", "model", "step"],
        how="left",
    )
    return rows.assign(label=variant_keys(rows), last=is_last_checkpoint(rows))


def described_means(rows: pd.DataFrame) -> dict[str, Any]:
    """The rows of `means` with what a plot needs beside them: readers' names, colours, what is shown at first."""
    suites, variants = suite_names(rows), variant_names(rows["label"])
    several = rows.dropna(subset="tokens").groupby(["suite", "model"])["tokens"].transform("nunique") > 1
    widths = sorted(set(rows.loc[several.index[several], "width"]))
    first = [FULL] if len(suites) > 1 else [key for key in FIRST_VARIANTS if key in variants]
    return {
        "count": len(rows),
        "columns": columns(rows, digits=DIGITS),
        "suites": suites,
        "variants": variants,
        "references": REFERENCE_NAMES,
        "first_variants": [key for key in first if key in variants] or list(variants)[:1],
        "design": design(list(suites), list(variants), widths),
    }


def plain_tables(
    rows: pd.DataFrame, accuracies: pd.DataFrame | None, *, metric: str
) -> list[tuple[str, list[str], list[list[str]]]]:
    """Caption, head and lines of the tables that stand in for the plots where scripts are off.

    Args:
        rows: from `means`.
        accuracies: rows about classifiers of layers, if there are any.
        metric: of the scores.
    """
    names = {model["key"]: model["name"] for model in models([rows])}
    order = {key: place for place, key in enumerate(names)}
    shown = described_means(rows)["first_variants"]
    rows = rows[rows["last"] & rows["label"].isin(shown) & (rows["metric"] == metric)]
    keys = ["suite", "model", "label", "task", "pooling", "special_tokens", "tokenizer"]
    less = rows[rows["measure"] == DIFFERENCE].set_index(keys)
    found = []
    for task, of_task in rows[rows["measure"] == SCORE].groupby("task"):
        first = (
            of_task[["pooling", "special_tokens"]].drop_duplicates().sort_values(["pooling", "special_tokens"]).head(1)
        )
        lines: list[tuple[int, list[str]]] = []
        for _, row in of_task.merge(first).iterrows():
            key, name = f"{row['suite']}/{row['model']}", variant_names(shown)[row["label"]]
            same = tuple(row[keys])
            difference = interval(less.loc[[same]].iloc[0], signed=True) if same in less.index else ""
            numbers = [f"{row['width']:g}", interval(row), difference, f"{row['runs']:g}"]
            lines.append((order[key], [names[key], row["suite"], name, *numbers]))
        head = ["model", "suite", "table", "width", "score [95 % interval]", "less random tables", "training runs"]
        caption = f"{metric_label(of_task)} on {task} at the end of training"
        found.append((caption, head, [line for _, line in sorted(lines, key=lambda pair: pair[0])]))
    if accuracies is not None and {"split", "input", "control"} <= set(accuracies):
        reached = main_run(accuracies, metric="accuracy").sort_values("width", kind="stable")
        named = {model["key"]: model["name"] for model in models([accuracies])}
        reached_lines = [
            [named[f"{row['suite']}/{row['model']}"], f"{row['width']:g}", interval(row), f"{row['n']:,}"]
            for _, row in reached.iterrows()
        ]
        head = ["model", "width", "accuracy, % [95 % interval]", "tested vectors"]
        found.append(("Accuracy of logistic regression at telling layers apart", head, reached_lines))
    return found


def described_layers(
    parts: Mapping[str, pd.DataFrame | None], tokens: Mapping[str, Callable[[int], str]]
) -> dict[str, Any]:
    """What is shown of hidden states; of what was not given, nothing.

    Args:
        parts: rows for `points`, `confusion` and `accuracies`, by these names.
        tokens: for `points`.
    """
    of_points = parts["points"]
    of_confusion, of_accuracies = parts["confusion"], parts["accuracies"]
    return {
        "points": None if of_points is None else points(of_points, tokens),
        "confusion": None if of_confusion is None else confusion(of_confusion),
        "accuracies": None if of_accuracies is None else accuracies(of_accuracies),
    }


def variant_keys(rows: pd.DataFrame) -> pd.Series:
    """What the address calls a variant: ``full``, ``crop:16``, ``shuffled``, ``shuffled+idf``.

    Args:
        rows: with ``table`` and ``treatment``.
    """
    plain = rows["treatment"] == FULL
    other = rows["table"].where(plain, rows["table"] + "+" + rows["treatment"])
    return rows["treatment"].where(rows["table"].isin([INPUT, REFERENCE]), other)


def variant_names(keys: Iterable[str]) -> dict[str, str]:
    """Readers' names of variants in the order in which they are offered: as trained, treated, then other tables.

    Numbers are left out unless two variants differ in nothing else.
    """
    order = {kind: place for place, kind in enumerate(TREATMENT_NAMES)}
    described = []
    for key in set(keys):
        first, _, second = key.partition("+")
        table, treatment = (first, second or FULL) if first in TABLE_NAMES else (INPUT, key)
        kind, _, numbers = treatment.partition(":")
        place = (table != INPUT, table, order.get(kind, len(order)), treatment)
        words = [TABLE_NAMES[table]] if table != INPUT else []
        words += [treatment_label(treatment)] if table == INPUT or treatment != FULL else []
        described.append((place, key, ", ".join(words), numbers))
    shared = Counter(name for _, _, name, _ in described)
    return {key: f"{name} ({numbers})" if shared[name] > 1 else name for _, key, name, numbers in sorted(described)}


def suite_names(rows: pd.DataFrame) -> dict[str, str]:
    """Readers' names of suites, those that a study trains itself first."""
    own = SUITE_NAMES
    return {
        suite: own.get(suite)
        or (f"{own['ladder']}, {suite.removeprefix(VARIATION)}" if suite.startswith(VARIATION) else suite)
        for suite in ordered_suites(rows)
    }


def models(tables: Iterable[pd.DataFrame]) -> list[dict[str, Any]]:
    """The models of several tables in order of their width, with readers' names.

    A model that a study trained is named by suite and width, unless two of its suite have that width.

    Args:
        tables: with ``suite``, ``model`` and ``width``.
    """
    known = pd.concat([table[["suite", "model", "width"]] for table in tables], ignore_index=True)
    found = known.drop_duplicates(["suite", "model"]).reset_index(drop=True)
    suites = suite_names(found)
    of_study = found["suite"].isin(list(SUITE_NAMES)) | found["suite"].str.startswith(VARIATION)
    alone = found.groupby(["suite", "width"])["model"].transform("size") == 1
    rank = found["suite"].map({suite: place for place, suite in enumerate(suites)})
    order = found.assign(rank=rank, own=of_study & alone).sort_values(["width", "rank", "model"], kind="stable")
    return [
        {
            "key": f"{row.suite}/{row.model}",
            "name": f"{suites[row.suite]}, {row.width:g} wide" if row.own else str(row.model),
            "width": _number(float(row.width), DIGITS),
        }
        for row in order.itertuples()
    ]


def facts(rows: pd.DataFrame) -> dict[str, Any]:
    """Parameters of each model and the share of them that is in its table, where both are known.

    Args:
        rows: columns `FACT_COLUMNS`, and ``parameters`` where a file has it; a row for each checkpoint.
    """
    known = rows.reindex(columns=[*FACT_COLUMNS, PARAMETERS]).drop_duplicates(["suite", "model"])
    share = known["rows"].astype(float) * known["dims"].astype(float) / known[PARAMETERS].astype(float)
    complete_rows = known[["suite", "model", PARAMETERS]].assign(table_share=share).dropna()
    return {"count": len(complete_rows), "columns": columns(complete_rows, digits=DIGITS)}


def query_changes(rows: pd.DataFrame | None) -> dict[str, Any] | None:
    """Queries that gain and that lose most by training; columns `QUERY_COLUMNS`, or nothing."""
    if rows is None:
        return None
    texts = rows["text"].astype(str)
    shown = texts.where(texts.str.len() <= QUERY_LENGTH, texts.str[: QUERY_LENGTH - 1] + "…")
    kept = rows[list(QUERY_COLUMNS)].assign(text=shown)
    return {"count": len(kept), "columns": columns(kept, digits=DIGITS)}


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


def design(suites: Sequence[str], variants: Sequence[str], widths: Sequence[float]) -> dict[str, Any]:
    """Colours and markers of the report's figures, on a light page and on a dark one.

    Args:
        suites: in the order of their names.
        variants: keys in the order of their names.
        widths: of models with several checkpoints, the narrowest first.
    """
    places = {name: np.linspace(low, high, SHADE_STEPS) for name, (low, high) in SHADES.items()}
    shades = {
        name: [matplotlib.colors.to_hex(colour) for colour in matplotlib.colormaps["viridis"](where)]
        for name, where in places.items()
    }
    colours = {name: _colours(shown, suites, variants, widths) for name, shown in (("light", str), ("dark", on_dark))}
    symbols = [SYMBOLS[marker] for marker in MARKERS]
    return {"colours": colours, "symbols": symbols, "shades": shades}


def assigned(names: Sequence[str], fixed: Mapping[str, str]) -> dict[str, str]:
    """A colour for each name: its own where it has one, else the next of those that no other has."""
    taken = {fixed[name] for name in names if name in fixed}
    free = [colour for colour in theme.CATEGORIES if colour not in taken] or list(theme.CATEGORIES)
    others = [name for name in names if name not in fixed]
    given = {name: free[place % len(free)] for place, name in enumerate(others)}
    return {name: fixed.get(name) or given[name] for name in names}


def _colours(
    shown: Callable[[str], str], suites: Sequence[str], variants: Sequence[str], widths: Sequence[float]
) -> dict[str, Any]:
    """Each thing's colour, as it is `shown` on a page."""
    kinds = {FULL: tables.COLOURS["trained"], SHUFFLED: tables.COLOURS["shuffled"]}
    by_suite = assigned(suites, theme.category_colours(list(SUITE_NAMES)))
    shades = theme.ordered_colours(len(widths)) if widths else []
    return {
        "categories": [shown(colour) for colour in theme.CATEGORIES],
        "suites": {suite: shown(colour) for suite, colour in by_suite.items()},
        "variants": {variant: shown(colour) for variant, colour in assigned(variants, kinds).items()},
        "widths": {f"{width:g}": shown(colour) for width, colour in zip(widths, shades, strict=True)},
        "random": shown(tables.COLOURS["random"]),
        "reference": shown(tables.COLOURS["reference"]),
    }


def on_dark(colour: str) -> str:
    """The colour, with as much white as it needs to be seen on the dark page; black is the ink of the page."""
    if colour in ("#000000", theme.INK):
        return DARK_INK
    own = np.array(matplotlib.colors.to_rgb(colour))
    for white in np.linspace(0, 1, 21):
        mixed = matplotlib.colors.to_hex(own + white * (1 - own))
        if contrast(mixed, DARK_PAGE) >= LEAST_CONTRAST:
            break
    return str(mixed)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as the guidelines for accessible pages define it, from 1 to 21."""
    linear = [
        np.array([part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts])
        for parts in (matplotlib.colors.to_rgb(one), matplotlib.colors.to_rgb(other))
    ]
    low, high = sorted(float(parts @ [0.2126, 0.7152, 0.0722]) for parts in linear)
    return (high + 0.05) / (low + 0.05)
