"""Random embedding tables: independent ones, and those of Corey 2024, bit for bit.

A random table measures only token overlap, the more exactly the wider it is (Corey, "random").  Corey drew one table of
14,336 columns per vocabulary, in bfloat16 and with the standard deviation of `xavier_normal_`, and used its first
columns for each narrower model: nested tables.  The values for a seed depend on the release of torch, which changed its
bfloat16 generator between 2.11 and 2.12.  So there are two such tables per seed: ``legacy`` (used for all published
scores) and ``current``.  A table may be too large for memory, so all are drawn in blocks of rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from embscale.checkpoints.dtypes import round_to_bfloat16
from embscale.errors import EmbscaleError
from embscale.tables.table_files import BLOCK_ROWS, chosen, join, within

Generator = Literal["legacy", "current"]

# Columns of the widest table in Corey 2024: the width of BLOOM-176B.
COLUMNS = 14336

# Number of values that torch generates at a time, from as many uniform numbers.
RUN = 16

# Rows drawn at a time within a block: few enough for the processor's cache, and for any width a multiple of RUN values.
PIECE_ROWS = 64


@dataclass(frozen=True)
class RandomTable:
    """A random table, specified as ``random:ROWSxDIMS:SEED[:GENERATOR]``.

    Attributes:
        rows: tokens.
        dims: columns.
        seed: from 0 to 2**32 - 1.
        generator: of the nested draw of Corey 2024; None for independent rows.
    """

    rows: int
    dims: int
    seed: int
    generator: Generator | None = None

    @property
    def text(self) -> str:
        """The specification above; the inverse of `parse_random`."""
        return ":".join(["random", f"{self.rows}x{self.dims}", str(self.seed), *filter(None, [self.generator])])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.dims

    def blocks(self) -> Iterator[np.ndarray]:
        """The table from top to bottom, float32 ``[up to BLOCK_ROWS, dims]`` at a time."""
        return blocks(self.rows, self.dims, self.seed, self.generator)


def parse_random(text: str) -> RandomTable:
    """Read ``random:ROWSxDIMS:SEED``, with ``:legacy`` or ``:current`` for the draw of Corey 2024.

    Raises:
        EmbscaleError: the text has another format, there is no row or no column, the seed exceeds 32 bits, or the draw
            of Corey 2024 has fewer columns.
    """
    match = re.fullmatch(r"random:(\d+)x(\d+):(\d+)(?::(legacy|current))?", text, re.ASCII)
    if match is None:
        raise EmbscaleError(f"table {text!r}: expected random:ROWSxDIMS:SEED, or with :legacy or :current at the end")
    rows, dims, seed = map(int, match.groups()[:3])
    try:
        _check(rows, dims, seed, COLUMNS if match[4] else dims)
    except EmbscaleError as error:
        raise EmbscaleError(f"table {text!r}: {error}") from None
    return RandomTable(rows, dims, seed, cast("Generator | None", match[4]))


def independent(rows: int, dims: int, seed: int) -> np.ndarray:
    """Independent normal values of variance 1/dims, float32 ``[rows, dims]``: rows of norm about 1.

    Cosine scores do not depend on the scale.
    """
    return join(blocks(rows, dims, seed), rows)


def faithful(
    rows: int, dims: int, seed: int, generator: Generator = "legacy", columns: int = COLUMNS, *, first: int = 0
) -> np.ndarray:
    """Columns of the table that Corey's code draws, float32 ``[rows, dims - first]``.

    Corey filled a bfloat16 tensor with `torch.nn.init.xavier_normal_` (Glorot and Bengio 2010, eq. 16, as a normal
    distribution of that variance) on the CPU: its deviation is ``sqrt(2 / (rows + columns))``.

    Args:
        rows: rows of the table; they affect only the scale; row r is the same draw in all tables of a width.
        dims: the column before which to stop.
        seed: the argument of `torch.manual_seed`.
        generator: ``legacy`` as in torch up to 2.11, ``current`` as in torch from 2.12 on.
        columns: columns of the whole table from which columns are taken.  A table of another width is another draw.
        first: the column to begin with.

    Raises:
        EmbscaleError: as `blocks`.
    """
    return join(blocks(rows, dims, seed, generator, columns, first=first), rows)


def blocks(
    rows: int,
    dims: int,
    seed: int,
    generator: Generator | None = None,
    columns: int | None = None,
    *,
    first: int = 0,
    only: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Columns of a random table from top to bottom, float32 ``[up to BLOCK_ROWS, dims - first]`` at a time.

    At most one block of a table ``[rows, columns]`` is in memory.

    Args:
        rows: as in `faithful`.
        dims: as in `faithful`.
        seed: as in `faithful`.
        generator: as in `faithful`; None for the values of `independent`.
        columns: columns of the whole table; None for the width in Corey 2024, or for `dims` without a generator.
        first: as in `faithful`.
        only: the rows to return, ascending; all by default.  For draws as in Corey 2024, selecting rows is faster.

    Raises:
        EmbscaleError: there is no row or no column, the seed exceeds 32 bits, more columns are requested than are
            drawn, or a draw as in Corey 2024 would have fewer than 16 values, which torch generates in another way.
    """
    if columns is None:
        columns = COLUMNS if generator else dims
    _check(rows, dims, seed, columns)
    if not 0 <= first < dims:
        raise EmbscaleError(f"columns {first} to {dims}: expected at least one")
    wanted = slice(first, dims)
    if generator is None:
        drawn = _independent(rows, columns, seed, wanted)
        return drawn if only is None else chosen(drawn, only)
    if generator not in get_args(Generator):
        raise EmbscaleError(f"generator {generator!r}: expected {' or '.join(get_args(Generator))}")
    if rows * columns < RUN:
        raise EmbscaleError(f"a draw of {rows} x {columns} values: torch draws fewer than {RUN} in another way")
    only = np.arange(rows) if only is None else only[only < rows]
    if generator == "legacy":
        pieces = _legacy(rows, columns, seed, wanted, only)
    else:
        pieces = chosen(_current(rows, columns, seed, wanted), only)
    return _regrouped(pieces, len(only), dims - first)


