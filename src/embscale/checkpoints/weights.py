"""The tensors of a checkpoint: which files hold its weights, and where each tensor lies in them.

Only directories of files are read (safetensors headers, pickles, indices), and small tensors that are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embscale.checkpoints import dtypes
from embscale.checkpoints.containers import StoredTensor, directory, index
from embscale.checkpoints.ranges import Source, open_file, read_whole
from embscale.errors import EmbscaleError

# Files that may contain the weights, in order of preference: for each format, the single file, then the index of its
# shards.
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
TOKENIZER_FILES = ("tokenizer.json", "spiece.model", "vocab.json", "merges.txt")


@dataclass(frozen=True)
class Location:
    """Location of a tensor.

    Attributes:
        file: name of the checkpoint file.
        tensor: its entry in the file's directory.
    """

    file: str
    tensor: StoredTensor


def read_config(source: Source) -> dict[str, Any]:
    """The ``config.json`` of a checkpoint.

    Raises:
        EmbscaleError: it is missing, or not a JSON object with a ``model_type``.
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
    """Names of the files with a checkpoint's weights; an index comes after its shards.

    A repository can hold the weights of several checkpoints or formats; these are the ones that transformers loads.

    Raises:
        EmbscaleError: there are no weights, or a shard named by the index is missing.
    """
    name = _main_file(source)
    return [*sorted(set(_shards(source, name).values())), name]


def _main_file(source: Source) -> str:
    """The single file of weights, or the index of the shards."""
    present = source.files()
    for name in WEIGHTS:
        if name in present:
            return name
    raise EmbscaleError(f"{source.label('')}: holds none of {', '.join(WEIGHTS)}")


def _shards(source: Source, name: str) -> dict[str, str]:
    """The shard of every tensor; empty if the file is not an index."""
    if not name.endswith(".index.json"):
        return {}
    shards = index(read_whole(source, name), label=source.label(name))
    for shard in sorted(set(shards.values()) - set(source.files())):
        raise EmbscaleError(f"{source.label(shard)}: no such file, though {name} names it")
    return shards


class Weights:
    """The directory of a checkpoint's tensors; a shard is opened only when needed.

    Args:
        source: the folder of checkpoint files.

    Raises:
        EmbscaleError: it contains no weights, or a shard named by the index is missing.
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
        """The tensor that matches the first of `endings` that any tensor matches, as a dotted suffix of its name.

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
        return dtypes.to_float32(np.frombuffer(data, dtypes.STORED[found.tensor.dtype]), found.tensor.dtype).reshape(
            found.tensor.shape
        )

    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._shards)


def check_dtype(source: Source, found: Location) -> None:
    """Stop at values that are not plain floating-point numbers.

    Raises:
        EmbscaleError: a quantised or integer tensor.
    """
    if found.tensor.dtype not in dtypes.STORED:
        raise EmbscaleError(
            f"{source.label(found.file)}: {found.tensor.name} is stored as {found.tensor.dtype}; "
            f"only {', '.join(dtypes.STORED)} can be read"
        )
