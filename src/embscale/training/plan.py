"""What a study's trainings take, told before they start: runs, tokens, operations, time on this machine, disk."""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError
from embscale.parameters import runs as study_runs
from embscale.parameters import schema
from embscale.parameters.training import LANGUAGE_MODEL, Recipe
from embscale.training import cost

FEWEST_STEPS = 3  # that a measurement is of; the first one is slower and does not count
TOKENIZER_BYTES = 64  # of tokenizer.json for each token: that of the default study; each checkpoint has a copy

TUNING, WARM_STARTS = "tuning", "warm starts"
ALONE = {"input_table": "trained", "device": "cpu"}  # of experiments beside the runs of the ladder


@dataclass(frozen=True)
class Training:
    """A language model that is trained once.

    Attributes:
        suite: what it belongs to.
        shape: arguments of `embscale.training.ladder.build`.
        recipe: how it learns.
        steps: of training.
        checkpoints: steps after which its loss on held-out texts is measured.
        input_table: trained or frozen.
        device: where it is trained.
        run: its name, if its checkpoints and its state are kept; empty if they are not.
    """

    suite: str
    shape: dict[str, Any]
    recipe: Recipe
    steps: int
    checkpoints: tuple[int, ...]
    input_table: str
    device: str
    run: str = ""

    @classmethod
    def of(
        cls,
        suite: str,
        settings: Mapping[str, Any],
        vocab_size: int,
        width: int,
        seed: int,
        *,
        positions: str = "rotary",
        run: str = "",
    ) -> Training:
        """A training by the parameters of its suite."""
        recipe = schema.build(Recipe, dict(settings))
        parts = {name: settings[name] for name in ("blocks", "head_width", "context", "tied")}
        return cls(
            suite,
            parts | {"width": width, "vocab_size": vocab_size, "seed": seed, "positions": positions},
            recipe,
            settings["steps"],
            tuple(settings["checkpoints"]),
            settings["input_table"],
            settings["device"],
            run,
        )

    @property
    def width(self) -> int:
        """Columns of the embedding table."""
        return int(self.shape["width"])

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a batch."""
        return self.recipe.batch * self.recipe.context

    @property
    def tokens(self) -> int:
        """Tokens of the whole training."""
        return self.steps * self.tokens_per_step

    @property
    def operations_per_step(self) -> float:
        """Floating-point operations of a step."""
        return cost.operations(self.shape, self.tokens_per_step)

    @property
    def checkpoint_bytes(self) -> int:
        """What its checkpoints take: a copy with the run, one with the study, which also has the tokenizer."""
        if not self.run:
            return 0
        tokenizer = TOKENIZER_BYTES * self.shape["vocab_size"]
        return len(self.checkpoints) * (2 * cost.checkpoint_bytes(self.shape) + tokenizer)

    @property
    def state_bytes(self) -> int:
        """What its newest state takes."""
        return cost.state_bytes(self.shape, self.input_table) if self.run else 0

    @property
    def kind(self) -> tuple[Any, ...]:
        """What decides how long a step takes."""
        shape = tuple(value for name, value in self.shape.items() if name != "seed")
        return (*shape, self.recipe.batch, self.input_table, self.device)


def trainings(config: Mapping[str, Any]) -> list[Training]:
    """Every language model that a study trains: its runs, one with learned positions, and those of its experiments.

    Args:
        config: the parameters of the study.
    """
    ladder, rows = config["ladder"], config["tokenizer"]["vocab_size"]
    named = {**study_runs.runs(ladder), **study_runs.learned(config)}
    found = [
        Training.of(run.suite, run.settings, rows, run.width, run.seed, positions=run.positions, run=name)
        for name, run in named.items()
    ]
    ((setting, values),) = config["tuning"]["grids"][LANGUAGE_MODEL].items()
    done = {ladder[setting]} if study_runs.tuned_run(config) else set()
    for value in values:
        if value not in done:
            settings = {**ladder, setting: value, "checkpoints": [ladder["steps"]], **ALONE}
            found.append(Training.of(TUNING, settings, rows, config["tuning"]["dim"], ladder["seeds"][0]))
    warm = config["warm_start"]
    for start in warm["starts"]:
        settings = {**ladder, **{name: warm[name] for name in ("steps", "checkpoints")}, **ALONE}
        settings |= {"input_table": "frozen"} if start.endswith("frozen") else {}
        found += [Training.of(WARM_STARTS, settings, rows, warm["dim"], seed) for seed in warm["seeds"]]
    return found


@dataclass(frozen=True)
class Files:
    """Where the texts of a study and its runs are.

    Attributes:
        runs: folder of all runs.
        corpus: folder of the corpus in the BEIR format.
        tokens: the corpus as tokens.
        tokenizer: folder of the tokenizer.
    """

    runs: Path
    corpus: Path
    tokens: Path
    tokenizer: Path

    @classmethod
    def of(cls, config: Mapping[str, Any], results: Path) -> Files:
        """Where the workflow puts them."""
        study, task, tokenizer = results / config["study"], config["corpus"]["task"], config["tokenizer"]["name"]
        tokens = study / "tokens" / task / f"{tokenizer}.safetensors"
        return cls(results / "runs", study / "tasks" / task, tokens, study / "tokenizer")


@dataclass(frozen=True)
class Done:
    """What is trained already.

    Attributes:
        steps: finished steps by run; 0 where its training would begin anew.
        diverged: by run, the step whose loss is no number.
    """

    steps: dict[str, int] = field(default_factory=dict)
    diverged: dict[str, int] = field(default_factory=dict)


def look_up(trainings: Sequence[Training], files: Files) -> Done | None:
    """How far each run is, as the trainer would find it; None if that cannot be told, for want of texts or device.

    Raises:
        EmbscaleError: texts, tokens or the state of a run are damaged.
    """
    kept = [training for training in trainings if training.run]
    if not any(files.runs.glob("*/state.json")):
        return Done(dict.fromkeys((training.run for training in kept), 0))
    from embscale.devices import find_device
    from embscale.texts import beir, streams
    from embscale.texts import tokens as token_files
    from embscale.training import ladder, runs

    try:
        corpus = beir.corpus_file(files.corpus)
        devices = {training.device: find_device(training.device) for training in kept}
    except EmbscaleError:
        return None
    if not (files.tokens.is_file() and token_files.tokenizer_file(files.tokenizer).is_file()):
        return None
    found = Done()
    texts: dict[int, Any] = {}
    for training in kept:
        seed = training.shape["seed"]
        if seed not in texts:
            texts[seed] = streams.read(corpus, files.tokens, files.tokenizer, seed=seed)
        stream, unseen, _ = texts[seed]
        about = runs.description(
            shape=training.shape,
            schedule=ladder.Schedule.of(training.recipe, steps=training.steps, seed=seed),
            input_table=training.input_table,
            training=stream,
            unseen=unseen[: ladder.HELDOUT_TOKENS],
            threads=1,
            device=devices[training.device],
        )
        progress = runs.Run(files.runs, about).recorded()
        found.steps[training.run] = min(progress.step, training.steps) if progress.leads_to(training.checkpoints) else 0
        if progress.diverged is not None and progress.diverged <= training.steps:
            found.diverged[training.run] = progress.diverged
    return found


@dataclass(frozen=True)
class Speed:
    """How fast this machine trains.

    Attributes:
        step: seconds of a step, by `Training.kind`: of a core, or of a GPU.
        start: seconds before the first one, for the libraries.
        heldout_tokens: on which the loss is measured at each checkpoint.
    """

    step: dict[tuple[Any, ...], float]
    start: float
    heldout_tokens: int

    def seconds(self, training: Training, done: int = 0) -> float:
        """Seconds that a training takes from here; a checkpoint's loss needs forward passes alone, a third of steps."""
        if done >= training.steps:
            return 0.0
        checkpoints = sum(step >= done for step in training.checkpoints)
        evaluated = checkpoints * self.heldout_tokens / training.tokens_per_step / 3
        return self.start + (training.steps - done + evaluated) * self.step[training.kind]


