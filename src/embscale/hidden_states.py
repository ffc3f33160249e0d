"""Hidden states of texts, layer by layer, taken before the final norm.

The library's own ``hidden_states[-1]`` is the output of the final norm, which makes the last layer
look far from the others and its vectors long (Huang et al., Fig. 2).  So hooks on the blocks record
what each block hands on; the final norm's output is kept under a name of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale import beir
from embscale.errors import EmbscaleError
from embscale.families import Anatomy, anatomy, family

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

EMBEDDING = "embedding"
BLOCK_INPUT = "block input"
FINAL_NORM = "final norm"
LAYER = "layer."  # before a layer's name in a file


@dataclass(frozen=True)
class Sample:
    """The texts that were chosen, all cut to one length.

    Attributes:
        text_ids: ids of the texts, in the order of `tokens`.
        tokens: token ids, int64 ``[texts, length]``.
        too_short: texts that were passed over because they have fewer tokens.
    """

    text_ids: tuple[str, ...]
    tokens: np.ndarray
    too_short: int


@dataclass(frozen=True)
class HiddenStates:
    """Vectors of the same tokens at every layer.

    Attributes:
        arrays: the layers by name, in the order in which a token passes them: ``embedding`` (the stored row),
            ``block input`` (where the family changes a row before block 1), ``block 1`` ... and, after the last
            block, ``final norm``.  Each is ``[vectors, width]``; memory-mapped if it was loaded.
        text: the text that a vector comes from, as an index, int64 ``[vectors]``.
        position: the vector's place in its text, the first token being 0, int64 ``[vectors]``.
        token: the token's id, int64 ``[vectors]``.
        metadata: what the states were made of: text ids, digests, counts.
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
        """The layers that a classifier tells apart: what goes into block 1, and what each block hands on.

        The final norm's output is no layer of its own, and a stored row only one where block 1 receives it as it is.
        """
        left_out = {FINAL_NORM, EMBEDDING} if BLOCK_INPUT in self.arrays else {FINAL_NORM}
        return tuple(layer for layer in self.arrays if layer not in left_out)

    @property
    def width(self) -> int:
        """Length of a vector at the classes, which all have the same."""
        return self.arrays[self.classes[0]].shape[1]

    def take(self, layers: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        """Some vectors at some layers, float32 ``[layers, vectors, width]``, read from disk if need be."""
        return np.stack([np.asarray(self.arrays[layer][vectors], np.float32) for layer in layers])


def read_texts(path: Path, *, split: str | None) -> dict[str, str]:
    """Texts by their id, only those whose ``metadata.split`` is `split` if one is given.

    Raises:
        EmbscaleError: a row has no id or text, an id occurs twice, or no row is of the split.
    """
    texts: dict[str, str] = {}
    for number, row in enumerate(beir.read_jsonl(path), 1):
        if not {"_id", "text"} <= row.keys() or row["_id"] in texts:
            raise EmbscaleError(f"{path}:{number}: expected an object with a text and an _id that no other row has")
        if split is None or (row.get("metadata") or {}).get("split") == split:
            texts[row["_id"]] = row["text"]
    if not texts:
        raise EmbscaleError(f"{path}: no texts{f' whose metadata.split is {split!r}' if split else ''}")
    return texts


def choose(texts: Mapping[str, str], tokenizer: Tokenizer, *, count: int, length: int, seed: int) -> Sample:
    """Texts of at least `length` tokens, in an order that depends on seed and ids alone.

    Whether a text comes in does not depend on which others there are, as far as `count` allows.

    Raises:
        EmbscaleError: fewer than `count` texts are long enough.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    chosen: dict[str, list[int]] = {}
    too_short = 0
    for name in sorted(texts, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest()):
        ids = tokenizer.encode(texts[name], add_special_tokens=False).ids
        if len(ids) < length:
            too_short += 1
            continue
        chosen[name] = ids[:length]
        if len(chosen) == count:
            return Sample(tuple(chosen), np.array(list(chosen.values()), dtype=np.int64), too_short)
    raise EmbscaleError(
        f"{len(chosen)} of {len(texts)} texts have {length} tokens or more, but {count} are wanted; "
        "ask for fewer or shorter texts"
    )


def checkpoint_files(folder: Path) -> list[Path]:
    """The files of a checkpoint that decide its hidden states: safetensors if there are any, else PyTorch's.

    Raises:
        EmbscaleError: there are no weights.
    """
    for weights, index in (
        ("*.safetensors", "model.safetensors.index.json"),
        ("*.bin", "pytorch_model.bin.index.json"),
    ):
        if found := sorted(folder.glob(weights)):
            return [folder / "config.json", *found, *([folder / index] if (folder / index).is_file() else [])]
    raise EmbscaleError(f"{folder}: no *.safetensors or *.bin; expected a checkpoint in the Hugging Face layout")


def load_model(folder: Path) -> PreTrainedModel:
    """A checkpoint without its output head, in float32, ready to run.

    Raises:
        EmbscaleError: the family is unknown, a file is broken, or a weight is missing.
    """
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        model_class = getattr(transformers, family(config.model_type).model_class)
        model, report = model_class.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=checkpoint_files(folder)[1].suffix == ".safetensors",
            weights_only=True,  # nothing in a pickle is executed
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise EmbscaleError(f"{folder}: not a checkpoint that transformers can load ({_first_line(error)})") from error
    # The library fills missing weights with random numbers and goes on.
    if missing := sorted(report["missing_keys"]):
        raise EmbscaleError(f"{folder}: {len(missing)} weights are missing, {missing[0]} first; fetch it again")
    model.config.use_cache = False
    return model.eval()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def capture(model: PreTrainedModel, sample: Sample, *, first_position: int, batch: int) -> HiddenStates:
    """Run the model over the texts and keep every layer's vectors.

    Args:
        model: from `load_model`.
        sample: texts of equal length, so that no padding is needed.
        first_position: leave out the positions before it.  The first token has abnormally long
            vectors in many models, whatever it is.
        batch: texts in one forward pass; of no influence on the result beyond rounding.

    Raises:
        EmbscaleError: a text does not fit the model, or a vector holds a value that is not finite.
    """
    import torch

    parts = anatomy(model)
    _check_fit(model, parts, sample)
    layers = layer_names(parts)
    texts, length = sample.tokens.shape
    kept = length - first_position
    if kept < 1:
        raise EmbscaleError(f"first position {first_position}: nothing is left of {length} tokens")
    states = np.empty((len(layers), texts, kept, parts.embedding.embedding_dim), dtype=np.float32)
    with torch.inference_mode(), _recording(parts) as outputs:
        for start in range(0, texts, batch):
            stop = min(start + batch, texts)
            ids = torch.from_numpy(sample.tokens[start:stop]).to(model.device)
            model(input_ids=ids)
            # The stored rows: before positions are added (GPT-2) or the rows are scaled (Gemma).
            outputs[EMBEDDING] = parts.embedding.weight[ids]
            for i, layer in enumerate(layers):
                states[i, start:stop] = outputs[layer][:, first_position:].float().cpu().numpy()
    _check_finite(states, layers, sample.text_ids)
    return HiddenStates(
        arrays=dict(zip(layers, states.reshape(len(layers), texts * kept, -1), strict=True)),
        text=np.repeat(np.arange(texts), kept),
        position=np.tile(np.arange(first_position, length), texts),
        token=sample.tokens[:, first_position:].reshape(-1),
        metadata={"text_ids": list(sample.text_ids), "tokens": length, "texts_too_short": sample.too_short},
    )


def layer_names(parts: Anatomy) -> tuple[str, ...]:
    """Names of the layers, in the order in which a token passes them."""
    blocks = (f"block {i}" for i in range(1, len(parts.blocks) + 1))
    return (EMBEDDING, *blocks, *([FINAL_NORM] if parts.final_norm is not None else []))


@contextlib.contextmanager
def _recording(parts: Anatomy) -> Iterator[dict[str, torch.Tensor]]:
    """While it lasts, every forward pass leaves the outputs of blocks and final norm in the dict."""
    outputs: dict[str, torch.Tensor] = {}
    modules = [*parts.blocks, *([parts.final_norm] if parts.final_norm is not None else [])]

    def keep(layer: str, output: Any) -> None:  # noqa: ANN401 (some families return a tuple)
        outputs[layer] = output[0] if isinstance(output, tuple) else output

    with contextlib.ExitStack() as stack:
        for layer, module in zip(layer_names(parts)[1:], modules, strict=True):
            handle = module.register_forward_hook(lambda _, __, output, layer=layer: keep(layer, output))
            stack.callback(handle.remove)
        yield outputs


def _check_fit(model: PreTrainedModel, parts: Anatomy, sample: Sample) -> None:
    name = model.config.model_type
    rows, dims = parts.embedding.weight.shape
    width = model.config.get_text_config().hidden_size
    if dims != width:
        raise EmbscaleError(f"{name}: the table has {dims} columns but the blocks {width}; layers cannot be compared")
    if (largest := int(sample.tokens.max())) >= rows:
        raise EmbscaleError(f"{name}: token {largest} is beyond the table's {rows} rows; this is another tokenizer")
    length, limit = sample.tokens.shape[1], getattr(model.config, "max_position_embeddings", None)
    if limit is not None and length > limit:
        raise EmbscaleError(f"{name}: {length} tokens asked for, but the model has {limit} positions")


def _check_finite(states: np.ndarray, layers: tuple[str, ...], text_ids: tuple[str, ...]) -> None:
    """`states` is ``[layers, texts, positions, width]``."""
    broken = np.argwhere(~np.isfinite(states).all(axis=(2, 3)))
    if len(broken):
        layer, text = broken[0]
        raise EmbscaleError(
            f"{layers[layer]}: a value is not finite in text {text_ids[text]!r}; is the checkpoint whole?"
        )


def save(path: Path, states: HiddenStates) -> None:
    """Write hidden states; all that is not a number goes into the file's metadata as JSON."""
    arrays = {f"{LAYER}{layer}": array for layer, array in states.arrays.items()}
    arrays |= {"text": states.text, "position": states.position, "token": states.token}
    metadata = {"layers": list(states.layers)} | dict(states.metadata)
    # One entry only: the format does not keep the order of several.
    save_file(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        path,
        {"embscale": json.dumps(metadata, sort_keys=True, ensure_ascii=False)},
    )


def load(path: Path) -> HiddenStates:
    """Read what `save` wrote.

    Raises:
        EmbscaleError: the file is missing or broken, or holds something else.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {})["embscale"])
            arrays = {layer: file.get_tensor(f"{LAYER}{layer}") for layer in metadata.pop("layers")}
            described = {name: file.get_tensor(name) for name in ("text", "position", "token")}
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale states") from None
    except (SafetensorError, KeyError, ValueError) as error:
        raise EmbscaleError(f"{path}: not a file of hidden states ({error}); remove it and make it again") from error
    return HiddenStates(arrays=arrays, metadata=metadata, **described)
