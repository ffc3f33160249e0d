"""Explain terms where a page first uses them.

Works on the finished HTML of either renderer.  A term is what a pointer, a tap or the Tab key shows the explanation of;
a screen reader reads it as the term's description.  Nothing needs a script.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from embscale.errors import EmbscaleError

FILE = "glossary.yml"  # beside the main document

MAIN = re.compile(r'(<main id="main">)(.*)(</main>)', re.DOTALL)
TAG = re.compile(r"(<!--.*?-->|<[^>]+>)", re.DOTALL)
NAME = re.compile(r"</?([a-zA-Z0-9-]+)")
# Terms are explained in running text alone: not in what is a link, a formula, code, a drawing, a caption or folded.
TEXT = ("p", "li")
APART = ("a", "code", "pre", "math", "svg", "script", "style", "figure", "details", "table", "mark", "button", "dfn")


def read(folder: Path) -> dict[str, str]:
    """The explanation of each form of each term of a report; empty for a report without a glossary.

    Raises:
        EmbscaleError: the file is not a list of terms with ``forms`` and ``means``, or has a form twice.
    """
    file = folder / FILE
    if not file.is_file():
        return {}
    try:
        entries = [
            (form, str(entry["means"])) for entry in yaml.safe_load(file.read_text("utf-8")) for form in entry["forms"]
        ]
    except (yaml.YAMLError, TypeError, KeyError) as error:
        raise EmbscaleError(f"{file}: expected a list of terms, each with forms and means ({error})") from error
    if len(dict(entries)) < len(entries):
        raise EmbscaleError(f"{file}: a form stands there twice; remove one")
    return dict(entries)


def explain(page: str, terms: Mapping[str, str]) -> str:
    """The page with each explanation at the first place where its term stands in running text.

    Args:
        page: HTML with one ``<main id="main">``.
        terms: explanations by form; forms with the same explanation count as one term.
    """
    return MAIN.sub(lambda match: match[1] + _explained(match[2], terms) + match[3], page, count=1) if terms else page


def _explained(text: str, terms: Mapping[str, str]) -> str:
    longest_first = sorted(terms, key=len, reverse=True)
    form = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?![\w-])")
    seen: dict[str, int] = {}

    def mark(match: re.Match[str]) -> str:
        means = terms[match[1]]
        if means in seen:
            return match[0]
        number = seen[means] = len(seen) + 1
        return (
            f'<dfn class="term" tabindex="0" aria-describedby="term-{number}">{match[1]}</dfn>'
            f'<span role="tooltip" id="term-{number}">{html.escape(means)}</span>'
        )

    parts, inside = [], {"text": 0, "apart": 0}
    for part in TAG.split(text):
        if not part.startswith("<"):
            parts.append(form.sub(mark, part) if inside["text"] and not inside["apart"] else part)
            continue
        name = NAME.match(part)
        kind = "text" if name and name[1] in TEXT else "apart" if name and name[1] in APART else None
        if kind and not part.endswith("/>"):
            inside[kind] += -1 if part.startswith("</") else 1
        parts.append(part)
    return "".join(parts)