def measure(trainings: Sequence[Training], *, seconds: float) -> Speed:
    """Time a few steps of each kind of model, the smallest first.

    Where the time left is too short for another kind, its steps are taken to need as long for an operation as those of
    the largest model that was timed.

    Args:
        trainings: of `trainings`.
        seconds: for all together.

    Raises:
        EmbscaleError: a model cannot be built, or torch finds no such device.
    """
    began = time.process_time()
    from transformers.utils import logging

    from embscale.training import ladder

    logging.set_verbosity_error()  # of models that only live for their timing
    start = time.process_time() - began
    steps: dict[tuple[Any, ...], float] = {}
    left, per_operation = seconds, 0.0
    kinds = {training.kind: training for training in trainings}
    waiting = sorted(kinds.values(), key=lambda training: training.operations_per_step)
    for number, training in enumerate(waiting):
        expected = per_operation * training.operations_per_step
        if (FEWEST_STEPS + 1) * expected > left:
            steps[training.kind] = expected
            continue
        before = time.perf_counter()
        steps[training.kind] = _seconds_of_a_step(training, until=before + left / (len(waiting) - number))
        per_operation = steps[training.kind] / training.operations_per_step
        left -= time.perf_counter() - before
    return Speed(steps, start, ladder.HELDOUT_TOKENS)


class _EnoughError(Exception):
    """Ends a training that was timed."""


