"""Read parts of checkpoints on disk in the Hugging Face layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from embscale.errors import EmbscaleError
from embscale.families import input_table_names


def read_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a checkpoint.

    Raises:
        EmbscaleError: it is missing, or no JSON object with a ``model_type``.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; expected a checkpoint in the Hugging Face layout") from None
    except ValueError as error:
        raise EmbscaleError(f"{path}: not JSON ({error})") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise EmbscaleError(f"{path}: names no model_type")
    return config


def input_table(folder: Path) -> tuple[str, np.ndarray]:
    """The input embedding table of a checkpoint in one safetensors file.

    Returns:
        The tensor's name and the table ``[rows, dims]`` as stored.

    Raises:
        EmbscaleError: the file is missing or broken, or does not hold exactly one input table of the
            height that ``config.json`` gives.
    """
    config = read_config(folder)
    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            name = _only_match(path, list(file.keys()), input_table_names(config["model_type"]))
            table = file.get_tensor(name)
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; expected a checkpoint in the Hugging Face layout") from None
    except SafetensorError as error:
        raise EmbscaleError(f"{path}: not a whole safetensors file ({error}); remove it and make it again") from error
    if len(table) != config.get("vocab_size", len(table)):
        raise EmbscaleError(f"{path}: {name} has {len(table)} rows, but config.json says {config['vocab_size']}")
    return name, table


def _only_match(path: Path, names: list[str], endings: tuple[str, ...]) -> str:
    for ending in endings:
        matching = [name for name in names if name == ending or name.endswith(f".{ending}")]
        if len(matching) == 1:
            return matching[0]
    raise EmbscaleError(
        f"{path}: no single tensor ends with {' or '.join(endings)}; it holds {', '.join(names[:5])} ..."
    )
