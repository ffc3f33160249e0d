"""Turn a document into a PDF that looks like a paper: pandoc writes Typst, which the `typst` package sets."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import matplotlib

from embscale.errors import EmbscaleError
from embscale.report import design, pandoc
from embscale.report.qmd import Document

DESIGN = [design.PAPER, design.PAPER_FILTER, design.PAPER_ELEMENTS, *design.FILTERS, design.ELEMENTS]
SOURCE = "paper.typ"


def to_pdf(document: Document) -> bytes:
    """The report on paper: its main text, then the appendix; folds and the test of each claim are left to the page.

    Raises:
        EmbscaleError: as `embscale.report.pandoc.to_html`, or Typst refuses what pandoc wrote.
    """
    import typst

    folder = document.source.parent
    fonts = [str(Path(matplotlib.get_data_path(), "fonts", "ttf"))]  # of the figures; Typst brings the others
    # Typst reads nothing above its root, which holds the images and what it sets.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".paper-") as scratch:
        source = Path(scratch, SOURCE)
        pandoc.convert(document, "typst", [f"--template={design.PAPER}", f"--lua-filter={design.PAPER_FILTER}"], source)
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
