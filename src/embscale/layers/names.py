"""Names of layers, and of sets of positions, in files and rows."""

from __future__ import annotations

ALL, AFTER_FIRST = "all", "after_first"  # which positions


EMBEDDING = "embedding"


BLOCK_INPUT = "block input"


FINAL_NORM = "final norm"
