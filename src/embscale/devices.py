"""Choice of the computing device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import torch


def choose_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or ``auto``: the first GPU if there is one.

    Raises:
        EmbscaleError: a GPU is asked for and there is none.
    """
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise EmbscaleError("device cuda: torch finds no GPU here; drop --device or pass cpu")
    return torch.device(name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu")
