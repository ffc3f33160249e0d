"""Take one embedding table out of a checkpoint of any size, for little more than the bytes of the table.

Only directories of files are read (safetensors headers, pickles, indices), then the table's own bytes,
which stream to disk in pieces.  They are never held in memory together.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from embscale.checkpoints.containers import StoredTensor, directory, index
from embscale.checkpoints.families import input_table_names, output_table_names
from embscale.checkpoints.ranges import Source, open_file, read_whole
from embscale.errors import EmbscaleError
from embscale.tables import table_files

# Files that may hold the weights, best first: of each format the whole file, then the index of its shards.
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
TOKENIZER_FILES = ("tokenizer.json", "spiece.model", "vocab.json", "merges.txt")

# Four requests at a time, 64 MiB in flight: with fewer, a slow connection leaves the line idle.
PIECE = 16 * 1024 * 1024
WORKERS = 4

WhichTable = Literal["input", "output"]


@dataclass(frozen=True)
class Location:
    """Where a tensor lies.

    Attributes:
        file: name of the checkpoint file.
        tensor: its entry in the file's directory.
    """

    file: str
    tensor: StoredTensor


def read_config(source: Source) -> dict[str, Any]:
    """The ``config.json`` of a checkpoint.

    Raises:
        EmbscaleError: it is missing, or no JSON object with a ``model_type``.
    """
    label = source.label("config.json")
    try:
        config = json.loads(read_whole(source, "config.json"))
    except (ValueError, RecursionError) as error:
        raise EmbscaleError(f"{label}: not JSON ({error})") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise EmbscaleError(f"{label}: names no model_type")
    return config


def weight_files(source: Source) -> list[str]:
    """Names of the files in a folder that hold a checkpoint's weights, an index after the shards that it names.

    A repository can hold the weights of several checkpoints or formats; these are the ones that the library loads.

    Raises:
        EmbscaleError: there are no weights, or an index without the shards that it names.
    """
    name = _main_file(source)
    return [*sorted(set(_shards(source, name).values())), name]


def _main_file(source: Source) -> str:
    """The file of weights, or the index of its shards."""
    present = source.files()
    for name in WEIGHTS:
        if name in present:
            return name
    raise EmbscaleError(f"{source.label('')}: holds none of {', '.join(WEIGHTS)}")


def _shards(source: Source, name: str) -> dict[str, str]:
    """The shard of every tensor; empty for a file that is no index."""
    if not name.endswith(".index.json"):
        return {}
    shards = index(read_whole(source, name), label=source.label(name))
    for shard in sorted(set(shards.values()) - set(source.files())):
        raise EmbscaleError(f"{source.label(shard)}: no such file, though {name} names it")
    return shards


class Weights:
    """The directory of a checkpoint's tensors; of several shards only those that are asked for are opened.

    Args:
        source: the folder of checkpoint files.

    Raises:
        EmbscaleError: it holds no weights, or an index without the shards that it names.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._opened: dict[str, Mapping[str, StoredTensor]] = {}
        name = _main_file(source)
        self._shards = _shards(source, name) or dict.fromkeys(self._directory(name), name)

    def _directory(self, file: str) -> Mapping[str, StoredTensor]:
        if file not in self._opened:
            self._opened[file] = directory(
                open_file(self._source, file), size=self._source.files()[file], label=self._source.label(file)
            )
        return self._opened[file]

    def find(self, endings: tuple[str, ...]) -> Location | None:
        """The only tensor whose name is, or ends with a dot and, the first of `endings` that has one.

        Raises:
            EmbscaleError: several tensors match, or the index names a shard that lacks the tensor.
        """
        for ending in endings:
            matching = [name for name in self._shards if name == ending or name.endswith(f".{ending}")]
            if len(matching) > 1:
                raise EmbscaleError(f"{self._source.label('')}: several tensors end with {ending}: {matching}")
            for name in matching:
                file = self._shards[name]
                if name not in self._directory(file):
                    raise EmbscaleError(f"{self._source.label(file)}: lacks {name}, which the index says it holds")
                return Location(file, self._directory(file)[name])
        return None

    def read(self, endings: tuple[str, ...]) -> np.ndarray | None:
        """A small tensor as float32; None if the checkpoint has none of that name."""
        found = self.find(endings)
        if found is None:
            return None
        check_dtype(self._source, found)
        data = self._source.fetch(found.file, found.tensor.start, found.tensor.end)
        return table_files.to_float32(
            np.frombuffer(data, table_files.STORED[found.tensor.dtype]), found.tensor.dtype
        ).reshape(found.tensor.shape)

    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._shards)


def locate(source: Source, config: dict[str, Any], which: WhichTable, *, name: str | None = None) -> Location:
    """Where the input or output table of a checkpoint lies.

    Args:
        source: the folder of checkpoint files.
        config: its ``config.json``.
        which: ``input``, or ``output`` for the table before the softmax, which a tied checkpoint lacks.
        name: the tensor's name, where it is not one that its family is known for.

    Raises:
        EmbscaleError: there is no such table, or it is not a matrix with a row for every token.
    """
    weights = Weights(source)
    family = config["model_type"]
    endings = (name,) if name else input_table_names(family) if which == "input" else output_table_names(family)
    found = weights.find(endings)
    if found is None:
        tied = "; the input table serves as the output table, too" if which == "output" else ""
        raise EmbscaleError(
            f"{source.label('')}: no tensor's name ends with {' or '.join(endings)}{tied}; it holds "
            f"{', '.join(weights.names()[:5])} ..."
        )
    check_dtype(source, found)
    shape = found.tensor.shape
    rows = config.get("text_config", config).get("vocab_size", 1)  # Gemma 3 keeps it one level down
    if len(shape) != 2 or not isinstance(rows, int) or shape[0] < rows or not shape[1]:
        raise EmbscaleError(
            f"{source.label(found.file)}: {found.tensor.name} has the shape {shape}, but config.json promises "
            f"{rows} rows"
        )
    return found


def check_dtype(source: Source, found: Location) -> None:
    """Stop at values that are not plain floating-point numbers.

    Raises:
        EmbscaleError: a quantised or integer tensor.
    """
    if found.tensor.dtype not in table_files.STORED:
        raise EmbscaleError(
            f"{source.label(found.file)}: {found.tensor.name} is stored as {found.tensor.dtype}; "
            f"only {', '.join(table_files.STORED)} can be read"
        )


def stream(source: Source, location: Location, part: Path, metadata: dict[str, str]) -> None:
    """Write a table in the form of `tables.save`, piece by piece, in the dtype that it is stored in.

    `part` may hold the beginning from an interrupted run.  If that run had the same `metadata`, its whole
    pieces are kept.  The caller sees to it that no two processes write the same `part`.

    Raises:
        EmbscaleError: the checksum that the checkpoint file holds is not that of the bytes that came; `part` is
            removed then.
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
    """Leave the header and whole pieces in a file that a run has begun; say how many pieces."""
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