def _check(rows: int, dims: int, seed: int, columns: int) -> None:
    if rows < 1 or dims < 1:
        raise EmbscaleError(f"{rows} rows and {dims} columns: expected at least one of each")
    if dims > columns:
        raise EmbscaleError(f"{dims} columns: the draw has {columns}; without a generator a table can have any number")
    if not 0 <= seed < 2**32:
        raise EmbscaleError(f"seed {seed}: expected a number from 0 to 2**32 - 1")


def _independent(rows: int, columns: int, seed: int, wanted: slice) -> Iterator[np.ndarray]:
    generator, scale = np.random.default_rng(seed), np.float32(np.sqrt(columns))
    for start in range(0, rows, BLOCK_ROWS):
        block = generator.standard_normal((min(BLOCK_ROWS, rows - start), columns), dtype=np.float32)
        block /= scale
        yield block[:, wanted]


def _pieces(rows: int) -> Iterator[tuple[int, int]]:
    """First and last row of each piece.

    Torch generates runs of 16 values, and redraws the last 16 of a table if the last run is incomplete.  So all pieces
    but the last consist of complete runs, and the last has at least 16 values, whatever the width.
    """
    starts = list(range(0, max(rows - RUN, 1), PIECE_ROWS))
    return zip(starts, [*starts[1:], rows], strict=True)


def _regrouped(pieces: Iterator[np.ndarray], rows: int, dims: int) -> Iterator[np.ndarray]:
    """Regroup pieces of any number of rows into blocks of BLOCK_ROWS; the last block has the remaining rows."""
    start = filled = 0
    block = np.empty((min(BLOCK_ROWS, rows), dims), np.float32)
    for piece in pieces:
        while len(piece):
            taken = piece[: len(block) - filled]
            block[filled : filled + len(taken)] = taken
            filled, piece = filled + len(taken), piece[len(taken) :]
            if filled == len(block):
                yield block
                start, filled = start + filled, 0
                block = np.empty((min(BLOCK_ROWS, rows - start), dims), np.float32)


