"""Open pages in Debian's Chromium with Playwright, shut off from every network."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A request that should not be there shall be seen, and not leave the machine.
FLAGS = ["--disable-gpu", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]
DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
PATIENCE = 30_000  # milliseconds; the machine may be busy


def executable() -> str | None:
    """Where the browser is installed, if it is."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextlib.contextmanager
def running(path: str) -> Iterator[Browser]:
    """The browser, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Sheet:
    """A page that is open, with all that it put on the console and all that it asked for."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, file: Path, fragment: str = "") -> Page:
        """Open a file, complete with what its scripts make."""
        self.page.goto("about:blank")  # only the fragment changes: the page would not be loaded anew
        self.page.goto(file.resolve().as_uri() + fragment)
        return self.page

    def foreign(self, file: Path) -> list[str]:
        """What was asked for beside the file itself; data: and blob: addresses are parts of it."""
        own = file.resolve().as_uri()
        return [url for url in self.requests if not url.startswith((own, "data:", "blob:", "about:"))]


def problems(page: Page) -> list[str]:
    """What axe-core finds to be serious or critical on a page, one line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{problem['id']} ({problem['impact']}): {problem['help']}: {[node['html'][:160] for node in problem['nodes']]}"
        for problem in found
        if problem["impact"] in ("serious", "critical")
    ]


STICKING_OUT = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .filter(e => { for (let p = e.parentElement; p; p = p.parentElement)
                   if (getComputedStyle(p).overflowX !== 'visible') return false; return true; })
  .slice(0, 5).map(e => e.tagName + '.' + e.className)
"""


def sticking_out(page: Page) -> list[str]:
    """The elements with which a page is wider than its window; those in a box that scrolls by itself are not."""
    found: list[Any] = page.evaluate(STICKING_OUT)
    return found
