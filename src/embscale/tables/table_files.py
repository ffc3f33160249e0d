"""Embedding tables on disk: the format, and how to read tables larger than memory.

A table is a matrix ``[rows, dims]`` whose row i is the vector of token i (Corey, "Methodology").
`embscale.tables.variants` changes tables, `embscale.tables.random_tables` draws them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale.checkpoints.dtypes import STORED, to_float32
from embscale.errors import EmbscaleError, words_of

TENSOR = "table"

# Which of a model's tables a file contains.  An effective table is the input table as block 1 receives it.
INPUT, OUTPUT, EFFECTIVE = "input", "output", "effective"


# Rows per block when a table may not fit into memory.
BLOCK_ROWS = 1024


def header(dtype: str, shape: tuple[int, ...], metadata: dict[str, str]) -> bytes:
    """The header of a safetensors file that contains one table and nothing else.

    Args:
        dtype: its safetensors name, such as ``BF16``.
        shape: ``(rows, dims)``.
        metadata: stored beside the table.
    """
    size = math.prod(shape) * np.dtype(STORED[dtype]).itemsize
    entries = {
        "__metadata__": metadata,
        TENSOR: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]},
    }
    text = json.dumps(entries, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)  # the format requires aligned data
    return len(text).to_bytes(8, "little") + text


def save(path: Path, table: np.ndarray, metadata: dict[str, str]) -> None:
    """Write a table as the only tensor of a safetensors file."""
    save_file({TENSOR: np.ascontiguousarray(table)}, path, metadata)


def join(blocks: Iterable[np.ndarray], rows: int) -> np.ndarray:
    """Join blocks of rows into one array ``[rows, dims]``, filled block by block to avoid a second copy."""
    whole, filled = None, 0
    for block in blocks:
        if whole is None:
            whole = np.empty((rows, block.shape[1]), block.dtype)
        whole[filled : filled + len(block)] = block
        filled += len(block)
    assert whole is not None and filled == rows
    return whole


def chosen(blocks: Iterable[np.ndarray], rows: np.ndarray) -> Iterator[np.ndarray]:
    """Select rows (ascending) from a table that is read in blocks."""
    start = 0
    for block in blocks:
        yield block[within(rows, start, start + len(block))]
        start += len(block)


def within(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Which of the given rows (ascending) are in a block, relative to its first row."""
    low, high = np.searchsorted(rows, [start, stop])
    return rows[low:high] - start


def memory_map(path: Path) -> tuple[np.ndarray, str]:
    """Memory-map a table ``[rows, dims]`` in its stored dtype; also returns the safetensors name of the dtype.

    Raises:
        EmbscaleError: the file is missing, truncated or holds no table.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            entry = file.get_slice(TENSOR)
            dtype, shape = entry.get_dtype(), tuple(entry.get_shape())
            alone = len(file.keys()) == 1
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale extract") from None
    except SafetensorError as error:
        raise EmbscaleError(f"{path}: not a table ({words_of(error)}); remove it and make it again") from error
    if dtype not in STORED or len(shape) != 2 or not alone or 0 in shape:
        raise EmbscaleError(f"{path}: expected a matrix of floating-point numbers alone, found {dtype} {shape}")
    # The format has no gaps: the only tensor ends where the file ends.
    offset = path.stat().st_size - math.prod(shape) * np.dtype(STORED[dtype]).itemsize
    return np.memmap(path, STORED[dtype], mode="r", offset=offset, shape=shape), dtype


def which(path: Path) -> str:
    """Which of a model's tables a file contains, as recorded by ``embscale extract``; by default the input table.

    Raises:
        EmbscaleError: the file is missing or no safetensors file.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("table", INPUT)
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale extract") from None
    except SafetensorError as error:
        raise EmbscaleError(f"{path}: not a table ({words_of(error)}); remove it and make it again") from error


def load(path: Path) -> np.ndarray:
    """Read a table as float32 ``[rows, dims]``.

    Raises:
        EmbscaleError: the file is missing, truncated or holds no table, or a value is not finite.
    """
    return Stored.open(path)[:]


@dataclass(frozen=True)
class Stored:
    """A table on disk that reads rows as float32 on demand and caches nothing.

    Attributes:
        path: the file.
        dtype: safetensors name of its stored dtype.
        shape: ``(rows, dims)``.
        offset: of the first value in the file.
    """

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def open(cls, path: Path) -> Stored:
        """Locate the values in the file.

        Raises:
            EmbscaleError: the file is missing, truncated or holds no table.
        """
        stored, dtype = memory_map(path)
        return cls(path, dtype, stored.shape, path.stat().st_size - stored.nbytes)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Rows one after the other, float32 ``[rows, dims]``.

        Raises:
            EmbscaleError: a value is not finite.
        """
        (start, stop, step), dims = rows.indices(len(self)), self.shape[1]
        if step != 1:
            raise ValueError(f"rows {rows}: only rows that follow each other can be read")
        # Read instead of mapped: mapped pages would stay in this process until the whole table is in memory.
        first = self.offset + start * dims * np.dtype(STORED[self.dtype]).itemsize
        raw = np.fromfile(self.path, STORED[self.dtype], max(stop - start, 0) * dims, offset=first)
        block = to_float32(raw, self.dtype).reshape(-1, dims)
        if not np.isfinite(block).all():
            raise EmbscaleError(f"{self.path}: holds values that are not finite numbers, in the shape {self.shape}")
        return block


@dataclass(frozen=True)
class Inspection:
    """Result of inspecting every value of a table.

    Attributes:
        sha256: digest of the values' bytes as they are stored.
        rows: number of rows.
        rows_not_finite: rows with a value that is infinite or not a number.
        rows_zero: rows of zeros only.
    """

    sha256: str
    rows: int
    rows_not_finite: int
    rows_zero: int

    @property
    def complaints(self) -> list[str]:
        """Complaints as text; empty for a valid table.  A few zero rows are normal: padding, tokens never seen."""
        complaints = []
        if self.rows_not_finite:
            complaints.append(f"{self.rows_not_finite} of {self.rows} rows hold values that are not finite numbers")
        if self.rows_zero == self.rows:
            complaints.append("every value is zero")
        return complaints


def inspect(path: Path) -> Inspection:
    """Inspect every value of a table, one block of rows at a time, in constant memory."""
    stored, dtype = memory_map(path)
    rows, dims = stored.shape
    digest, rows_not_finite, rows_zero = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        # Reading instead of mapping keeps the pages out of this process.
        file.seek(-stored.nbytes, os.SEEK_END)
        for start in range(0, rows, BLOCK_ROWS):
            raw = np.fromfile(file, STORED[dtype], min(BLOCK_ROWS, rows - start) * dims)
            digest.update(raw.data)
            block = to_float32(raw, dtype).reshape(-1, dims)
            rows_not_finite += int((~np.isfinite(block)).any(axis=1).sum())
            rows_zero += int((~block.any(axis=1)).sum())
    return Inspection(digest.hexdigest(), rows, rows_not_finite, rows_zero)
