"""Where the libraries of Hugging Face keep data sets, which they ask the environment when they are imported."""

from __future__ import annotations

import os
from pathlib import Path


def keep_datasets_in(folder: Path, *, offline: bool) -> None:
    """Let data sets be kept in a folder; to be called before `datasets` or `huggingface_hub` is imported.

    Args:
        folder: several processes may use it at the same time.
        offline: what is not there is not asked of the hub either.
    """
    os.environ["HF_HUB_CACHE"] = str(folder.resolve() / "hub")
    os.environ["HF_DATASETS_CACHE"] = str(folder.resolve() / "datasets")
    if offline:
        os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
