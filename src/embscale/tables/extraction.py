"""Extract one embedding table from a checkpoint of any size, reading little more than the table's bytes.

Only directories of files are read (safetensors headers, pickles, indices), then the table's own bytes,
which are streamed to disk in chunks.  The whole table is never in memory.
"""

from __future__ import annotations

import collections
import hashlib
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

    `part` may be left from an interrupted run; if that run had the same `metadata`, its complete chunks are reused, as
    far as they have the digests that were noted in `digests_of(part)` when they had come and lay on the disk.  The
    caller must ensure that no two processes write the same `part`, and removes both files.

    Raises:
        EmbscaleError: the received bytes do not match the checksum in the checkpoint file; `part` is removed.
    """
    tensor = location.tensor
    header = table_files.header(tensor.dtype, tensor.shape, metadata)
    pieces = [(start, min(start + PIECE, tensor.end)) for start in range(tensor.start, tensor.end, PIECE)]
    noted = digests_of(part)
    with part.open("a+b") as file, ThreadPoolExecutor(WORKERS) as pool:
        done = _whole_pieces(file, header, pieces, noted)
        missing = iter(pieces[len(done) :])
        noted.write_text("".join(done), "utf-8")

        def ask(count: int) -> Iterator[Future[bytes]]:
            return (pool.submit(source.fetch, location.file, *piece) for piece in itertools.islice(missing, count))

        asked = collections.deque(ask(WORKERS))
        try:
            while asked:
                piece = asked.popleft().result()
                file.write(piece)
                file.flush()
                os.fsync(file.fileno())  # the digest must not be there before its bytes
                with noted.open("a", encoding="utf-8") as digests:
                    digests.write(_digest(piece))
                asked.extend(ask(1))
        finally:
            pool.shutdown(cancel_futures=True)
    if tensor.crc32 is not None and _crc32(part, len(header)) != tensor.crc32:
        part.unlink()
        noted.unlink()
        raise EmbscaleError(
            f"{source.label(location.file)}: the bytes of {tensor.name} do not fit the checksum in the file; what "
            "came was removed, run again"
        )


def digests_of(part: Path) -> Path:
    """The file beside an unfinished one with a line for each chunk that has come: its SHA-256."""
    return part.with_name(f"{part.name}.sha256")


def _digest(piece: bytes) -> str:
    return f"{hashlib.sha256(piece).hexdigest()}\n"


def _whole_pieces(file: IO[bytes], header: bytes, pieces: list[tuple[int, int]], noted: Path) -> list[str]:
    """Truncate an unfinished file to the header and the chunks that are as they came; returns their digests."""
    file.seek(0)
    done: list[str] = []
    if file.read(len(header)) == header:
        lines = noted.read_text("utf-8", "replace").splitlines(keepends=True) if noted.is_file() else []
        for (start, end), line in zip(pieces, lines, strict=False):
            if _digest(file.read(end - start)) != line:
                break
            done.append(line)
    if done:
        file.truncate(len(header) + pieces[len(done) - 1][1] - pieces[0][0])
    else:
        file.truncate(0)
        file.write(header)
    return done


def _crc32(path: Path, offset: int) -> int:
    value = 0
    with path.open("rb") as file:
        file.seek(offset)
        while block := file.read(PIECE):
            value = zlib.crc32(block, value)
    return value