def deviation(rows: int, columns: int) -> float:
    """Standard deviation that `xavier_normal_` gives to a table (Glorot and Bengio 2010, eq. 16)."""
    return math.sqrt(2 / (rows + columns))


def _legacy(rows: int, columns: int, seed: int, wanted: slice, only: np.ndarray) -> Iterator[np.ndarray]:
    """The draw of torch up to 2.11: the Box-Muller method on 8-bit uniform numbers, each step rounded to bfloat16.

    A uniform number is the low byte of a word of MT19937.  The first 8 of a run of 16 give the radii, the other 8 the
    angles, so there are 256 x 256 possible cosine values and as many sine values.
    """
    words = np.random.RandomState(seed)
    cosines, sines = _box_muller(deviation(rows, columns))
    # If runs do not cross rows, runs without a requested column are skipped: only their words are drawn.
    runs = slice(wanted.start // RUN, -(-wanted.stop // RUN)) if columns % RUN == 0 else slice(None)
    skipped = (runs.start or 0) * RUN

    def values(drawn: np.ndarray) -> np.ndarray:
        """The values that torch computes from words ``[..., 16]``."""
        place = (drawn[..., :8] << 8) & 0xFF00
        place |= drawn[..., 8:] & 0xFF
        values_out = np.empty(drawn.shape, np.float32)
        values_out[..., :8], values_out[..., 8:] = cosines[place], sines[place]
        return values_out

    for start, stop in _pieces(rows):
        drawn, positions = words.randint(0, 2**32, (stop - start) * columns, dtype=np.uint32), within(only, start, stop)
        if columns % RUN == 0:
            made = values(drawn.reshape(stop - start, -1, RUN)[positions, runs])
            piece = made.reshape(len(positions), made.shape[1] * RUN)
        else:
            flat = np.empty(drawn.shape, np.float32)
            whole = len(flat) // RUN * RUN
            flat[:whole] = values(drawn[:whole].reshape(-1, RUN)).ravel()
            if whole < len(flat):
                flat[-RUN:] = values(words.randint(0, 2**32, RUN, dtype=np.uint32))
            piece = flat.reshape(-1, columns)[positions]
        yield piece[:, wanted.start - skipped : wanted.stop - skipped]


def _box_muller(deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine for every pair of 8-bit uniform numbers (radius first), float32 ``[65536]``.

    Float64 replaces torch's float32: the steps are rounded to bfloat16, so the result does not depend on the last bits,
    and therefore not on a library's logarithm.
    """
    uniform = np.arange(256) / 256
    radius = _rounded(np.sqrt(_rounded(-2 * _rounded(np.log(1 - uniform)))))
    angle = _rounded(2 * np.pi * uniform)
    scale = _rounded(np.array(deviation))
    cosines, sines = (
        (_rounded(_rounded(radius[:, None] * _rounded(wave)) * scale) + 0).astype(np.float32).ravel()
        for wave in (np.cos(angle), np.sin(angle))
    )
    return cosines, sines  # adding the mean, 0, turns -0 into 0


def _rounded(values: np.ndarray) -> np.ndarray:
    return round_to_bfloat16(values.astype(np.float32)).astype(np.float64)


def _current(rows: int, columns: int, seed: int, wanted: slice) -> Iterator[np.ndarray]:
    """The draw of torch from 2.12 on, by torch itself: 24-bit uniform numbers in float32, rounded once at the end.

    Torch computes the logarithm and the cosine differently with and without AVX2: about one value in 8,000 then differs
    by the last bit of bfloat16.  Processors with AVX2 or AVX-512 agree with each other.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    for start, stop in _pieces(rows):
        drawn = torch.empty((stop - start, columns), dtype=torch.bfloat16)
        drawn.normal_(0, deviation(rows, columns), generator=generator)
        yield drawn[:, wanted].float().numpy()
