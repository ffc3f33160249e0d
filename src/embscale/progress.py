"""Progress of a long step: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

SECONDS_BETWEEN_LINES = 10.0


def progress(name: str, total: int) -> Callable[[int, str], None]:
    """A function to call with the number of finished units and a short description."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(total=total, desc=name, leave=True)

        def draw(done: int, word: str) -> None:
            bar.set_postfix_str(word, refresh=False)
            bar.update(done - bar.n)
            if done == total:
                bar.close()

        return draw

    last = -SECONDS_BETWEEN_LINES

    def write(done: int, word: str) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= SECONDS_BETWEEN_LINES:
            last = now
            print(f"{name}: {done}/{total} {word}", file=sys.stderr, flush=True)

    return write
