"""Settings and title block: the project's ``_quarto.yml``, then the document's front matter."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import yaml

from embscale.errors import EmbscaleError

PROJECT = "_quarto.yml"

TEXT_KEYS = {"title", "subtitle", "abstract", "description"}
PAGE_KEYS = {"abstract-title", "author", "bibliography", "csl", "date", "keywords", "lang", "nocite"}
OPTION_KEYS = {"embed-resources", "html-math-method", "number-sections", "theme", "toc", "toc-depth", "toc-title"}
SHARED_KEYS = TEXT_KEYS | PAGE_KEYS | OPTION_KEYS | {"link-citations"}

# What makes a page that needs the network, with the only value that does not.
SELF_CONTAINED = {"embed-resources": True, "html-math-method": "mathml"}
# Dates that change from one rendering to the next.
MOVING_DATES = {"now", "today", "last-modified"}


def read(source: Path, front: str) -> dict[str, Any]:
    """The metadata of a document, a later level overriding an earlier one.

    The order is Quarto's: project, front matter, then the options below ``format: html:``.

    Args:
        source: the document; ``_quarto.yml`` lies beside it.
        front: the YAML of its front matter.

    Raises:
        EmbscaleError: YAML that cannot be read, or a setting outside the shared subset.
    """
    project_file = source.parent / PROJECT
    project = {key: value for key, value in load_yaml_file(project_file).items() if key != "project"}
    levels = [(project_file, project), (source, load_yaml(front, source, first_line=2))]
    meta: dict[str, Any] = {"lang": "en"}
    for file, level in levels:
        meta = merge(meta, check_keys(level, file))
    for file, level in levels:
        meta = merge(meta, check_keys(html_options(level, file), file))
    meta.pop("format", None)
    check_values(meta, source)
    return meta


def load_yaml_file(file: Path) -> dict[str, Any]:
    """A YAML mapping; a file that does not exist is an empty one."""
    return load_yaml(file.read_text("utf-8"), file) if file.exists() else {}


def load_yaml(text: str, file: Path, first_line: int = 1) -> dict[str, Any]:
    """A YAML mapping from `text`, which begins at `first_line` of `file`.

    Raises:
        EmbscaleError: it is not YAML, or not a mapping.
    """
    try:
        tree = yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark.line if error.problem_mark else 0) + first_line
        raise EmbscaleError(f"{file}:{line}: not YAML: {error.problem}; quote the value") from error
    if not isinstance(tree, dict):
        raise EmbscaleError(f"{file}:{first_line}: expected lines of 'key: value'")
    return tree


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`; lists are joined, as Quarto does."""
    joined = {
        key: base[key] + new for key, new in over.items() if isinstance(new, list) and isinstance(base.get(key), list)
    }
    return base | over | joined


def html_options(level: dict[str, Any], file: Path) -> dict[str, Any]:
    """The options below ``format: html:``.

    Raises:
        EmbscaleError: another format is asked for.
    """
    formats = level.get("format") or {}
    formats = {formats: {}} if isinstance(formats, str) else formats
    if other := formats.keys() - {"html"}:
        raise EmbscaleError(f"{file}: format {', '.join(sorted(other))}; the report is only made as html")
    options = formats.get("html") or {}
    return {} if options == "default" else options


def check_keys(level: dict[str, Any], file: Path) -> dict[str, Any]:
    """Refuse settings that the two renderers do not share, or with which the page would load something.

    Raises:
        EmbscaleError: such a setting is there.
    """
    if unknown := level.keys() - SHARED_KEYS - {"format"}:
        key = sorted(unknown)[0]
        raise EmbscaleError(
            f"{place(file, key)}: setting {key!r} is outside the shared subset; "
            f"values for the text belong in _variables.yml, settings are {', '.join(sorted(SHARED_KEYS))}"
        )
    for key, only in SELF_CONTAINED.items():
        if level.get(key, only) != only:
            raise EmbscaleError(f"{place(file, key)}: {key} must be {str(only).lower()}, or the page needs the network")
    return level


def check_values(meta: dict[str, Any], source: Path) -> None:
    """Refuse values with which the page would change from day to day, and a page without a title.

    Raises:
        EmbscaleError: such a value is there, or the title is missing.
    """
    if not meta.get("title"):
        raise EmbscaleError(f"{source}:1: no title; give one in the front matter")
    if meta.get("date") in MOVING_DATES:
        raise EmbscaleError(f"{place(source, 'date')}: date {meta['date']!r} changes daily; write the date out")


def place(file: Path, key: str) -> str:
    """Where a key is set: ``file:line``, or the file alone."""
    lines = file.read_text("utf-8").split("\n") if file.exists() else []
    line_numbers = [number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:")]
    return f"{file}:{line_numbers[0]}" if line_numbers else str(file)


def long_date(value: dt.date | str) -> str:
    """A date as Quarto writes it, ``November 1, 2026``; other text is kept."""
    try:
        date = value if isinstance(value, dt.date) else dt.date.fromisoformat(value)
    except ValueError:
        return str(value)
    return f"{date:%B} {date.day}, {date.year}"


def authors(value: Any) -> list[dict[str, str]]:  # noqa: ANN401 (YAML)
    """Names and affiliations from the forms that Quarto accepts: a name, a mapping, or a list of them."""
    people = value if isinstance(value, list) else [value] if value else []
    return [
        {"name": person["name"], "affiliation": _affiliation(person)} if isinstance(person, dict) else {"name": person}
        for person in people
    ]


def _affiliation(person: dict[str, Any]) -> str:
    places = person.get("affiliations") or person.get("affiliation") or []
    places = places if isinstance(places, list) else [places]
    return "; ".join(place["name"] if isinstance(place, dict) else str(place) for place in places)
