"""Embedding tables on disk, and the ways to change one: each a pure function from table to table.

A table is a matrix ``[rows, dims]`` whose row i is the vector of token i (Corey, "Methodology").
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale.errors import EmbscaleError

TENSOR = "table"


# How each dtype that a checkpoint may store a table in is read.  numpy has no bfloat16: its bits are taken as integers.
STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

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


def to_float32(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Values as float32, the bits of a bfloat16 being the upper half of a float32's."""
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)


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


def load(path: Path) -> np.ndarray:
    """Read a table as float32 ``[rows, dims]``.

    Raises:
        EmbscaleError: the file is missing, truncated or holds no table, or a value is not finite.
    """
    stored, dtype = memory_map(path)
    table = to_float32(np.array(stored), dtype)
    if not np.isfinite(table).all():
        raise EmbscaleError(f"{path}: holds values that are not finite numbers, in the shape {table.shape}")
    return table


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
        found = []
        if self.rows_not_finite:
            found.append(f"{self.rows_not_finite} of {self.rows} rows hold values that are not finite numbers")
        if self.rows_zero == self.rows:
            found.append("every value is zero")
        return found


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


def sha256(table: np.ndarray) -> str:
    """Digest of a table's shape and bytes."""
    digest = hashlib.sha256(f"{table.dtype.str}{table.shape}".encode())
    digest.update(np.ascontiguousarray(table).data)
    return digest.hexdigest()


def random(rows: int, dims: int, *, seed: int) -> np.ndarray:
    """Independent normal values of variance 1/dims: rows of length about 1.

    Cosine scores do not depend on the scale.
    """
    return np.random.default_rng(seed).standard_normal((rows, dims), dtype=np.float32) / np.float32(np.sqrt(dims))


def parse_random(text: str) -> tuple[int, int, int]:
    """Rows, columns and seed of ``random:ROWSxDIMS:SEED``.

    Raises:
        EmbscaleError: the text has another form.
    """
    match = re.fullmatch(r"random:(\d+)x(\d+):(\d+)", text)
    if match is None:
        raise EmbscaleError(f"table {text!r}: expected random:ROWSxDIMS:SEED")
    rows, dims, seed = map(int, match.groups())
    return rows, dims, seed


def crop(table: np.ndarray, dims: int) -> np.ndarray:
    """The first `dims` columns; the table itself if it has no more (Corey, `crop`)."""
    return table[:, :dims]


def pad(table: np.ndarray, dims: int, *, seed: int, matched: bool) -> np.ndarray:
    """The table with random columns appended up to `dims` in all; itself if it has as many (Corey, `pad`).

    Args:
        table: ``[rows, d]``.
        dims: columns of the result.
        seed: seed of the random columns.
        matched: give the random columns the table's root mean square, so that each column, trained
            or random, weighs the same.  Otherwise their standard deviation is that of the study,
            ``sqrt(2 / (rows + dims))`` (xavier normal), whatever the table's scale.
    """
    rows, trained = table.shape
    if dims <= trained:
        return table
    scale = root_mean_square(table) if matched else np.sqrt(2 / (rows + dims))
    noise = np.random.default_rng(seed).standard_normal((rows, dims - trained), dtype=np.float32)
    return np.concatenate([table, noise * np.float32(scale)], axis=1)


def root_mean_square(table: np.ndarray) -> float:
    """Root mean square of all values."""
    return float(np.sqrt(np.mean(np.square(table, dtype=np.float64))))


@dataclass(frozen=True)
class Variant:
    """A named way to change a table: ``full``, ``crop:DIMS``, ``pad:DIMS:SEED`` or ``pad_rms:DIMS:SEED``.

    Attributes:
        kind: the first word, as it stands in the column ``variant``.
        dims: columns asked for; None for ``full``.
        seed: seed of random columns, if there are any.
    """

    kind: str
    dims: int | None = None
    seed: int | None = None

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read the form above.

        Raises:
            EmbscaleError: the text has another form.
        """
        kind, *numbers = text.split(":")
        expected = {"full": 0, "crop": 1, "pad": 2, "pad_rms": 2}.get(kind)
        if expected != len(numbers) or not all(number.isdecimal() for number in numbers):
            raise EmbscaleError(f"variant {text!r}: expected full, crop:DIMS, pad:DIMS:SEED or pad_rms:DIMS:SEED")
        return cls(kind, *map(int, numbers))

    def apply(self, table: np.ndarray) -> np.ndarray:
        """The changed table."""
        if self.dims is None:
            return table
        if self.kind == "crop":
            return crop(table, self.dims)
        assert self.seed is not None  # parse gives every pad a seed
        return pad(table, self.dims, seed=self.seed, matched=self.kind == "pad_rms")
