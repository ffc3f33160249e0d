"""The ledgers of claims as tables for the report: a row for each claim that was tested, and counts of verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from embscale.claims.verdicts import ANALOGUES, COLUMNS, NOT_RUN, PUBLISHED, TEST, UNITS, VERDICTS
from embscale.rows import tidy
from embscale.rows.markdown import escape, markdown_table

NUMBERS = {"effect", "ci_low", "ci_high", "n", "runs", "p", "p_holm", "printed_effect"}
NO_BREAK = "\u00a0"
POINTER = re.compile(r"see (\w+)$")  # the word for a claim whose test is that of another one
SHOWN = re.compile(r"^::: \{#(?P<label>fig-[\w-]+)\}\s+\{\{< include figures/(?P<figure>\w+)\.md >\}\}", re.MULTILINE)


def read(path: Path) -> pd.DataFrame:
    """A ledger from its CSV; empty texts are empty."""
    texts = [name for name in COLUMNS if name.removeprefix(PUBLISHED) not in NUMBERS]
    rows = tidy.load(path, names=texts)
    return rows.assign(**{name: rows[name].fillna("") for name in texts})


def figure_labels(texts: Iterable[str]) -> dict[str, str]:
    """By module of a figure, the label that it has in the text of the report."""
    return {match["figure"]: match["label"] for text in texts for match in SHOWN.finditer(text)}


def tested(rows: pd.DataFrame) -> pd.DataFrame:
    """The claims for which a quantity was measured, on whatever models."""
    return rows[rows["effect"].notna() | rows[f"{PUBLISHED}effect"].notna() | (rows["same_as"] != "")]


def published_run(rows: pd.DataFrame) -> bool:
    """Whether the published models that some claim is about were run."""
    return bool((rows["verdict"] != NOT_RUN).any())


def tallies(rows: pd.DataFrame) -> str:
    """A list with the number of claims by verdict on our models and, where they were run, on the published ones.

    A claim whose test is that of another one is not counted again.
    """
    own = rows[rows["same_as"] == ""]
    shown = tested(own)
    lines = _counts(shown["analogue"], ANALOGUES, "")
    if published_run(shown):
        lines += _counts(shown["verdict"], VERDICTS, " on the published models")
    if rest := len(own) - len(shown):
        lines.append(f"- not tested: {rest} (@sec-more-claims)")
    return "".join(f"{line}\n" for line in lines)


def _counts(words: pd.Series, order: Iterable[str], behind: str) -> list[str]:
    found = words.value_counts()
    return [f"- **{word}**{behind}: {found[word]}" for word in order if word in found]


def verdicts_table(rows: pd.DataFrame, labels: Mapping[str, str], data: str) -> str:
    """A row for each claim that was tested: what it says and of whom, its verdict, the effect, and its figure.

    Args:
        rows: a ledger.
        labels: of figures, from `figure_labels`.
        data: name of the ledger's CSV beside the page, whose note has the command's flags.
    """
    shown = tested(rows)
    if shown.empty:
        return "None of the claims could be tested in this study.\n"
    published = published_run(shown)
    head = ["claim", "population", *["published models"] * published, "our models", "effect [95 % interval]", "figure"]
    lines = [head]
    for row in shown.to_dict("records"):
        verdict = [" ".join(filter(None, [f"**{row['verdict']}**", _effect(row, PUBLISHED)]))] if published else []
        label = labels.get(row["figure"])
        figure = f"@{label}" if label else ""
        claim = f"[**{row['claim']}**]{{#claim-{row['claim']}}} {escape(row['words'])} {_fold(row, data)}"
        lines.append([claim, escape(row["population"]), *verdict, _word(row), _effect(row, ""), figure])
    return markdown_table(lines)


def _word(row: Mapping[str, Any]) -> str:
    pointer = POINTER.match(row["analogue"])
    return f"see [{pointer[1]}](#claim-{pointer[1]})" if pointer else f"**{row['analogue']}**"


def _effect(row: Mapping[str, Any], prefix: str) -> str:
    """The effect with its interval, in the units of the report; nothing where nothing was measured."""
    if pd.isna(row[f"{prefix}effect"]):
        return ""
    unit = row[f"{prefix}unit"]
    effect, low, high = (f"{row[f'{prefix}{name}'] * UNITS[unit]:.2f}" for name in ("effect", "ci_low", "ci_high"))
    interval = "no interval" if pd.isna(row[f"{prefix}ci_low"]) else f"[{low},{NO_BREAK}{high}]"
    return f"{effect} {interval}".replace("-", "−")


def _fold(row: Mapping[str, Any], data: str) -> str:
    """How the claim was tested, and the command that tests it again; nothing if another claim's test stands for it."""
    if row["same_as"]:
        return ""
    tests = [("", ""), *([("On the published models: ", PUBLISHED)] * (not pd.isna(row[f"{PUBLISHED}effect"])))]
    parts = [f"{words}{_test(row, prefix)}" for words, prefix in tests]
    parts.append(
        f"Rows: <code>{escape(row['rows'])}</code>. Command: <code>{escape(row['command'].partition(',')[0])}</code>, "
        f"flags in [its note]({{{{< meta data >}}}}/{data}.note.json)."
    )
    return f"`<details><summary>Test</summary>`{{=html}}{' '.join(filter(None, parts))}`</details>`{{=html}}"


def _test(row: Mapping[str, Any], prefix: str) -> str:
    test = {name: row[f"{prefix}{name}"] for name in TEST}
    detail = f"{test['detail'][:1].upper()}{test['detail'][1:]}"
    if pd.isna(test["effect"]):
        return escape(detail)
    margin = f", {test['margin']}" if test["margin"] else ""
    words = f"{test['statistic']}, in {test['unit']}; criterion: {test['expected']}{margin}"
    if not pd.isna(test["p_holm"]):
        words += f"; p {test['p_holm']:.2g} (corrected)"
    runs = "one run" if test["runs"] == 1 else f"{test['runs']:.0f} runs or draws"
    return escape(f"{words}; {test['n']:,.0f} {test['over']}, {runs}. {detail}")
