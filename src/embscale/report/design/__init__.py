"""How the pages look: templates, style and pandoc's filters, in a folder that rendering alone reads."""

from pathlib import Path

HERE = Path(__file__).parent
TEMPLATE, CHAPTER = HERE / "template.html", HERE / "chapter.html"
PARTIALS = [HERE / "head.html", HERE / "masthead.html", HERE / "contents.js", HERE / "figures.js", HERE / "ledger.js"]
FILTERS = [HERE / "check_subset.lua", HERE / "quarto_subset.lua"]
QUARTO_FILTER = HERE / "quarto_page.lua"
ELEMENTS = HERE / "elements.lua"  # of the filters
STYLE = HERE / "style.css"
# Of the report on paper: Typst's template, the elements on paper, and what paper leaves to the page.
PAPER, PAPER_FILTER, PAPER_ELEMENTS = HERE / "paper.typ", HERE / "paper.lua", HERE / "elements_paper.lua"
