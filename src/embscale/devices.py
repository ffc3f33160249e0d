"""Choice of the computing device."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import torch

# Seen by every job of this machine, whatever study or checkout it belongs to.
CLAIMS = Path(tempfile.gettempdir()) / "embscale-gpus"
SECONDS_BETWEEN_TRIES = 1.0


def find_device(name: str) -> torch.device:
    """``cpu``, ``cuda``, or ``auto``: a GPU if there is one.

    Raises:
        EmbscaleError: a GPU is asked for and there is none.
    """
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise EmbscaleError("device cuda: torch finds no GPU here; drop --device or pass cpu")
    return torch.device(name if name != "auto" else "cuda" if torch.cuda.is_available() else "cpu")


def choose_device(name: str) -> torch.device:
    """The device of `find_device`, to compute on.

    A GPU belongs to one process until that ends; where all are in use, this waits for one.  It becomes the current one,
    so that everything named ``cuda`` is on it.

    Raises:
        EmbscaleError: a GPU is asked for and there is none.
    """
    import torch

    device = find_device(name)
    if device.type == "cuda" and not _claims:
        said = False
        while (claimed := next(filter(_claim, range(torch.cuda.device_count())), None)) is None:
            if not said:
                print(f"waiting for a GPU: other jobs use all {torch.cuda.device_count()} here", file=sys.stderr)
                said = True
            time.sleep(SECONDS_BETWEEN_TRIES)
        torch.cuda.set_device(claimed)
    return device


def claim_free_gpus() -> list[int]:
    """Claim every GPU that no other process has claimed, for what is too large for one.

    Returns:
        The numbers of all GPUs of this process, the one of `choose_device` first.
    """
    import torch

    for number in range(torch.cuda.device_count()):
        if number not in _claims:
            _claim(number)
    return list(_claims)


# The files whose locks are this process's claims, by the number of the GPU.
_claims: dict[int, int] = {}


def _claim(number: int) -> bool:
    """Claim a GPU; whether that was possible.  The claim ends with the process, however that ends."""
    import torch

    CLAIMS.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):  # of another user, who did it
        CLAIMS.chmod(0o777)  # whatever this user's umask
    # The number of a GPU depends on CUDA_VISIBLE_DEVICES, its UUID does not.
    file = os.open(CLAIMS / str(torch.cuda.get_device_properties(number).uuid), os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _claims[number] = file
    return True
