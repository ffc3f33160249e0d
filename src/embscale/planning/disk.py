"""The large files of a study and their sizes, before they are there.

The Snakefile imports this module, so that a run can stop before it would fill the disk; it may only depend on what
`embscale.checkpoints.suites` needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from embscale.planning.models import Model, Models, grid_sample

HUB, TRAINING, LAYERS = "hub", "training", "layers"
# Which parameter makes the files of a chapter smaller.
SMALLER = {
    HUB: "hub.max_table_gb, hub.max_checkpoint_gb or fewer suites",
    TRAINING: "fewer of ladder.checkpoints, ladder.seeds or ladder.widths",
    LAYERS: "a smaller layers.texts_count or layers.tokens",
}
TEXT_ID_BYTES = 64  # of a text's id and its share of the header of a file of hidden states: of the default study, 54
RESERVE = 1_000_000_000  # for everything that is not listed: rows, figures, pages, logs


class File(NamedTuple):
    """A large file, or the folder of a checkpoint, named by the output of the job that writes it.

    Attributes:
        path: output of a rule.
        chapter: which chapter writes it.
        size: bytes.
    """

    path: Path
    chapter: str
    size: int


def files(models: Models, results: Path = Path("results")) -> list[File]:
    """Every large file of a study.

    Args:
        models: of the study.
        results: the folder of all studies' results.
    """
    study = results / models.config["study"]
    return [*_fetched(models, results / "hub"), *_trained(models, study), *_states(models, study)]


def _fetched(models: Models, hub: Path) -> Iterator[File]:
    for item in models.planned:
        point = item.checkpoint
        if item.fetched_table_bytes:
            yield File(hub / "tables" / point.model / f"{point.name}.safetensors", HUB, item.fetched_table_bytes)
        if item.fetched_whole_bytes:
            folder = hub / "checkpoints" / point.model / point.name
            yield File(folder / "config.json", HUB, item.fetched_whole_bytes)


def _trained(models: Models, study: Path) -> Iterator[File]:
    """Checkpoints and states of runs by their losses, which the same job writes; then the tables extracted of them."""
    for training in models.trainings:
        if training.run:
            folder = study / "checkpoints" / training.run
            yield File(folder / "losses.csv", TRAINING, training.checkpoint_bytes + training.state_bytes)
    for model in models.own:
        for checkpoint in model.checkpoints:
            path = study / "tables" / model.name / f"{checkpoint}.safetensors"
            yield File(path, TRAINING, model.rows * model.dims * model.item)


def _states(models: Models, study: Path) -> Iterator[File]:
    layers = models.config["layers"]

    def file(model: Model, folder: str, sample: Mapping[str, Any]) -> File:
        vectors = sample["texts_count"] * sample["tokens"]
        size = model.states_bytes(vectors, layers["precision"]) + TEXT_ID_BYTES * sample["texts_count"]
        return File(study / "states" / folder / f"{model.name}.safetensors", LAYERS, size)

    sample = grid_sample(layers)
    for model in models.classified:
        if model.depth is not None:
            yield from (file(model, source, layers) for source in models.sources_of(model))
            if sample and model.name in layers["grid"]["models"]:
                yield file(model, f"{layers['texts'][0]['name']}-grid", sample)


@dataclass(frozen=True)
class Need:
    """What is still to be written.

    Attributes:
        files: those that are not there yet.
        free: bytes that are free where they go.
    """

    files: tuple[File, ...]
    free: int

    @property
    def size(self) -> int:
        """Bytes to write."""
        return sum(file.size for file in self.files)

    @property
    def fits(self) -> bool:
        """Whether the disk holds them, and `RESERVE` beside them."""
        return not self.files or self.size + RESERVE <= self.free

    @property
    def words(self) -> str:
        """What is too large, and which parameter makes it smaller."""
        by_chapter: dict[str, int] = {}
        for file in self.files:
            by_chapter[file.chapter] = by_chapter.get(file.chapter, 0) + file.size
        largest = max(by_chapter, key=lambda chapter: by_chapter[chapter])
        return (
            f"the disk: {self.size / 1e9:.1f} GB are to be written, {by_chapter[largest] / 1e9:.1f} of them by the "
            f"chapter {largest}, and {self.free / 1e9:.1f} GB are free, {RESERVE / 1e9:g} of which stay free; "
            f"free some, or take {SMALLER[largest]}"
        )


def need(some: Iterable[File], free: int, *, written: Iterable[Path] | None = None) -> Need:
    """What of some files is still to be written.

    Args:
        some: of `files`.
        free: bytes that are free.
        written: outputs of the jobs that will run; by default, whatever does not exist.  The bytes of a file that a
            job replaces are free by then.
    """
    outputs = None if written is None else set(written)
    left = []
    for file in some:
        if (not file.path.exists()) if outputs is None else file.path in outputs:
            replaced = file.path.stat().st_size if file.path.suffix == ".safetensors" and file.path.is_file() else 0
            left.append(file._replace(size=max(0, file.size - replaced)))
    return Need(tuple(left), free)
