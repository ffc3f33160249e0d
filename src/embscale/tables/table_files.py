"""Embedding tables on disk: the format, and ways to read one that may not fit into memory.

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
from embscale.errors import EmbscaleError

TENSOR = "table"

# Which of a model's tables a file holds.  An effective one is the input table as block 1 receives its rows.
INPUT, OUTPUT, EFFECTIVE = "input", "output", "effective"


# Rows that are looked at together where a whole table may not fit into memory.
BLOCK_ROWS = 1024


def header(dtype: str, shape: tuple[int, ...], metadata: dict[str, str]) -> bytes:
    """The beginning of a safetensors file that holds one table and nothing else.

    Args:
        dtype: the format's word for it, such as ``BF16``.
        shape: ``(rows, dims)``.
        metadata: what is kept beside the table.
    """
    size = math.prod(shape) * np.dtype(STORED[dtype]).itemsize
    entries = {
        "__metadata__": metadata,
        TENSOR: {"dtype": dtype, "shape": list(shape), "data_offsets": [0, size]},
    }
    text = json.dumps(entries, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    return len(text).to_bytes(8, "little") + text


def save(path: Path, table: np.ndarray, metadata: dict[str, str]) -> None:
    """Write a table as the only tensor of a safetensors file."""
    save_file({TENSOR: np.ascontiguousarray(table)}, path, metadata)


def join(blocks: Iterable[np.ndarray], rows: int) -> np.ndarray:
    """Blocks of rows as one array ``[rows, dims]`` of their dtype, filled as they come: nothing is held twice."""
    whole, filled = None, 0
    for block in blocks:
        if whole is None:
            whole = np.empty((rows, block.shape[1]), block.dtype)
        whole[filled : filled + len(block)] = block
        filled += len(block)
    assert whole is not None and filled == rows
    return whole


def chosen(blocks: Iterable[np.ndarray], rows: np.ndarray) -> Iterator[np.ndarray]:
    """Some rows (ascending) of a table that comes in blocks from top to bottom."""
    start = 0
    for block in blocks:
        yield block[within(rows, start, start + len(block))]
        start += len(block)


def within(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Those of some rows (ascending) that are in a block, counted from its first."""
    low, high = np.searchsorted(rows, [start, stop])
    return rows[low:high] - start


def memory_map(path: Path) -> tuple[np.ndarray, str]:
    """A table ``[rows, dims]`` as it is stored, read only where it is touched, and the format's word for its dtype.

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
        raise EmbscaleError(f"{path}: not a table ({error}); remove it and make it again") from error
    if dtype not in STORED or len(shape) != 2 or not alone or 0 in shape:
        raise EmbscaleError(f"{path}: expected a matrix of floating-point numbers alone, found {dtype} {shape}")
    # The format leaves no gap: the only tensor ends where the file ends.
    offset = path.stat().st_size - math.prod(shape) * np.dtype(STORED[dtype]).itemsize
    return np.memmap(path, STORED[dtype], mode="r", offset=offset, shape=shape), dtype


def which(path: Path) -> str:
    """Which of a model's tables a file holds, as ``embscale extract`` wrote it; the input table where it says nothing.

    Raises:
        EmbscaleError: the file is missing or no safetensors file.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("table", INPUT)
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale extract") from None
    except SafetensorError as error:
        raise EmbscaleError(f"{path}: not a table ({error}); remove it and make it again") from error


def load(path: Path) -> np.ndarray:
    """Read a table as float32 ``[rows, dims]``.

    Raises:
        EmbscaleError: the file is missing, truncated or holds no table, or a value is not finite.
    """
    return Stored.open(path)[:]


@dataclass(frozen=True)
class Stored:
    """A table on disk that gives rows as float32 when they are asked for, and holds none.

    Attributes:
        path: the file.
        dtype: the format's word for what it is stored in.
        shape: ``(rows, dims)``.
        offset: where in the file the values begin.
    """

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def open(cls, path: Path) -> Stored:
        """Look where the values lie.

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
        # Read instead of mapped: pages of a map stay in this process, until all of the table would be in memory.
        first = self.offset + start * dims * np.dtype(STORED[self.dtype]).itemsize
        raw = np.fromfile(self.path, STORED[self.dtype], max(stop - start, 0) * dims, offset=first)
        block = to_float32(raw, self.dtype).reshape(-1, dims)
        if not np.isfinite(block).all():
            raise EmbscaleError(f"{self.path}: holds values that are not finite numbers, in the shape {self.shape}")
        return block


@dataclass(frozen=True)
class Inspection:
    """What a look at every value of a table shows.

    Attributes:
        sha256: digest of the values' bytes as they are stored.
        rows: number of rows.
        rows_not_finite: rows with a value that is infinite or not a number.
        rows_zero: rows of zeros alone.
    """

    sha256: str
    rows: int
    rows_not_finite: int
    rows_zero: int

    @property
    def complaints(self) -> list[str]:
        """In words; empty for a healthy table.  A few rows of zeros are usual: padding, tokens never seen."""
        complaints = []
        if self.rows_not_finite:
            complaints.append(f"{self.rows_not_finite} of {self.rows} rows hold values that are not finite numbers")
        if self.rows_zero == self.rows:
            complaints.append("every value is zero")
        return complaints


def inspect(path: Path) -> Inspection:
    """Look at every value of a table once, a block of rows at a time: memory does not grow with the table."""
    stored, dtype = memory_map(path)
    rows, dims = stored.shape
    digest, rows_not_finite, rows_zero = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        # Reading instead of touching the map keeps the pages out of this process.
        file.seek(-stored.nbytes, os.SEEK_END)
        for start in range(0, rows, BLOCK_ROWS):
            raw = np.fromfile(file, STORED[dtype], min(BLOCK_ROWS, rows - start) * dims)
            digest.update(raw.data)
            block = to_float32(raw, dtype).reshape(-1, dims)
            rows_not_finite += int((~np.isfinite(block)).any(axis=1).sum())
            rows_zero += int((~block.any(axis=1)).sum())
    return Inspection(digest.hexdigest(), rows, rows_not_finite, rows_zero)
