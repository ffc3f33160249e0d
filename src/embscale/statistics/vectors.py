"""Sets of vectors: read in chunks, raw or scaled to unit norm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

RAW, UNIT = "raw", "unit"
SCALINGS = (RAW, UNIT)

# Vectors read at a time from each layer.
CHUNK = 4096


def scaled(values: np.ndarray, scaling: str) -> np.ndarray:
    """Vectors ``[..., width]`` in float64, raw or scaled to norm 1."""
    values = np.asarray(values, np.float64)
    if scaling == RAW:
        return values
    return values / or_one(np.linalg.norm(values, axis=-1, keepdims=True))


def or_one(lengths: np.ndarray) -> np.ndarray:
    """Lengths to divide by: those of zero, which have no direction, become 1; the others stay, however short."""
    return np.where(lengths == 0, 1, lengths)


def rescaled(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The values times the power of two that brings the largest below 1: exact, and their powers stay in range.

    Args:
        values: of any shape.
        axis: along which values share a power; by default all do.
    """
    _, exponent = np.frexp(np.abs(values).max(axis=axis, keepdims=True, initial=0))
    return np.ldexp(values, -exponent)


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    """Slices that cover the given number of vectors."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
