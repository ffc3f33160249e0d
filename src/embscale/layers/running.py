"""Run a model over texts and store the hidden states of every layer.

The library's own ``hidden_states[-1]`` is the output of the final norm, which makes the last layer look far from the
others and its norms large (Huang et al., Fig. 2).  Therefore hooks record the output of each block; the final norm's
output is stored under its own name.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError

from embscale.checkpoints.containers import StoredTensor
from embscale.checkpoints.dtypes import ITEM_SIZES
from embscale.checkpoints.families import Anatomy, anatomy, family
from embscale.checkpoints.ranges import LocalFolder
from embscale.checkpoints.weights import weight_files
from embscale.errors import EmbscaleError
from embscale.layers.hidden_states import DESCRIBED, DTYPES, LAYER, file_metadata
from embscale.layers.names import BLOCK_INPUT, EMBEDDING, FINAL_NORM
from embscale.parameters.layers import Precision
from embscale.progress import progress
from embscale.texts.samples import Sample

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel


# Progress is recorded only after the data is on disk; syncing takes time, so this is not done after every batch.
SECONDS_BETWEEN_RECORDS = 5.0


def checkpoint_files(folder: Path) -> list[Path]:
    """The files of a checkpoint that decide its hidden states: its configuration, then its weights.

    Raises:
        EmbscaleError: there are no weights.
    """
    return [folder / "config.json", *(folder / name for name in weight_files(LocalFolder(folder)))]


def skeleton(folder: Path) -> PreTrainedModel:
    """A checkpoint's model without weights, in a few megabytes: its modules, shapes and size.

    Raises:
        EmbscaleError: the family is unknown or ``config.json`` is broken.
    """
    import torch
    import transformers

    config = read_config(folder)
    with _readable_errors(folder), torch.device("meta"):
        model_class = getattr(transformers, family(config.model_type).model_class)
        model: PreTrainedModel = (
            model_class.from_config(config, trust_remote_code=False)
            if hasattr(model_class, "from_config")  # a class that chooses the model's class
            else model_class(config)
        )
    return model


def read_config(folder: Path) -> PreTrainedConfig:
    """A checkpoint's ``config.json`` as the library reads it.

    Raises:
        EmbscaleError: it is missing or broken.
    """
    import transformers

    with _readable_errors(folder):
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def load_model(folder: Path, *, precision: Precision = "float32", device: str = "cpu") -> PreTrainedModel:
    """A checkpoint without its output head, ready to run.

    Where one GPU is too small, the weights are spread over those that no other job uses and the memory of the machine
    if `accelerate` is installed.

    Args:
        folder: in the Hugging Face layout.
        precision: of weights and forward pass.
        device: ``cpu`` or ``cuda``.

    Raises:
        EmbscaleError: the family is unknown, a file is broken, a weight is missing, or memory is too small.
    """
    import torch
    import transformers

    dtype: torch.dtype = getattr(torch, precision)
    empty = skeleton(folder)
    needed = dtype.itemsize * sum(weight.numel() for weight in empty.parameters())
    memory = _spread_over(folder, needed, device)
    placement = {"device_map": "auto", "max_memory": memory} if memory else {}
    model_class = getattr(transformers, family(empty.config.model_type).model_class)
    model: Any = from_files(folder, model_class, empty.config, precision=precision, **placement)
    model.config.use_cache = False
    placed: PreTrainedModel = model if placement else model.to(device)
    return placed


def from_files(
    folder: Path,
    model_class: Any,  # noqa: ANN401 (one of transformers')
    config: PreTrainedConfig,
    *,
    precision: Precision,
    **placement: Any,  # noqa: ANN401 (as from_pretrained takes it)
) -> PreTrainedModel:
    """Load a model of a given class from a checkpoint, in evaluation mode; missing weights are an error.

    Raises:
        EmbscaleError: a file is broken or a weight is missing.
    """
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    with _readable_errors(folder):
        model, report = model_class.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, precision),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=checkpoint_files(folder)[1].suffix == ".safetensors",
            weights_only=True,  # nothing in a pickle is executed
            output_loading_info=True,
            **placement,
        )
    # transformers initialises missing weights at random and continues.
    if missing := sorted(report["missing_keys"]):
        raise EmbscaleError(f"{folder}: {len(missing)} weights are missing, {missing[0]} first; fetch it again")
    loaded: PreTrainedModel = model.eval()
    return loaded


@contextlib.contextmanager
def _readable_errors(folder: Path) -> Iterator[None]:
    """Turn the errors that transformers raises for a broken checkpoint into one line."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        words = str(error).strip().partition("\n")[0]
        raise EmbscaleError(f"{folder}: not a checkpoint that transformers can load ({words})") from error


