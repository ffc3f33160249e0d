"""Choose some of a list, evenly spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """So many of the items, in their order, evenly spread from the last to the first; all if there are no more."""
    count = min(count, len(items))
    apart = (len(items) - 1) / max(1, count - 1)
    return [items[-1 - round(apart * place)] for place in reversed(range(count))]
