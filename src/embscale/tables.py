"""Embedding tables on disk, and the ways to change one: each a pure function from table to table.

A table is a matrix ``[rows, dims]`` whose row i is the vector of token i (Corey, "Methodology").
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale.errors import EmbscaleError

TENSOR = "table"


def save(path: Path, table: np.ndarray, metadata: dict[str, str]) -> None:
    """Write a table as the only tensor of a safetensors file."""
    save_file({TENSOR: np.ascontiguousarray(table)}, path, metadata)


def load(path: Path) -> np.ndarray:
    """Read a table as float32 ``[rows, dims]``.

    Raises:
        EmbscaleError: the file is missing, truncated or holds no table, or a value is not finite.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            table = file.get_tensor(TENSOR)
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale extract") from None
    except SafetensorError as error:
        raise EmbscaleError(f"{path}: not a table ({error}); remove it and make it again") from error
    if table.ndim != 2 or not np.isfinite(table).all():
        raise EmbscaleError(f"{path}: expected a matrix of finite numbers, found the shape {table.shape}")
    return table.astype(np.float32, copy=False)


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
