"""Extract one embedding table from a checkpoint of any size, reading little more than the table's bytes.

Only directories of files are read (safetensors headers, pickles, indices), then the table's own bytes,
which are streamed to disk in chunks.  The whole table is never in memory.
"""

from __future__ import annotations

import collections
import itertools
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal

from embscale.checkpoints.families import input_table_names, output_table_names
from embscale.checkpoints.ranges import Source
from embscale.checkpoints.weights import Location, Weights, check_dtype
from embscale.errors import EmbscaleError
from embscale.tables import table_files

# Four requests at a time, 64 MiB in flight: with fewer, a slow connection would be idle between requests.
PIECE = 16 * 1024 * 1024


WORKERS = 4


WhichTable = Literal["input", "output"]


def locate(source: Source, config: dict[str, Any], which: WhichTable, *, name: str | None = None) -> Location:
    """Locate the input or output table of a checkpoint.

    Args:
        source: the folder of checkpoint files.
        config: its ``config.json``.
        which: ``input``, or ``output`` for the table before the softmax, which a tied checkpoint lacks.
        name: the tensor's name, if it differs from those of its family.

    Raises:
        EmbscaleError: there is no such table, or it is not a matrix with one row per token.
    """
    weights = Weights(source)
    family = config["model_type"]
    endings = (name,) if name else input_table_names(family) if which == "input" else output_table_names(family)
    location = weights.find(endings)
    if location is None:
        tied = "; the input table serves as the output table, too" if which == "output" else ""
        raise EmbscaleError(
            f"{source.label('')}: no tensor's name ends with {' or '.join(endings)}{tied}; it holds "
            f"{', '.join(weights.names()[:5])} ..."
        )
    check_dtype(source, location)
    shape = location.tensor.shape
    rows = config.get("text_config", config).get("vocab_size", 1)  # Gemma 3 keeps it one level down
    if len(shape) != 2 or not isinstance(rows, int) or shape[0] < rows or not shape[1]:
        raise EmbscaleError(
            f"{source.label(location.file)}: {location.tensor.name} has the shape {shape}, but config.json promises "
            f"{rows} rows"
        )
    return location


def stream(source: Source, location: Location, part: Path, metadata: dict[str, str]) -> None:
    """Write a table in the format of `tables.save`, in chunks, in its stored dtype.

    `part` may be left from an interrupted run; if that run had the same `metadata`, its complete chunks are reused.
    The caller must ensure that no two processes write the same `part`.

    Raises:
        EmbscaleError: the received bytes do not match the checksum in the checkpoint file; `part` is removed.
    """
    tensor = location.tensor
    header = table_files.header(tensor.dtype, tensor.shape, metadata)
    pieces = [(start, min(start + PIECE, tensor.end)) for start in range(tensor.start, tensor.end, PIECE)]
    with part.open("a+b") as file, ThreadPoolExecutor(WORKERS) as pool:
        missing = iter(pieces[_whole_pieces(file, header, tensor.end - tensor.start) :])

        def ask(count: int) -> Iterator[Future[bytes]]:
            return (pool.submit(source.fetch, location.file, *piece) for piece in itertools.islice(missing, count))

        asked = collections.deque(ask(WORKERS))
        try:
            while asked:
                file.write(asked.popleft().result())
                file.flush()
                asked.extend(ask(1))
        finally:
            pool.shutdown(cancel_futures=True)
        os.fsync(file.fileno())
    if tensor.crc32 is not None and _crc32(part, len(header)) != tensor.crc32:
        part.unlink()
        raise EmbscaleError(
            f"{source.label(location.file)}: the bytes of {tensor.name} do not fit the checksum in the file; what "
            "came was removed, run again"
        )


def _whole_pieces(file: IO[bytes], header: bytes, size: int) -> int:
    """Truncate an unfinished file to the header and complete chunks; returns the number of chunks."""
    file.seek(0)
    begun = file.read(len(header)) == header
    there = file.seek(0, os.SEEK_END) - len(header)
    if begun and there == size:
        return -(-size // PIECE)
    done = there // PIECE if begun and there < size else 0
    file.truncate(len(header) + done * PIECE if done else 0)
    if not done:
        file.write(header)
    return done


def _crc32(path: Path, offset: int) -> int:
    value = 0
    with path.open("rb") as file:
        file.seek(offset)
        while block := file.read(PIECE):
            value = zlib.crc32(block, value)
    return value
