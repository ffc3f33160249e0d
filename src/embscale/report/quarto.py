"""Turn a document into one HTML page with Quarto, and read in its log what its exit status keeps silent about.

Quarto numbers, cites and refers; the template, the style and the elements of the page are those of the way through
pandoc.  They lie beside the text (`project`), so that ``quarto render`` gives the same page by hand.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from embscale.errors import EmbscaleError
from embscale.report import design

PAGE = "embscale-page.html"
METADATA = "_metadata.yml"  # Quarto reads it beside every document of its folder
BY_HAND = "_page"  # output-dir of the project
DESIGN = [design.TEMPLATE, *design.PARTIALS, design.STYLE, design.QUARTO_FILTER, design.ELEMENTS]
FOLDER = "design"
PROJECT = [METADATA, *(f"{FOLDER}/{file.name}" for file in DESIGN)]  # what `project` makes
SETTINGS = {
    "date-format": "long",
    "filters": [{"at": "pre-render", "path": f"{FOLDER}/{design.QUARTO_FILTER.name}"}],
    "format": {
        "html": {
            # Without Bootstrap, whose styles and scripts the template does without.
            "theme": "none",
            "minimal": True,
            "template": f"{FOLDER}/{design.TEMPLATE.name}",
            "template-partials": [f"{FOLDER}/{file.name}" for file in [*design.PARTIALS, design.STYLE]],
        }
    },
    "language": {"toc-title-document": "Contents"},
    "link-citations": True,
}

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Quarto exits 0 on broken references, citations, blocks and labels.  Its own warnings begin with
# WARN: or (W), those of its filters with WARNING (file), those of its pandoc with [WARNING].
COMPLAINT = re.compile(
    r"^\s*\[?(WARN(ING)?|ERROR|CRITICAL)\b|^\s*\([WE]\)"
    r"|Unable to resolve crossref|citation \S+ not found|Could not fetch resource"
    r"|unclosed at line|Duplicate identifier|string was found in the document: :::",
    re.MULTILINE,
)
# Where Quarto's words end and the trace of its calls begins.
TRACE = re.compile(r"Stack trace|at .+:\d+:\d+\)?$")


def executable() -> str | None:
    """Where Quarto is installed, if it is."""
    return shutil.which("quarto")


def version(quarto: str) -> str:
    """The version of an installed Quarto."""
    return _run([quarto, "--version"], Path.cwd()).strip()


def project(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """What Quarto needs beside a report's text: what each file holds, by its path from there, the metadata first.

    Args:
        metadata: what the document cannot set itself.  In a file, since Quarto puts a newline behind each value from
            the command line, which takes no lists either.
    """
    settings = yaml.safe_dump({**SETTINGS, **metadata}, allow_unicode=True)
    return dict(zip(PROJECT, [settings.encode("utf-8"), *(file.read_bytes() for file in DESIGN)], strict=True))


def to_html(quarto: str, source: Path, metadata: Mapping[str, Any]) -> str:
    """The page as one HTML text.

    Quarto writes into the folder of its sources (.quarto, its pages), so it works on a copy.

    Args:
        quarto: the executable.
        source: the main document, with the project's ``_quarto.yml`` beside it.
        metadata: what the document cannot set itself.

    Raises:
        EmbscaleError: Quarto fails, warns, or makes no page.
    """
    with tempfile.TemporaryDirectory() as scratch:
        ignored = shutil.ignore_patterns(".*", BY_HAND)
        folder = shutil.copytree(source.parent, Path(scratch, "report").resolve(), ignore=ignored)
        for name, content in project(metadata).items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
        try:
            log = _run(command(quarto, source.name), folder)
        except QuartoError as error:
            message = str(error).replace(str(folder), str(source.parent))
            raise EmbscaleError(f"{source}: Quarto failed: {message}") from None
        if complaints := [line.strip() for line in log.splitlines() if COMPLAINT.search(line)]:
            raise EmbscaleError(f"{source}: Quarto warns: {'; '.join(complaints)}; fix it, or use --renderer pandoc")
        # Where the page lies depends on the project's output-dir.
        pages = list(folder.rglob(PAGE))
        if len(pages) != 1:
            raise EmbscaleError(f"{source}: Quarto made {len(pages)} pages instead of one; its log was: {log.strip()}")
        return pages[0].read_text("utf-8")


def command(quarto: str, name: str) -> list[str]:
    """Quarto's command line for a document in the current folder."""
    return [quarto, "render", name, "--to", "html", "--output", PAGE]


class QuartoError(EmbscaleError):
    """Quarto ended with an error; the message is its own."""


def _run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = COLOUR.sub("", done.stdout)
    if done.returncode:
        raise QuartoError(f"{failure(log)} (exit status {done.returncode})")
    return log


def failure(log: str) -> str:
    """Quarto's own words on why it failed, as one line, without the trace of its calls."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    first = next((place for place, line in enumerate(lines) if line.startswith("ERROR")), len(lines))
    words = list(itertools.takewhile(lambda line: not TRACE.match(line), lines[first:]))
    return " ".join(words or [line for line in lines if not TRACE.match(line)][-1:] or ["it said nothing"])