def _spread_over(folder: Path, needed: int, device: str) -> dict[int | str, int]:
    """Devices that weights of `needed` bytes must be spread over, with the bytes free there; none if one is enough.

    Raises:
        EmbscaleError: the available memory is too small.
    """
    import psutil
    import torch

    from embscale.devices import claim_free_gpus

    memory = psutil.virtual_memory().available
    own = memory if device == "cpu" else torch.cuda.mem_get_info()[0]
    if needed <= own:
        return {}
    spread: dict[int | str, int] = {}
    if device == "cuda" and importlib.util.find_spec("accelerate") is not None:
        spread = {gpu: torch.cuda.mem_get_info(gpu)[0] for gpu in claim_free_gpus()} | {"cpu": memory}
    room = sum(spread.values()) or own
    if needed > room:
        advice = (
            "" if spread or device == "cpu" else "; with accelerate installed, weights are spread over GPUs and memory"
        )
        raise EmbscaleError(
            f"{folder}: the weights take {needed / 1e9:.2f} GB, but {room / 1e9:.2f} GB of memory are free on "
            f"{device}; take a smaller model or a lower precision{advice}"
        )
    return spread


def layer_widths(parts: Anatomy) -> dict[str, int]:
    """The layers in the order in which a token passes them, with their widths."""
    widths = {EMBEDDING: parts.embedding.embedding_dim}
    if parts.changes_rows:
        widths[BLOCK_INPUT] = parts.width
    widths |= {f"block {i}": parts.width for i in range(1, len(parts.blocks) + 1)}
    return widths | ({} if parts.final_norm is None else {FINAL_NORM: parts.width})


@dataclass(frozen=True)
class Layout:
    """Header and layout of a file of hidden states.

    Attributes:
        header: its first bytes.
        tensors: by name, in the order in which they are stored.
    """

    header: bytes
    tensors: Mapping[str, StoredTensor]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return max(tensor.end for tensor in self.tensors.values())


def layout(
    model: PreTrainedModel, sample: Sample, *, first_position: int, precision: Precision, metadata: Mapping[str, Any]
) -> Layout:
    """The layout of the file that `extract` will write; `model` may be a `skeleton`.

    Values are stored in float16 if the model runs in it, else in float32.

    Raises:
        EmbscaleError: a text does not fit the model, or no position of it is left.
    """
    parts = anatomy(model)
    _check_fit(model, parts, sample, first_position)
    vectors = int((sample.tokens.lengths - first_position).sum())
    dtype = "F16" if precision == "float16" else "F32"
    widths = layer_widths(parts)
    shapes: dict[str, tuple[str, tuple[int, ...]]] = dict.fromkeys(DESCRIBED, ("I64", (vectors,)))
    shapes |= {f"{LAYER}{layer}": (dtype, (vectors, width)) for layer, width in widths.items()}
    described = {"text_ids": list(sample.text_ids), "texts_too_short": sample.too_short} | dict(metadata)
    entries: dict[str, Any] = {"__metadata__": file_metadata(list(widths), described)}
    end = 0
    for name, (dtype, shape) in shapes.items():
        start, end = end, end + math.prod(shape) * ITEM_SIZES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)  # the format requires aligned data
    origin = 8 + len(text)
    tensors = {}
    for name, (dtype, shape) in shapes.items():
        start, end = entries[name]["data_offsets"]
        tensors[name] = StoredTensor(name, dtype, shape, origin + start, origin + end, None)
    return Layout(len(text).to_bytes(8, "little") + text, tensors)


def _check_fit(model: PreTrainedModel, parts: Anatomy, sample: Sample, first_position: int) -> None:
    name = model.config.model_type
    rows = parts.embedding.weight.shape[0]
    if (largest := int(sample.tokens.ids.max())) >= rows:
        raise EmbscaleError(f"{name}: token {largest} is beyond the table's {rows} rows; this is another tokenizer")
    lengths = sample.tokens.lengths
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and lengths.max() > limit:
        raise EmbscaleError(f"{name}: {lengths.max()} tokens asked for, but the model has {limit} positions")
    if first_position >= lengths.min():
        raise EmbscaleError(f"first position {first_position}: nothing is left of a text of {lengths.min()} tokens")


