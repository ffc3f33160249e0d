"""Hold a page to its promise to load nothing: no script, style, image or font from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# Attributes whose target a browser fetches by itself.  Only a link's href waits for a click.
FETCHED = {"src", "srcset", "href", "xlink:href", "poster", "data", "background"}
WAITS_FOR_CLICK = {"a", "area"}
EMBEDDED = re.compile(r"\s*(data:|#|about:|$)")
STYLE_LOADS = re.compile(r"""(?:@import\s+|url\(\s*)["']?\s*(?!data:|#|url\(|["'\s])([^"')\s;]+)""")


class _Loads(HTMLParser):
    """Collects what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at the attributes that name a file."""
        self.in_style = tag == "style"
        for name, value in attrs:
            if name == "style":
                self.found += STYLE_LOADS.findall(value or "")
            elif name in FETCHED and tag not in WAITS_FOR_CLICK and not EMBEDDED.match(value or ""):
                self.found.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        """Leave a style sheet."""
        self.in_style = False

    def handle_data(self, data: str) -> None:
        """Look into a style sheet."""
        if self.in_style:
            self.found += STYLE_LOADS.findall(data)


def loads(page: str) -> list[str]:
    """The addresses that a browser would fetch when it opens `page`, in the order of the page."""
    parser = _Loads()
    parser.feed(page)
    parser.close()
    return parser.found
