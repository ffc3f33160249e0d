"""Sets of vectors: read in chunks, raw or scaled to unit norm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

RAW, UNIT = "raw", "unit"


SCALINGS = (RAW, UNIT)


# Vectors read at a time from each layer.
CHUNK = 4096


SHORTEST = 1e-12  # a vector of zeros has no direction


def scaled(values: np.ndarray, scaling: str) -> np.ndarray:
    """Vectors ``[..., width]`` in float64, raw or scaled to norm 1."""
    values = np.asarray(values, np.float64)
    if scaling == RAW:
        return values
    return values / np.linalg.norm(values, axis=-1, keepdims=True).clip(min=SHORTEST)


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    """Slices that cover the given number of vectors."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