def batches(lengths: np.ndarray, batch: int) -> list[np.ndarray]:
    """Texts that go through the model together, all of one length, so that no padding is needed.

    The longest come first, so that insufficient memory shows at once.

    Args:
        lengths: tokens of each text ``[texts]``.
        batch: maximum number of texts in one forward pass.

    Returns:
        Indices of texts, ascending in each batch.
    """
    order = np.argsort(-lengths, kind="stable")
    alike = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)
    return [texts[start : start + batch] for texts in alike for start in range(0, len(texts), batch)]


def extract(
    model: PreTrainedModel,
    sample: Sample,
    part: Path,
    *,
    first_position: int,
    batch: int,
    metadata: Mapping[str, Any],
) -> None:
    """Run the model over the texts and write every layer's vectors, those of a batch as soon as they are there.

    Memory holds one batch.  `part` may be left from an interrupted run; if that run had the same layout, metadata and
    batches, this one resumes it.  The header is written last, so that an unfinished file cannot be read.

    Args:
        model: from `load_model`.
        sample: the texts.
        part: the file to write, which the caller renames; a second file beside it records the progress.
        first_position: leave out the positions before it.  In many models the first position has abnormally large
            norms, whatever the token.
        batch: texts in one forward pass, at most: half of them where a GPU's memory is too small, and again half.  Of
            no influence on the result beyond rounding.
        metadata: stored beside the vectors.  It must differ between runs that must not resume each other, such as runs
            with other weights or precision.

    Raises:
        EmbscaleError: a text does not fit the model, the disk is too small, or a vector holds a value that is not
            finite; nothing is left behind then.
    """
    import torch

    parts = anatomy(model)
    half = model.dtype == torch.float16
    planned = layout(
        model, sample, first_position=first_position, precision="float16" if half else "float32", metadata=metadata
    )
    lengths = sample.tokens.lengths
    places = np.cumsum([0, *(lengths - first_position)])
    groups = batches(lengths, batch)
    layers = layer_widths(parts)
    record = part.with_name(f"{part.name}.progress")
    run = {"header_sha256": hashlib.sha256(planned.header).hexdigest(), "batch": batch}
    done = _begun(part, record, run, planned.size)
    tell, recorded_at = progress("states", len(groups)), time.monotonic()
    with part.open("r+b") as file, torch.inference_mode(), recording(parts) as outputs:

        def store(texts: np.ndarray) -> None:
            """Run the model over texts of one length, and write their vectors."""
            ids = np.stack([sample.tokens[text] for text in texts]).astype(np.int64)
            on_device = torch.from_numpy(ids).to(parts.embedding.weight.device)
            model(input_ids=on_device)
            # The stored rows: before positions are added (GPT-2) or the rows are scaled (Gemma).
            outputs[EMBEDDING] = parts.embedding.weight[on_device]
            ids = ids[:, first_position:]
            described = {
                "text": np.broadcast_to(texts[:, None], ids.shape),
                "position": np.broadcast_to(np.arange(first_position, lengths[texts[0]]), ids.shape),
                "token": ids,
            }
            runs = _runs(places[texts], ids.shape[1])
            for name, numbers in described.items():
                _write(file, planned.tensors[name], numbers, runs)
            for layer in layers:
                values = outputs.pop(layer)[:, first_position:]
                values = values.half() if half else values
                if (text := not_finite(values)) is not None:
                    part.unlink()
                    record.unlink(missing_ok=True)
                    cause = "is it beyond 65504, where float16 ends?" if half else "is the checkpoint whole?"
                    raise EmbscaleError(
                        f"{layer}: a value is not finite in text {sample.text_ids[texts[text]]!r}; {cause}"
                    )
                values = values.cpu() if half else values.cpu().float()
                _write(file, planned.tensors[f"{LAYER}{layer}"], values.numpy(), runs)

        at_once = batch
        for number, texts in enumerate(groups[done:], done + 1):
            stored = 0
            while stored < len(texts):
                some = texts[stored : stored + at_once]
                try:
                    store(some)
                except torch.OutOfMemoryError as error:
                    outputs.clear()
                    at_once = _fewer(some, int(lengths[some[0]]), error)
                else:
                    stored += len(some)
            if time.monotonic() - recorded_at >= SECONDS_BETWEEN_RECORDS:
                file.flush()
                os.fsync(file.fileno())
                record.write_text(json.dumps(run | {"batches": number}), "utf-8")
                recorded_at = time.monotonic()
            tell(number, "batches")
        file.seek(0)
        file.write(planned.header)
    record.unlink(missing_ok=True)


