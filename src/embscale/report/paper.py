"""Turn a document into a paper: a PDF, for which pandoc writes Typst, or an OpenDocument text for word processors.

Both hold the main text, then the appendix.  Folds and the test of each claim are left to the page; links that lead out
stand in footnotes.  Word and LibreOffice open OpenDocument; Word's own format has no place for drawings as they are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib

from embscale.errors import EmbscaleError
from embscale.report import design, pandoc
from embscale.report.qmd import Document

DESIGN = [design.PAPER, design.PAPER_FILTER, design.PAPER_ELEMENTS, *design.FILTERS, design.ELEMENTS]
FILTER = [f"--lua-filter={design.PAPER_FILTER}"]
SOURCE = "paper.typ"


def to_pdf(document: Document) -> bytes:
    """The report as it is printed.

    Raises:
        EmbscaleError: as `embscale.report.pandoc.to_html`, or Typst refuses what pandoc wrote.
    """
    import typst

    folder = document.source.parent
    fonts = [str(Path(matplotlib.get_data_path(), "fonts", "ttf"))]  # of the figures; Typst brings the others
    # Typst reads nothing above its root, which holds the images and what it sets.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".paper-") as scratch:
        source = Path(scratch, SOURCE)
        pandoc.convert(document, "typst", [f"--template={design.PAPER}", *FILTER], source)
        # Paths in the text start at the document's folder.
        beside = source.read_text("utf-8").replace('image("', f'image("{os.path.relpath(folder, scratch)}/')
        source.write_text(beside, "utf-8")
        try:
            return bytes(
                typst.compile(
                    str(source), root=str(folder), font_paths=fonts, ignore_system_fonts=True, timestamp=0
                )  # equal papers, equal bytes
            )
        except typst.TypstError as error:
            raise EmbscaleError(f"{document.source}: Typst refuses the paper: {str(error).splitlines()[0]}") from error


def to_odt(document: Document) -> bytes:
    """The report as a text for a word processor.

    Raises:
        EmbscaleError: as `embscale.report.pandoc.to_html`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch, "paper.odt")
        os.environ.setdefault("SOURCE_DATE_EPOCH", "0")  # for pandoc: equal texts, equal bytes
        pandoc.convert(document, "odt", FILTER, text)
        return text.read_bytes()


FORMS: dict[str, Callable[[Document], bytes]] = {".pdf": to_pdf, ".odt": to_odt}
