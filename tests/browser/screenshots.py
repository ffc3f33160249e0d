"""Take pictures of pages for a person to look at: light, dark, on a phone, on paper; and the page as PDF.

    python -m browser.screenshots PAGE.html[#view=layers] ... --output DIR --pdf FILE.pdf     (in tests/)

Without a Chromium it says so and exits 77.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from browser import browsing

NO_BROWSER = 77
PICTURE_HEIGHT = 8000  # taller ones exceed what Chromium draws in one piece
PAPER = {"viewport": {"width": 794, "height": 1123}}  # A4 at 96 dots an inch
VIEWS = {
    "light": browsing.DESK,
    "dark": browsing.DESK | {"color_scheme": "dark"},
    "phone": browsing.PHONE,
    "phone-dark": browsing.PHONE | {"color_scheme": "dark"},
    "print": PAPER,
}


def save(page: Page, folder: Path, name: str) -> None:
    """The page in its full height, in as many pictures as that takes."""
    page.wait_for_function("!document.getElementById('library') || document.querySelector('.main-svg')")
    width, height = page.evaluate("[innerWidth, Math.ceil(document.documentElement.getBoundingClientRect().height)]")
    parts = math.ceil(height / PICTURE_HEIGHT)
    for part in range(parts):
        top = part * PICTURE_HEIGHT
        clip = {"x": 0, "y": top, "width": width, "height": min(PICTURE_HEIGHT, height - top)}
        file = folder / (f"{name}.png" if parts == 1 else f"{name}-{part + 1}.png")
        page.screenshot(path=file, clip=clip, full_page=True)


def print_page(browser: Browser, file: Path, output: Path) -> None:
    """A page as PDF, as a reader would print it."""
    context = browser.new_context()
    browsing.Sheet(context).open(file).pdf(path=output, prefer_css_page_size=True, outline=True, tagged=True)
    context.close()


def main() -> int:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", metavar="PAGE.html[#FRAGMENT]")
    parser.add_argument("--output", type=Path, metavar="DIR", help="gets the pictures")
    parser.add_argument("--pdf", type=Path, metavar="FILE.pdf", help="the first page on paper")
    args = parser.parse_args()
    path = browsing.executable()
    if not path:
        print(f"no browser (none of {', '.join(browsing.BROWSERS)}): no pictures were taken", file=sys.stderr)
        return NO_BROWSER
    addresses = [address.partition("#") for address in args.pages]
    with browsing.running(path) as browser:
        if args.pdf:
            print_page(browser, Path(addresses[0][0]), args.pdf)
        for number, (file, mark, fragment) in enumerate(addresses if args.output else [], 1):
            args.output.mkdir(parents=True, exist_ok=True)
            for view, options in VIEWS.items():
                context = browser.new_context(**options)
                page = browsing.Sheet(context).open(Path(file), mark + fragment)
                page.emulate_media(media="print" if view == "print" else "screen")
                save(page, args.output, f"{number}-{Path(file).stem}-{view}")
                context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
