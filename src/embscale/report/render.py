"""Choose a renderer and make the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from embscale.errors import EmbscaleError
from embscale.parameters.kinds import RendererName
from embscale.report import appendix_pages, glossary, offline, pandoc, qmd, quarto

CHOICES: tuple[str, ...] = get_args(RendererName)


@dataclass(frozen=True)
class Renderer:
    """What makes the page: its name for the reader, and Quarto's executable if it is Quarto."""

    label: str
    quarto: str | None = None


def choose(choice: str) -> Renderer:
    """The renderer for ``pandoc`` or ``quarto``.

    Raises:
        EmbscaleError: Quarto is asked for and is not installed.
    """
    if choice == "pandoc":
        return Renderer(f"pandoc {pandoc.version()}")
    if found := quarto.executable():
        return Renderer(f"Quarto {quarto.version(found)}", found)
    raise EmbscaleError("quarto: not on PATH; install it from quarto.org, or choose the renderer pandoc")


def render(source: Path, renderer: Renderer, appendix: str | None = None, **extra: Any) -> str:  # noqa: ANN401 (metadata)
    """The page of a main document, as one HTML text that loads nothing.

    Args:
        source: the main document.
        renderer: what makes the page.
        appendix: address of the folder with the pages by chapter, where sections marked ``.own-page`` are then read;
            without it they stay on the page.
        extra: metadata that the document cannot set itself, such as ``commit``.

    Raises:
        EmbscaleError: the sources hold something broken or outside the shared subset.
    """
    document = qmd.read(source, {"renderer": renderer.label, **extra})
    # Also before Quarto: it does not stop at a missing image, an image without words, or a dead link.
    page = pandoc.to_html(document)
    if renderer.quarto:
        page = quarto.to_html(renderer.quarto, source, {"renderer": renderer.label, **extra})
    if appendix:
        page = appendix_pages.main_page(page, appendix)
    page = glossary.explain(page, glossary.read(source.parent))
    if loaded := offline.loads(page):
        raise EmbscaleError(f"{source}: the page would load {', '.join(loaded)}; embed it (embed-resources: true)")
    return page


def render_chapters(source: Path, **extra: Any) -> dict[str, bytes]:  # noqa: ANN401 (metadata)
    """The same as pages by chapter, made by pandoc: what each file holds, by its path.

    Raises:
        EmbscaleError: as `render`.
    """
    files = pandoc.to_chapters(qmd.read(source, {"renderer": choose("pandoc").label, **extra}))
    terms = glossary.read(source.parent)
    for name, content in files.items():
        if not name.endswith(".html"):
            continue
        text = glossary.explain(content.decode("utf-8"), terms)
        files[name] = text.encode("utf-8")
        loaded = offline.loads(text)
        if foreign := [target for target in loaded if target not in files]:
            raise EmbscaleError(f"{source}: {name} would load {', '.join(foreign)}; put it below the document's folder")
    return files
