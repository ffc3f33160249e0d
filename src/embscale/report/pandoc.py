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
from embscale.report.qmd import Document

HERE = Path(__file__).parent
TEMPLATE = HERE / "template.html"
FILTERS = [HERE / "check_subset.lua", HERE / "quarto_subset.lua"]
STYLE = HERE / "style.css"
DESIGN = [TEMPLATE, STYLE, HERE / "contents.js", *FILTERS]


def version() -> str:
    """The version of the pandoc that comes with pypandoc_binary."""
    return str(pypandoc.get_pandoc_version())


def to_html(document: Document) -> str:
    """The page as one self-contained HTML text.

    Raises:
        EmbscaleError: the text holds something broken or outside the shared subset; each problem is
            on a line of its own with its place.
    """
    with tempfile.TemporaryDirectory() as scratch:
        log, meta = Path(scratch, "log.json"), Path(scratch, "meta.json")
        meta.write_text(json.dumps(page_metadata(document)), "utf-8")
        arguments = [*options(document), f"--metadata-file={meta}", f"--log={log}"]
        try:
            page = pypandoc.convert_text(document.text, "html5", "markdown", extra_args=arguments, verify_format=False)
        except RuntimeError as error:
            raise EmbscaleError(f"{document.source}: {error}") from error
        raise_problems(json.loads(log.read_text("utf-8")), document)
    return str(page)


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
        "--embed-resources",
        "--mathml",
        "--section-divs",
        "--wrap=none",
        "--quiet",
        f"--template={TEMPLATE}",
        f"--resource-path={document.source.parent}",
        *(f"--lua-filter={file}" for file in FILTERS),
    ]
    if meta.get("number-sections"):
        chosen.append("--number-sections")
    if meta.get("toc"):
        chosen += ["--toc", f"--toc-depth={meta.get('toc-depth', 3)}"]
    if meta.get("bibliography"):
        # After the filters: they take the cross-references out of the citations.
        chosen.append("--citeproc")
    return chosen


def raise_problems(log: list[dict[str, Any]], document: Document) -> None:
    """Raise one error that lists every warning in pandoc's log with its place in the sources."""
    warnings = [entry for entry in log if entry["verbosity"] in ("WARNING", "ERROR")]
    found = dict.fromkeys(problem for entry in warnings for problem in problems(entry, document))
    if len(found) == 1:
        raise EmbscaleError(next(iter(found)))
    if found:
        listing = "".join(f"\n  {problem}" for problem in found)
        raise EmbscaleError(f"{document.source}: {len(found)} problems, no page made{listing}")


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
