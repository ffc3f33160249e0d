"""Turn a document into one HTML page with Quarto, and read in its log what its exit status keeps silent about."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from embscale.errors import EmbscaleError

PAGE = "embscale-page.html"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Quarto exits 0 on broken references, citations, blocks and labels.  Its own warnings begin with
# WARN: or (W), those of its filters with WARNING (file), those of its pandoc with [WARNING].
COMPLAINT = re.compile(
    r"^\s*\[?(WARN(ING)?|ERROR|CRITICAL)\b|^\s*\([WE]\)"
    r"|Unable to resolve crossref|citation \S+ not found|Could not fetch resource"
    r"|unclosed at line|Duplicate identifier|string was found in the document: :::",
    re.MULTILINE,
)


def executable() -> str | None:
    """Where Quarto is installed, if it is."""
    return shutil.which("quarto")


def version(quarto: str) -> str:
    """The version of an installed Quarto."""
    return _run([quarto, "--version"], Path.cwd()).strip()


def to_html(quarto: str, source: Path, metadata: Mapping[str, str]) -> str:
    """The page as one HTML text.

    Quarto writes into the folder of its sources (.quarto, .gitignore), so it works on a copy.

    Args:
        quarto: the executable.
        source: the main document, with the project's ``_quarto.yml`` beside it.
        metadata: what the document cannot set itself.

    Raises:
        EmbscaleError: Quarto fails, warns, or makes no page.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = shutil.copytree(source.parent, Path(scratch, "report"), ignore=shutil.ignore_patterns(".*", "_site"))
        log = _run(command(quarto, source.name, metadata), folder)
        if complaints := [line.strip() for line in log.splitlines() if COMPLAINT.search(line)]:
            raise EmbscaleError(f"{source}: Quarto warns: {'; '.join(complaints)}; mend it, or use --renderer pandoc")
        # Where the page lies depends on the project's output-dir.
        pages = list(folder.rglob(PAGE))
        if len(pages) != 1:
            raise EmbscaleError(f"{source}: Quarto made {len(pages)} pages instead of one; its log was: {log.strip()}")
        return pages[0].read_text("utf-8")


def command(quarto: str, name: str, metadata: Mapping[str, str]) -> list[str]:
    """Quarto's command line for a document in the current folder."""
    told = [part for key, value in metadata.items() for part in ("--metadata", f"{key}:{value}")]
    return [quarto, "render", name, "--to", "html", "--output", PAGE, *told]


def _run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = COLOUR.sub("", done.stdout)
    if done.returncode:
        raise EmbscaleError(f"{' '.join(arguments[:3])}: exit status {done.returncode}: {log.strip()}")
    return log
