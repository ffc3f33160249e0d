"""Choose a renderer and make the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from embscale.errors import EmbscaleError
from embscale.report import offline, pandoc, qmd, quarto

CHOICES = ("auto", "quarto", "pandoc")


@dataclass(frozen=True)
class Renderer:
    """What makes the page: its name for the reader, and Quarto's executable if it is Quarto."""

    label: str
    quarto: str | None = None


def choose(choice: str) -> Renderer:
    """The renderer for ``auto``, ``quarto`` or ``pandoc``.

    Raises:
        EmbscaleError: Quarto is asked for and is not installed.
    """
    found = None if choice == "pandoc" else quarto.executable()
    if found:
        return Renderer(f"Quarto {quarto.version(found)}", found)
    if choice == "quarto":
        raise EmbscaleError("quarto: not on PATH; install it from quarto.org, or use --renderer pandoc")
    return Renderer(f"pandoc {pandoc.version()}" + (" (no Quarto on this machine)" if choice == "auto" else ""))


def render(source: Path, renderer: Renderer) -> str:
    """The page of a main document, as one HTML text that loads nothing.

    Raises:
        EmbscaleError: the sources hold something broken or outside the shared subset.
    """
    document = qmd.read(source, {"renderer": renderer.label})
    # Also before Quarto: it does not stop at a missing image, an image without words, or a dead link.
    page = pandoc.to_html(document)
    if renderer.quarto:
        page = quarto.to_html(renderer.quarto, source, renderer.label)
    if loaded := offline.loads(page):
        raise EmbscaleError(f"{source}: the page would load {', '.join(loaded)}; embed it (embed-resources: true)")
    return page
