"""Turn a document into one HTML page with pandoc; whatever pandoc or the filters warn about is an error."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pypandoc

from embscale.errors import EmbscaleError
from embscale.report import metadata
from embscale.report.design import CHAPTER, ELEMENTS, FILTERS, PARTIALS, STYLE, TEMPLATE
from embscale.report.qmd import Document

SITEMAP = "sitemap.json"  # pandoc's own list of the pages that it makes
DESIGN = [TEMPLATE, CHAPTER, *PARTIALS, STYLE, *FILTERS, ELEMENTS]


def version() -> str:
    """The version of the pandoc that comes with pypandoc_binary."""
    return str(pypandoc.get_pandoc_version())


def to_html(document: Document) -> str:
    """The page as one self-contained HTML text.

    Raises:
        EmbscaleError: the text holds something broken or outside the shared subset; each problem is
            on a line of its own with its place.
    """
    toc = ["--toc", f"--toc-depth={document.meta.get('toc-depth', 3)}"] if document.meta.get("toc") else []
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch, "page.html")
        convert(document, "html5", ["--embed-resources", f"--template={TEMPLATE}", *toc], page)
        return page.read_text("utf-8")


def to_chapters(document: Document) -> dict[str, bytes]:
    """A page for each section of the first level and one in front of them, with the images that they show.

    Numbers, references and navigation are those of the whole document.

    Returns:
        What each file holds, by its path; ``index.html`` is the first.

    Raises:
        EmbscaleError: as `to_html`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "chapters")
        split = ["--split-level=1", "--chunk-template=%i.html"]
        convert(document, "chunkedhtml", [f"--template={CHAPTER}", *split], folder)
        files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != SITEMAP)
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def convert(document: Document, form: str, arguments: list[str], output: Path) -> None:
    """Let pandoc write `output`; what it or the filters warn about is an error."""
    with tempfile.TemporaryDirectory() as scratch:
        log, meta = Path(scratch, "log.json"), Path(scratch, "meta.json")
        meta.write_text(json.dumps(page_metadata(document)), "utf-8")
        chosen = [*options(document), *arguments, f"--metadata-file={meta}", f"--log={log}"]
        try:
            pypandoc.convert_text(
                document.text, form, "markdown", extra_args=chosen, outputfile=str(output), verify_format=False
            )
        except RuntimeError as error:
            raise EmbscaleError(f"{document.source}: {error}") from error
        raise_problems(json.loads(log.read_text("utf-8")), document)


def page_metadata(document: Document) -> dict[str, Any]:
    """The document's metadata in the form that the template and the filters read."""
    meta = {key: value for key, value in document.meta.items() if key not in metadata.OPTION_KEYS - {"toc-title"}}
    meta |= {
        "link-citations": True,
        "number-sections": bool(document.meta.get("number-sections")),
        "author": metadata.authors(meta.get("author")),
    }
    if "date" in meta:
        meta["date"] = metadata.long_date(meta["date"])
    for key in ("bibliography", "csl"):
        if key in meta:
            meta[key] = existing_files(meta[key], key, document)
    return meta


def existing_files(names: str | list[str], key: str, document: Document) -> list[str]:
    """Paths of files named in the front matter.

    Raises:
        EmbscaleError: one of them does not exist.
    """
    files = [document.source.parent / name for name in ([names] if isinstance(names, str) else names)]
    for file in files:
        if not file.is_file():
            raise EmbscaleError(f"{metadata.place(document.source, key)}: {key} {file}: no such file")
    return [str(file) for file in files]


def options(document: Document) -> list[str]:
    """Pandoc's command line, as far as it depends on the document's settings."""
    meta = document.meta
    chosen = [
        "--standalone",
        "--mathml",
        "--section-divs",
        "--wrap=none",
        "--quiet",
        f"--resource-path={document.source.parent}",
        *(f"--lua-filter={file}" for file in FILTERS),
    ]
    if meta.get("number-sections"):
        chosen.append("--number-sections")
    if meta.get("bibliography"):
        # After the filters: they take the cross-references out of the citations.
        chosen.append("--citeproc")
    return chosen


def raise_problems(log: list[dict[str, Any]], document: Document) -> None:
    """Raise one error that lists every warning in pandoc's log with its place in the sources."""
    warnings = [entry for entry in log if entry["verbosity"] in ("WARNING", "ERROR")]
    messages = dict.fromkeys(problem for entry in warnings for problem in problems(entry, document))
    if len(messages) == 1:
        raise EmbscaleError(next(iter(messages)))
    if messages:
        listing = "".join(f"\n  {problem}" for problem in messages)
        raise EmbscaleError(f"{document.source}: {len(messages)} problems, no page made{listing}")


def problems(entry: dict[str, Any], document: Document) -> Iterator[str]:
    """One warning of pandoc's as ``file:line: message``, once for each place that it is about."""
    needle, message = explain(entry)
    if needle:
        places = document.places(needle)
    else:
        places = document.body[entry["line"] - 1 : entry["line"]] if "line" in entry else []
    for line in places:
        yield f"{line.file}:{line.number}: {message}"
    if not places:
        yield f"{document.source}: {message}"


def explain(entry: dict[str, Any]) -> tuple[str, str]:
    """What to look for in the sources, and what to tell the author."""
    match entry["type"]:
        case "ScriptingWarning":
            # The filters name what they mean, then a tab.
            needle, _, message = entry["message"].partition("\t")
            return needle, message
        case "CiteprocWarning":
            key = entry["message"].removeprefix("citation ").removesuffix(" not found")
            return f"@{key}", f"no entry {key!r} in the bibliography; add it or correct the key"
        case "CouldNotFetchResource":
            return entry["path"], f"no such file: {entry['path']}; paths start at the main document's folder"
        case "CouldNotConvertTeXMath":
            formula = entry["contents"].strip()
            return formula.partition("\n")[0], f"formula cannot become MathML: {formula}; use plainer TeX"
        case _:
            return "", entry["pretty"]
