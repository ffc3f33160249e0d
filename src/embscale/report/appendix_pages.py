"""The main page without its appendix: sections marked ``.own-page`` are read on the pages by chapter instead.

Both renderers make the whole document first, so that numbers, references and citations are those of all of it; the
sections are then taken out of the finished HTML, and every link into one of them leads to its page.
"""

from __future__ import annotations

import re

OWN_PAGE = "own-page"

SECTION = re.compile(r"<section\b(?P<attributes>[^>]*)>|(?P<end></section>)")
ITEM = re.compile(r"<li\b[^>]*>|(?P<end></li>)")
ID = re.compile(r'\sid="([^"]+)"')
CLASSES = re.compile(r'\sclass="([^"]*)"')
INNER_LINK = re.compile(r'(?P<before><a\b[^>]*?\shref=")#(?P<id>[^"]+)"')
CONTENTS = re.compile(r'<nav class="contents".*?</nav>', re.DOTALL)


def main_page(page: str, chapters: str) -> str:
    """The page without the sections that have a page of their own, and without their lines in its contents.

    Args:
        page: the whole document as HTML.
        chapters: the folder with the pages by chapter, as an address from this page.
    """
    places: dict[str, str] = {}
    kept, start = [], 0
    for begin, end, name in _own_pages(page):
        part = page[begin:end]
        places |= {inner: f"{chapters}/{name}.html#{inner}" for inner in ID.findall(part)}
        places[name] = f"{chapters}/{name}.html"
        kept.append(page[start:begin])
        start = end
    text = "".join([*kept, page[start:]])
    text = CONTENTS.sub(lambda match: _without_lines(match[0], places), text)
    return INNER_LINK.sub(
        lambda match: f'{match["before"]}{places[match["id"]]}"' if match["id"] in places else match[0], text
    )


def _own_pages(page: str) -> list[tuple[int, int, str]]:
    """Where each such section begins and ends, and its label."""
    found: list[tuple[int, int, str]] = []
    open_at: list[tuple[int, str | None]] = []
    for tag in SECTION.finditer(page):
        if not tag["end"]:
            attributes = tag["attributes"]
            classes, label = CLASSES.search(attributes), ID.search(attributes)
            marked = label and classes and OWN_PAGE in classes[1].split()
            open_at.append((tag.start(), label[1] if marked and label else None))
        else:
            begin, name = open_at.pop()
            if name:
                found.append((begin, tag.end(), name))
    return found


def _without_lines(contents: str, places: dict[str, str]) -> str:
    """The table of contents without the entries that lead to other pages; those below them go with them."""
    while True:
        entry = next((match for match in INNER_LINK.finditer(contents) if match["id"] in places), None)
        if entry is None:
            return contents
        begin = contents.rindex("<li", 0, entry.start())
        depth = 0
        for tag in ITEM.finditer(contents, begin):
            depth += -1 if tag["end"] else 1
            if depth == 0:
                contents = contents[:begin] + contents[tag.end() :]
                break
