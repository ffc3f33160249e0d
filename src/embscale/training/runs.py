"""Training runs that can be interrupted: each has a folder, named after all that decides its bytes.

A run of more steps takes up the folder of a shorter one, and studies share runs where their parameters agree.  The
folder holds a description of the run (``run.json``), its checkpoints, and the newest state of model and optimiser.  The
file ``state.json``, replaced as a whole, names that state and the SHA-256 of everything beside it: what it does not
name is left from a training that was killed, and is not used.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from embscale.errors import EmbscaleError
from embscale.parameters.training import Recipe
from embscale.provenance.artifacts import file_sha256
from embscale.training import ladder

SECONDS_BETWEEN_STATES = 60.0
KEPT = ("config.json", "model.safetensors")  # of a checkpoint
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of AdamW, for each weight


@dataclass
class Progress:
    """How far a run is, as ``state.json`` has it.

    Attributes:
        step: finished steps.
        losses: of the batches, in nats per token.
        heldout: by checkpoint, the loss on held-out texts.
        files: by name within the folder, the SHA-256 of the state and of each checkpoint's files.
        seconds: of training, over all of its sessions.
        diverged: the step whose loss was no number, after which there is no training.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    heldout: dict[int, float] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    diverged: int | None = None

    def leads_to(self, checkpoints: Sequence[int]) -> bool:
        """Whether a training can go on from here: of steps behind it there is no state, so their checkpoints exist."""
        return all(step > self.step or step in self.heldout for step in checkpoints)


def description(
    *,
    shape: Mapping[str, Any],
    schedule: ladder.Schedule,
    input_table: str,
    training: np.ndarray,
    unseen: np.ndarray,
    threads: int,
    device: torch.device,
) -> dict[str, Any]:
    """All that decides the bytes of a run, except for the processor.

    Args:
        shape: arguments of `ladder.build`.
        schedule: of the training; the number of steps counts only where the learning rate depends on it.
        input_table: trained or frozen.
        training: stream of tokens to learn from.
        unseen: held-out stream.
        threads: of each library, which decide the order of sums.
        device: where the model is trained.
    """
    constant = schedule.final_learning_rate == 1
    return {
        "shape": dict(shape),
        "schedule": {key: value for key, value in asdict(schedule).items() if not (constant and key == "steps")},
        "input_table": input_table,
        "training": hashlib.sha256(training.tobytes()).hexdigest(),
        "heldout": hashlib.sha256(unseen.tobytes()).hexdigest(),
        "threads": threads,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "libraries": {name: importlib.metadata.version(name) for name in ("torch", "transformers")},
        "source": file_sha256(Path(ladder.__file__)),
    }


def shape_of(recipe: Recipe, *, width: int, vocab_size: int, seed: int, positions: ladder.Positions) -> dict[str, Any]:
    """The arguments of `ladder.build` for a model of a recipe."""
    return ladder.shape(recipe) | {"width": width, "vocab_size": vocab_size, "seed": seed, "positions": positions}