def _seconds_of_a_step(training: Training, *, until: float) -> float:
    """The mean time of a step after the first, on random tokens: of the processor, where it does all of the work."""
    import numpy as np
    import torch

    from embscale.devices import choose_device
    from embscale.training import ladder

    model = ladder.build(**training.shape)
    device = choose_device(training.device)
    torch.nn.Module.to(model, device)
    clock = time.process_time if device.type == "cpu" else time.perf_counter  # other work on the machine costs nothing
    ladder.input_table(model).requires_grad_(training.input_table == "trained")
    tokens = np.random.default_rng(0).integers(0, training.shape["vocab_size"], training.tokens_per_step)
    ends: list[float] = []

    def reached(step: int, loss: float) -> None:
        if step:
            ends.append(clock())
        if len(ends) > FEWEST_STEPS and time.perf_counter() > until:
            raise _EnoughError

    endless = ladder.Schedule.of(training.recipe, steps=10**9, seed=0)
    with contextlib.suppress(_EnoughError):
        ladder.train(model, tokens, endless, reached=reached)
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def side_by_side(seconds: Sequence[float], places: int) -> float:
    """When the last of some jobs ends that start in their order, each where a place is free first."""
    ends = [0.0] * places
    for duration in seconds:
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def render(trainings: Sequence[Training], *, done: Done | None, speed: Speed | None, cores: int) -> str:
    """The trainings as text: a line for each suite and width, totals last, then what of it is left.

    Args:
        trainings: of `trainings`.
        done: of `look_up`.
        speed: of `measure`; None if it was not measured.
        cores: runs at a time, one thread each.
    """
    columns = ["trainings", "runs", *(["done", "begun"] if done else []), "tokens", "FLOPs"]
    columns += [*(["core time"] if speed else []), "checkpoints", "states"]
    rows = [columns]
    for suite in dict.fromkeys(training.suite for training in trainings):
        own = [training for training in trainings if training.suite == suite]
        widths = sorted({training.width for training in own})
        if len(widths) > 1:
            rows.append([suite, *_sums(own, done, speed)])
            rows += [
                [f"  width {width}", *_sums([t for t in own if t.width == width], done, speed)] for width in widths
            ]
        else:
            rows.append([f"{suite}, width {widths[0]}", *_sums(own, done, speed)])
    rows.append(["total", *_sums(trainings, done, speed)])
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([f"{name:{sizes[0]}}", *(f"{cell:>{size}}" for cell, size in zip(cells, sizes[1:], strict=True))])
        for name, *cells in rows
    ]
    return "\n".join([*lines, "", *_remarks(trainings, done, speed, cores)])


def _sums(some: Sequence[Training], done: Done | None, speed: Speed | None) -> list[str]:
    """Cells of a line."""
    steps = done.steps if done else {}
    whole = [training for training in some if training.run and steps.get(training.run) == training.steps]
    begun = [training for training in some if 0 < steps.get(training.run, 0) < training.steps]
    return [
        str(len(some)),
        *([str(len(whole)), str(len(begun))] if done else []),
        si(sum(training.tokens for training in some)),
        si(sum(training.steps * training.operations_per_step for training in some)),
        *([duration(sum(speed.seconds(training) for training in some))] if speed else []),
        si(sum(training.checkpoint_bytes for training in some), "B"),
        si(sum(training.state_bytes for training in some), "B"),
    ]


def _remarks(trainings: Sequence[Training], done: Done | None, speed: Speed | None, cores: int) -> Iterator[str]:
    """What the table cannot hold."""
    steps = done.steps if done else {}
    left = [(training, steps.get(training.run, 0)) for training in trainings]
    left = [(training, behind) for training, behind in left if behind < training.steps]
    if not left:
        yield "Left to train: nothing."
    else:
        operations = sum((training.steps - behind) * training.operations_per_step for training, behind in left)
        tokens = sum((training.steps - behind) * training.tokens_per_step for training, behind in left)
        words = f"Left to train: {_several(len(left), 'run')} of {si(tokens)} tokens, {si(operations)} FLOPs"
        if speed:
            # As the workflow starts them: the widest first.
            order = sorted(left, key=lambda item: -item[0].width)
            took = side_by_side([speed.seconds(*item) for item in order], cores)
            words += f"; about {duration(took)} on {_several(cores, 'core')}, a run on each, if nothing else is running"
        yield f"{words}."
    disk = sum(training.checkpoint_bytes + training.state_bytes for training in trainings)
    yield f"Disk: {si(disk, 'B')}, half of the checkpoints with the runs that studies share, half with the study."
    if done is None:
        yield "What is trained already can be told once the study's texts are there (and its device)."
    for run, step in (done.diverged if done else {}).items():
        yield f"{run} diverged at step {step}: lower its learning rate, or name it in ladder.left_out."


def _several(count: int, name: str) -> str:
    return f"{count} {name}" + ("s" if count != 1 else "")


def si(value: float, unit: str = "") -> str:
    """A number with three digits and a prefix of the SI: ``38.7 T``."""
    prefixes = ("", "k", "M", "G", "T", "P", "E", "Z")
    power = 0
    while power < len(prefixes) - 1 and float(f"{value:.3g}") >= 1000:
        value, power = value / 1000, power + 1
    return f"{float(f'{value:.3g}'):g} {prefixes[power]}{unit}".strip()


def duration(seconds: float) -> str:
    """Seconds, minutes or hours in words: ``3.4 h``."""
    for size, unit, digits in ((3600, "h", 1), (60, "min", 0)):
        if seconds >= size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"
