"""Files of hidden states: the vectors of the same tokens at every layer, before the final norm.

`embscale.layers.running` makes them.  A file is a safetensors file whose layout is known before the first forward pass.
Vectors are written as they are computed and memory-mapped when they are read, so a file may be larger than memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale.checkpoints.containers import directory
from embscale.errors import EmbscaleError, words_of
from embscale.layers.names import BLOCK_INPUT, EMBEDDING, FINAL_NORM

if TYPE_CHECKING:
    pass

LAYER = "layer."  # before a layer's name in a file
DESCRIBED = ("text", "position", "token")

# Dtypes a file may contain, by safetensors name.  numpy has no bfloat16; its values fit into float32.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}


@dataclass(frozen=True)
class HiddenStates:
    """Vectors of the same tokens at every layer.

    Attributes:
        arrays: the layers by name, in the order in which a token passes them: ``embedding`` (the stored row),
            ``block input`` (where the family changes a row before block 1), ``block 1`` ... and, after the last
            block, ``final norm``.  Each is ``[vectors, width]``; memory-mapped if it was loaded.
        text: the text that a vector comes from, as an index, int64 ``[vectors]``.
        position: the vector's position in its text, the first token being 0, int64 ``[vectors]``.
        token: the token's id, int64 ``[vectors]``.
        metadata: provenance of the states: text ids, digests, counts.
    """

    arrays: Mapping[str, np.ndarray]
    text: np.ndarray
    position: np.ndarray
    token: np.ndarray
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of all layers."""
        return tuple(self.arrays)

    @property
    def classes(self) -> tuple[str, ...]:
        """The layers that a classifier distinguishes: the input of block 1 and the output of each block.

        The final norm's output is not a class, and the stored row is one only if block 1 receives it unchanged.
        """
        left_out = {FINAL_NORM, EMBEDDING} if BLOCK_INPUT in self.arrays else {FINAL_NORM}
        return tuple(layer for layer in self.arrays if layer not in left_out)

    @property
    def width(self) -> int:
        """Width of the vectors of the classes, which is the same for all."""
        return self.arrays[self.classes[0]].shape[1]

    def take(self, layers: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        """Selected vectors at selected layers, float32 ``[layers, vectors, width]``, read from disk if needed."""
        return np.stack([np.asarray(self.arrays[layer][vectors], np.float32) for layer in layers])


def save(path: Path, states: HiddenStates) -> None:
    """Write hidden states that are in memory."""
    arrays = {f"{LAYER}{layer}": array for layer, array in states.arrays.items()}
    arrays |= {name: getattr(states, name) for name in DESCRIBED}
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(contiguous, path, file_metadata(list(states.layers), states.metadata))


def load(path: Path) -> HiddenStates:
    """Memory-map a file written by `extract` or `save`; only the vectors that are accessed are read.

    Raises:
        EmbscaleError: the file is missing, broken, unfinished or of another kind.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {})["embscale"])
        with path.open("rb") as opened:
            tensors = directory(opened, size=path.stat().st_size, label=str(path))
            arrays = {
                name: np.memmap(path, DTYPES[tensor.dtype], "r", offset=tensor.start, shape=tensor.shape)
                for name, tensor in tensors.items()
            }
        layers = {layer: arrays[f"{LAYER}{layer}"] for layer in metadata.pop("layers")}
        described = {name: arrays[name] for name in DESCRIBED}
        _check(layers, described)
        return HiddenStates(arrays=layers, metadata=metadata, **described)
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale states") from None
    except (SafetensorError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise EmbscaleError(
            f"{path}: not a file of hidden states ({words_of(error)}); remove it and make it again"
        ) from error


def _check(layers: Mapping[str, np.ndarray], described: Mapping[str, np.ndarray]) -> None:
    """Stop at arrays that are not of the same vectors."""
    vectors = described["text"].shape
    if any(array.ndim != 1 or array.dtype != np.int64 or array.shape != vectors for array in described.values()):
        raise ValueError(f"{', '.join(DESCRIBED)}: expected an int64 for each vector")
    if not layers or any(array.ndim != 2 or array.dtype.kind != "f" for array in layers.values()):
        raise ValueError("expected layers, each a matrix of floating-point numbers")
    if any(array.shape[:1] != vectors for array in layers.values()):
        raise ValueError(f"expected {vectors[0]} vectors at each layer")


def file_metadata(layers: list[str], metadata: Mapping[str, Any]) -> dict[str, str]:
    """All metadata in a single entry, since the format does not preserve the order of several."""
    return {"embscale": json.dumps({"layers": layers} | dict(metadata), sort_keys=True, ensure_ascii=False)}