class Run:
    """One training run and its folder.

    Args:
        root: folder of all runs.
        about: from `description`.

    Raises:
        EmbscaleError: the folder belongs to another run, or a file of it is damaged.
    """

    def __init__(self, root: Path, about: Mapping[str, Any]) -> None:
        self.about = json.loads(json.dumps(about))
        digest = hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()
        self.folder = root / digest[:16]
        self.progress = Progress()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Run]:
        """Hold the folder for this process, and read how far the run is.

        Raises:
            EmbscaleError: another process trains this run, or the folder holds another run or a damaged one.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EmbscaleError(
                    f"{self.folder}: another process trains this run; wait until it ends or stop it"
                ) from None
            self._describe()
            self.progress = self._read()
            yield self

    def _describe(self) -> None:
        path = self.folder / "run.json"
        if not path.is_file():
            if (self.folder / "state.json").is_file():
                raise EmbscaleError(f"{path}: is missing beside state.json; remove the folder to train from the start")
            with _writing(self.folder):
                _replace(path, json.dumps(self.about, indent=1, sort_keys=True) + "\n")
            return
        found = _json(path)
        other = [key for key in self.about if found.get(key) != self.about[key]]
        if other:
            raise EmbscaleError(
                f"{path}: the state of a run with other {', '.join(other)}; remove the folder to train from the start"
            )

    def recorded(self) -> Progress:
        """How far ``state.json`` says that the run is, whatever the files beside it; nothing where there is none.

        Raises:
            EmbscaleError: it is damaged.
        """
        path = self.folder / "state.json"
        if not path.is_file():
            return Progress()
        values = _json(path)
        try:
            progress = Progress(**values)
            progress.heldout = {int(step): loss for step, loss in progress.heldout.items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise _damaged(path, str(error)) from None
        return progress

    def _read(self) -> Progress:
        """How far the run is, by files that are whole."""
        progress = self.recorded()
        for name, digest in progress.files.items():
            file = self.folder / name
            if not file.is_file() or file_sha256(file) != digest:
                raise _damaged(file, "missing" if not file.is_file() else "not what state.json says")
        return progress

    def train(
        self,
        tokens: np.ndarray,
        unseen: np.ndarray,
        schedule: ladder.Schedule,
        checkpoints: Sequence[int],
        *,
        device: torch.device,
        report: Callable[[int, str], None],
    ) -> Progress:
        """Train up to the last step, from where the run was left, saving checkpoints; none is made twice.

        Args:
            tokens: stream to learn from.
            unseen: held-out stream.
            schedule: steps, batches and learning rates.
            checkpoints: steps after which the model is saved and its held-out loss measured.
            device: where to train.
            report: called with finished steps and a few words.

        Returns:
            How far the run is, which may be beyond the last step.

        Raises:
            EmbscaleError: the loss is no number, now or earlier, or the folder cannot be written.
        """
        if not self.progress.leads_to(checkpoints):
            self.progress = Progress()
        if self.progress.diverged is None and self.progress.step < schedule.steps:
            with _writing(self.folder):
                self._advance(tokens, unseen, schedule, checkpoints, device=device, report=report)
        if self.progress.diverged is not None and self.progress.diverged <= schedule.steps:
            raise EmbscaleError(
                f"diverged: the loss of step {self.progress.diverged} is no number. The training ends there; its "
                f"checkpoints are kept in {self.folder}. Lower the learning rate, or leave the "
                "run out, with this reason (ladder.left_out)"
            )
        return self.progress

    def _advance(
        self,
        tokens: np.ndarray,
        unseen: np.ndarray,
        schedule: ladder.Schedule,
        checkpoints: Sequence[int],
        *,
        device: torch.device,
        report: Callable[[int, str], None],
    ) -> None:
        """Train from the newest state to the last step, or until the loss is no number."""
        progress = self.progress
        model = ladder.build(**self.about["shape"])
        torch.nn.Module.to(model, device)
        ladder.input_table(model).requires_grad_(self.about["input_table"] == "trained")
        optimizer = ladder.optimiser(model, schedule)
        if progress.step:
            self._load_state(model, optimizer)
        before, began = progress.seconds, time.perf_counter()
        saved = began

        def reached(step: int, loss: float) -> None:
            nonlocal saved
            report(step, f"loss {loss:.3f}")
            progress.step = step
            if step:
                progress.losses.append(loss)
                if not math.isfinite(loss):
                    progress.diverged = step
                    self._write_state(model, optimizer)
                    raise _DivergedError
            if step in checkpoints:
                unseen_loss = ladder.heldout_loss(model, unseen, context=schedule.context, batch=schedule.batch)
                self._save_checkpoint(model, step, unseen_loss)
            now = time.perf_counter()
            progress.seconds = before + now - began
            if step == schedule.steps or now - saved > SECONDS_BETWEEN_STATES:
                self._write_state(model, optimizer)
                saved = time.perf_counter()

        with contextlib.suppress(_DivergedError):
            ladder.train(model, tokens, schedule, reached=reached, optimizer=optimizer, done=progress.step)

    def checkpoint(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.folder / f"step{step}"

    def _save_checkpoint(self, model: ladder.Rung, step: int, loss: float) -> None:
        folder = self.checkpoint(step)
        model.save_pretrained(folder)
        for name in KEPT:
            self.progress.files[f"{folder.name}/{name}"] = file_sha256(folder / name)
        self.progress.heldout[step] = loss

    def _write_state(self, model: ladder.Rung, optimizer: torch.optim.AdamW) -> None:
        """Save the state of model and optimiser, then name it in ``state.json``, then remove the one before."""
        progress = self.progress
        name = f"state-{progress.step}.safetensors"
        unfinished = self.folder / f".{name}"
        save_file(_tensors(model, optimizer), unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(self.folder / name)
        before = [path for path in self.folder.glob("state-*.safetensors") if path.name != name]
        before += self.folder.glob(".state-*")  # of a training that was killed while it wrote
        progress.files = {file: sha for file, sha in progress.files.items() if not file.startswith("state-")}
        progress.files[name] = file_sha256(self.folder / name)
        _replace(self.folder / "state.json", json.dumps(asdict(progress)))
        for path in before:
            path.unlink()

    def _load_state(self, model: ladder.Rung, optimizer: torch.optim.AdamW) -> None:
        path = self.folder / f"state-{self.progress.step}.safetensors"
        try:
            tensors = load_file(path)
        except SafetensorError as error:
            raise _damaged(path, str(error)) from None
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(tensors[f"model.{name}"])
                for moment in MOMENTS:
                    if (key := f"{moment}.{name}") in tensors:
                        optimizer.state[weight][moment] = tensors[key].to(weight.device)


class _DivergedError(Exception):
    """Ends a training whose loss is no number."""


def _tensors(model: ladder.Rung, optimizer: torch.optim.AdamW) -> dict[str, torch.Tensor]:
    """Weights and the moments of their gradients, by name."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"model.{name}"] = weight.detach().contiguous()
        for moment, value in optimizer.state.get(weight, {}).items():
            tensors[f"{moment}.{name}"] = value.detach().contiguous()
    return tensors


def _replace(path: Path, text: str) -> None:
    """Write a small file as a whole, or leave the one that is there."""
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(values, dict):
        raise _damaged(path, "not a JSON object")
    return values


def _damaged(path: Path, why: str) -> EmbscaleError:
    return EmbscaleError(f"{path}: damaged ({why}); remove {path.parent} to train from the start")


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Report a failure to write, as on a full disk, in one line; the state before it stays."""
    try:
        yield
    except (SafetensorError, OSError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise EmbscaleError(f"{folder}: cannot write ({words}); the training goes on from its last state") from None