def _begun(part: Path, record: Path, run: Mapping[str, Any], size: int) -> int:
    """Number of complete batches that an earlier run left in `part`; if none, a sparse file is created.

    Raises:
        EmbscaleError: the disk is too small.
    """
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads(record.read_text("utf-8"))
        if part.stat().st_size == size and noted == {**run, "batches": noted["batches"]}:
            return int(noted["batches"])
    record.unlink(missing_ok=True)
    part.unlink(missing_ok=True)
    if (free := shutil.disk_usage(part.parent).free) < size:
        raise EmbscaleError(
            f"{part.parent}: the states take {size / 1e9:.2f} GB, but {free / 1e9:.2f} GB are free; take fewer texts"
        )
    try:
        with part.open("wb") as file:
            file.truncate(size)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    return 0


@contextlib.contextmanager
def recording(parts: Anatomy) -> Iterator[dict[str, torch.Tensor]]:
    """Record, in the yielded dict, the input of block 1 and the outputs of all blocks and the final norm."""
    outputs: dict[str, torch.Tensor] = {}
    modules = {f"block {i}": block for i, block in enumerate(parts.blocks, 1)}
    modules |= {} if parts.final_norm is None else {FINAL_NORM: parts.final_norm}

    def received(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        outputs[BLOCK_INPUT] = args[0] if args else kwargs["hidden_states"]

    def given(layer: str, output: Any) -> None:  # noqa: ANN401 (some families return a tuple)
        outputs[layer] = output[0] if isinstance(output, tuple) else output

    with contextlib.ExitStack() as stack:
        if parts.changes_rows:
            stack.callback(parts.blocks[0].register_forward_pre_hook(received, with_kwargs=True).remove)
        for layer, module in modules.items():
            handle = module.register_forward_hook(lambda _, __, output, layer=layer: given(layer, output))
            stack.callback(handle.remove)
        yield outputs


def not_finite(values: torch.Tensor) -> int | None:
    """The first of ``[texts, positions, width]`` that holds a value that is not finite, if there is one."""
    # A sum is finite only if all values are, and needs one pass and no copy.
    if math.isfinite(values.sum()):
        return None
    broken = (~values.isfinite()).flatten(1).any(dim=1).nonzero()
    return int(broken[0]) if len(broken) else None


def _fewer(texts: np.ndarray, length: int, error: Exception) -> int:
    """Half as many texts at once, as these did not fit the GPU.

    Raises:
        EmbscaleError: it was a single text.
    """
    import torch

    if len(texts) == 1:
        raise EmbscaleError(
            f"the GPU's memory is too small for one text of {length} tokens; take fewer tokens of each, a smaller "
            "model, a lower precision, or --device cpu"
        ) from error
    print(f"the GPU's memory is too small for {len(texts)} texts at once; taking {len(texts) // 2}", file=sys.stderr)
    torch.cuda.empty_cache()
    return len(texts) // 2


def _runs(places: np.ndarray, kept: int) -> list[tuple[slice, int]]:
    """Runs of texts of a batch that are contiguous in the file, each with the index of its first vector.

    Args:
        places: index of the first vector of each text, ascending.
        kept: number of vectors of each text.
    """
    edges = [0, *(np.flatnonzero(np.diff(places) != kept) + 1), len(places)]
    return [(slice(start, stop), int(places[start])) for start, stop in itertools.pairwise(edges)]


def _write(file: IO[bytes], tensor: StoredTensor, values: np.ndarray, runs: Sequence[tuple[slice, int]]) -> None:
    """Write a batch's values ``[texts, positions, ...]`` at their places."""
    rows = np.ascontiguousarray(values, dtype=DTYPES[tensor.dtype])
    size = rows[0, 0].nbytes
    for texts, first in runs:
        file.seek(tensor.start + first * size)
        file.write(rows[texts].data)
