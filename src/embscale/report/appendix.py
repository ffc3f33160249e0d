"""Tables of the report's appendix: settings as run, what was not run, and the data dictionary.

Settings come from the notes of the jobs, so that the page states what was done, not what a file requests.  The data
dictionary is that of workflow/README.md, checked against the tables' actual columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows.markdown import escape, markdown_table

FILES = ("tables", "states", "output", "image")  # what a job read is no setting
LONG = 12  # values of a list beyond which only the first and the last are shown

# Of a ledger of claims: the column of a word, that of the reason, the word for what could not be asked, and of whom.
UNTESTED = (
    ("verdict", "published_detail", "published models not run", "asked of published models"),
    ("verdict", "published_detail", "not testable", "asked of published models"),
    ("analogue", "detail", "not testable", "asked of the ladder"),
)

TAKES_PART = ("fetch", "local")  # statuses of published checkpoints, see `embscale.checkpoints.suites.Planned`

DIGEST = re.compile(r"[0-9a-f]{64}")
DIGEST_LENGTH = 12  # hexadecimal digits shown of a digest, as in the report

DICTIONARY_FROM = "## Results"
COLUMNS_OF = re.compile(r"^## Columns of (?P<tables>.+)$", re.MULTILINE)
DESCRIBED = re.compile(r"^\| (?P<names>`[^|]+) \|", re.MULTILINE)


def settings_table(notes: Sequence[Mapping[str, Any]]) -> str:
    """Markdown rows of the settings of each kind of job, from one note of each.

    Args:
        notes: notes as `embscale.provenance.artifacts.read_note` gives them.
    """
    lines = [["job", "settings"]]
    for note in notes:
        # The device that a job ran on, where it was left open.
        facts = note.get("facts", {})
        given = note["params"] | facts.get("settings", {}) | ({"device": facts["device"]} if "device" in facts else {})
        params = {name: value for name, value in given.items() if name not in FILES and value is not None}
        settings = "; ".join(f"{name.replace('_', ' ')}: {_value(value)}" for name, value in params.items())
        lines.append([f"`{note['command']}`", settings or "none"])
    return markdown_table(lines)


def _value(value: Any) -> str:  # noqa: ANN401 (JSON)
    """A setting as Markdown."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not set"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{escape(str(name))} {_value(inner)}" for name, inner in value.items())
    if isinstance(value, list) and len(value) > LONG:
        return f"{_value(value[0])} … {_value(value[-1])} ({len(value)})"
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or "none"
    text = str(value)
    return escape(text[:DIGEST_LENGTH] if DIGEST.fullmatch(text) else text)


def not_run_table(
    inventory: pd.DataFrame,
    claims: Sequence[pd.DataFrame],
    figures: Mapping[str, str],
    other_tasks: int,
    left_out: Mapping[str, str],
) -> str:
    """Markdown rows of everything that the report knows of and that this study did not run, with the reason.

    Args:
        inventory: the published checkpoints of the study, columns ``model``, ``checkpoint``, ``status``, ``reason``.
        claims: ledgers of claims, columns ``claim``, ``analogue``, ``detail``, ``verdict``, ``published_detail``.
        figures: the Markdown that stands for each figure; one without an image says why there is nothing to show.
        other_tasks: how many models were scored on tasks of other kinds than retrieval.
        left_out: training runs that were not made, each with the reason.
    """
    lines = [["what", "why not"]]
    if inventory.empty:
        lines.append(["published checkpoints", "no suite is named in the study's parameters"])
    for row in inventory[~inventory["status"].isin(TAKES_PART)].itertuples():
        lines.append([f"{escape(row.model)}, {escape(row.checkpoint)}", escape(str(row.reason))])
    lines += [[f"training run {escape(run)}", escape(reason)] for run, reason in left_out.items()]
    if not other_tasks:
        lines.append(["tasks of other kinds than retrieval", "none is named in the study's parameters"])
    for name, partial in figures.items():
        if "![" not in partial:
            lines.append([f"figure {escape(name)}", " ".join(partial.partition("<details")[0].split())])
    for ledger in claims:
        for column, detail, untested, where in UNTESTED:
            for reason, group in ledger[ledger[column] == untested].groupby(detail, sort=False):
                names = ", ".join(map(escape, group["claim"]))
                lines.append([f"claims {names}, {where}", escape(str(reason))])
    return markdown_table(lines) if len(lines) > 1 else "Everything was run.\n"


def dictionary(readme: str, tables: Mapping[str, pd.DataFrame]) -> str:
    """The data dictionary as a part of the report, its headings one level down.

    Args:
        readme: text of workflow/README.md.
        tables: a table of results for each name that stands in a heading "Columns of ...".

    Raises:
        EmbscaleError: a table has a column that the text does not describe, or the text lacks a section.
    """
    start = readme.find(f"\n{DICTIONARY_FROM}\n")
    if start < 0:
        raise EmbscaleError(f"workflow/README.md: no heading {DICTIONARY_FROM!r}; the data dictionary begins there")
    text = readme[start + 1 :]
    for name, table in tables.items():
        if missing := set(map(str, table)) - described(text, name):
            raise EmbscaleError(
                f"workflow/README.md: column {min(missing)!r} of {name} is not described; add a row under "
                f'"Columns of {name}"'
            )
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def described(text: str, name: str) -> set[str]:
    """The columns that the section of a table describes.

    Raises:
        EmbscaleError: there is no such section.
    """
    for heading in COLUMNS_OF.finditer(text):
        if f"`{name}`" in heading["tables"]:
            section = text[heading.end() :].partition("\n## ")[0]
            return {column for row in DESCRIBED.finditer(section) for column in re.findall(r"`(\w+)`", row["names"])}
    raise EmbscaleError(f'workflow/README.md: no heading "Columns of `{name}`"; describe its columns there')
