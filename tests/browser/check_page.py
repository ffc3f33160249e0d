"""Open a page from file:// in headless Chromium and hold it to what its reader may expect.

    python tests/browser/check_page.py PAGE.html --screenshots DIR

At the width of a desk and of a phone, in light and in dark colours: nothing on the console, no
request but for the page itself, no sideways scrolling.  Each problem is one line, and the exit
status is 1.  Without a Chromium it says so and exits 77.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

NO_BROWSER = 77
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VIEWS = {"desktop": (1280, 800), "phone": (390, 844)}
# Taller pictures than this exceed what Chromium's compositor draws in one piece.
PICTURE_HEIGHT = 8000

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    # A request that should not be there shall be seen, and not leave the machine.
    "--host-resolver-rules=MAP * ~NOTFOUND",
]

# The elements that stick out, without those inside a box that scrolls by itself.
STICKING_OUT = """
[...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .filter(e => { for (let p = e.parentElement; p; p = p.parentElement)
                   if (getComputedStyle(p).overflowX !== 'visible') return false; return true; })
  .slice(0, 5).map(e => e.tagName.toLowerCase() + (e.className ? '.' + e.className : '')).join(', ')
"""


class Browser:
    """Speaks the DevTools protocol over the two pipes of ``--remote-debugging-pipe``: JSON, ended by a zero byte."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO):
        self.commands, self.answers = commands, answers
        self.last_id = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command and return its result; events that come first are kept."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        self.commands.flush()
        while (answer := self.read()).get("id") != self.last_id:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def read(self) -> dict[str, Any]:
        """The next message of the browser."""
        message = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser has gone away")
            message += byte
        return json.loads(message)

    def wait_for(self, event: str) -> None:
        """Read until an event has come."""
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self.read())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, url: str) -> None:
        """Open a page in a fresh tab and wait until it is complete."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")


@contextlib.contextmanager
def started(executable: str) -> Iterator[Browser]:
    """A running browser with a fresh profile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command_end, commands = _high(os.pipe())
        answers, answer_end = _high(os.pipe())

        def give_pipes() -> None:
            os.dup2(command_end, 3)
            os.dup2(answer_end, 4)

        process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=give_pipes,
        )
        os.close(command_end)
        os.close(answer_end)
        try:
            with os.fdopen(commands, "wb") as write, os.fdopen(answers, "rb") as read:
                browser = Browser(write, read)
                yield browser
                browser.session = None
                browser.call("Browser.close")
        finally:
            process.kill()
            process.wait()


def _high(pipe: tuple[int, int]) -> tuple[int, int]:
    """The pipe on numbers that cannot be mistaken for the child's 3 and 4."""
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in pipe]
    for end in pipe:
        os.close(end)
    return moved[0], moved[1]


def overflow(browser: Browser, view: str) -> list[str]:
    """A complaint if the page is wider than the window."""
    page, window = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    if page <= window:
        return []
    return [f"{view}: scrolls sideways, {page} px wide in {window} px: {browser.evaluate(STICKING_OUT)}"]


def console(events: list[dict[str, Any]]) -> list[str]:
    """What the page put on the console as a warning or an error."""
    found = []
    for event in events:
        params = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
            found.append(f"console: {params['entry']['text']} {params['entry'].get('url', '')}".rstrip())
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("warning", "error", "assert"):
            found.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            found.append(
                "console: " + details.get("exception", {}).get("description", details["text"]).partition("\n")[0]
            )
    return found


def requests(events: list[dict[str, Any]], page: str) -> list[str]:
    """Every request of the page but the one for itself; data: addresses are part of it."""
    urls = [e["params"]["request"]["url"] for e in events if e.get("method") == "Network.requestWillBeSent"]
    return [f"request: {url}" for url in urls if url != page and not url.startswith("data:")]


def save_screenshots(browser: Browser, width: int, folder: Path, name: str) -> None:
    """The page in its full height, in as many pictures as that takes."""
    height = browser.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)")
    parts = math.ceil(height / PICTURE_HEIGHT)
    for part in range(parts):
        top = part * PICTURE_HEIGHT
        clip = {"x": 0, "y": top, "width": width, "height": min(PICTURE_HEIGHT, height - top), "scale": 1}
        picture = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file = folder / (f"{name}.png" if parts == 1 else f"{name}-{part + 1}.png")
        file.write_bytes(base64.b64decode(picture["data"]))


def check(executable: str, page: Path, folder: Path) -> list[str]:
    """Every problem of a page, one line each; screenshots go into `folder`."""
    url = page.resolve().as_uri()
    folder.mkdir(parents=True, exist_ok=True)
    problems = []
    with started(executable) as browser:
        browser.open(url)
        for view, (width, height) in VIEWS.items():
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": view == "phone"}
            browser.call("Emulation.setDeviceMetricsOverride", **metrics)
            for scheme in ("light", "dark"):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                browser.call("Emulation.setEmulatedMedia", features=[feature])
                save_screenshots(browser, width, folder, f"{view}-{scheme}")
            problems += overflow(browser, view)
        problems += console(browser.events) + requests(browser.events, url)
    return problems


def main() -> int:
    """Check one page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, metavar="PAGE.html")
    parser.add_argument("--screenshots", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not executable:
        print(f"no browser: none of {', '.join(BROWSERS)} is on PATH; the page was not checked", file=sys.stderr)
        return NO_BROWSER
    problems = check(executable, args.page, args.screenshots)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
