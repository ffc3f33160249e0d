"""What of a study does not fit, each with the parameter that makes it fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embscale.layers.classifiers import AT_ONCE
from embscale.planning import disk
from embscale.planning.models import Model, Models, grid_sample
from embscale.planning.work import Job, Set, probed, whole_set


@dataclass(frozen=True)
class Room:
    """What the machine has.

    Attributes:
        memory: bytes of memory that are free.
        disk: bytes that are free where results go.
    """

    memory: int
    disk: int

    @classmethod
    def here(cls, results: Path) -> Room:
        """Of this machine, at the folder of results, which need not exist yet."""
        import psutil

        there = results.resolve()
        while not there.exists():
            there = there.parent
        return cls(psutil.virtual_memory().available, shutil.disk_usage(there).free)


def problems(models: Models, jobs: Sequence[Job], needed: disk.Need, room: Room) -> Iterator[str]:
    """Why a study cannot run from end to end here; none if it can.

    Args:
        models: of the study.
        jobs: of `embscale.planning.work`.
        needed: what is still to be written.
        room: what the machine has.
    """
    yield from _unpinned(models)
    yield from _unnamed(models)
    yield from _unknown(models)
    yield from _storage(models)
    yield from _refused(models)
    for job in jobs:
        if job.peak > room.memory:
            advice = f"; take {job.smaller}" if job.smaller else ""
            yield (
                f"{job.name}: up to {job.peak / 1e9:.1f} GB of memory, but {room.memory / 1e9:.1f} GB are free{advice}"
            )
    if not needed.fits:
        yield needed.words


def _unpinned(models: Models) -> Iterator[str]:
    missing = [item for item in models.planned if item.status == "unpinned"]
    if missing:
        yield (
            f"{len(missing)} checkpoints have no pinned commit, {missing[0].checkpoint.model} first: "
            "run embscale pin STUDY.yaml, or leave out their suites"
        )


def _unnamed(models: Models) -> Iterator[str]:
    """Models that parameters name and that take no part in the layers' chapter."""
    layers = models.config["layers"]
    there = [model.name for model in models.classified]
    allowed = f"allowed: {', '.join(there)}" if there else "no model of layers.suites takes part"
    named = {"base": [layers["base"]], "pictured": layers["pictured"], "grid.models": layers["grid"]["models"]}
    for parameter, names in named.items():
        for name in names:
            if name not in there:
                yield f"layers.{parameter}: {name} takes no part in this study; {allowed}"


def _unknown(models: Models) -> Iterator[str]:
    for model in models.classified:
        if model.depth is None:
            yield f"{model.name}: its depth is not in hub.registry, so its layers cannot be counted; give it there"


def _storage(models: Models) -> Iterator[str]:
    layers = models.config["layers"]
    limit = layers["storage_gb"]
    largest = max(
        (file for file in disk.files(models) if file.chapter == disk.LAYERS), key=lambda f: f.size, default=None
    )
    of_grid = grid_sample(layers) or layers
    for model in models.classified:
        sample, smaller = layers, "layers.texts_count or layers.tokens"
        if model.name in layers["grid"]["models"] and of_grid is not layers:
            sample, smaller = of_grid, "number in layers.grid.counts or layers.grid.windows"
        size = model.states_bytes(sample["texts_count"] * sample["tokens"], layers["precision"])
        if model.depth is not None and largest is not None and size > limit * 1e9:
            yield (
                f"states {model.name}: {size / 1e9:.1f} GB are above layers.storage_gb, {limit:g}; raise it to "
                f"{largest.size / 1e9 + 0.05:.1f} for all models, or take a smaller {smaller}"
            )


def _refused(models: Models) -> Iterator[str]:
    """Classifiers that are refused before the first fit: those that need all vectors at once."""
    settings = models.config["layers"]
    for model in models.classified:
        names = [kind.classifier for kind in probed(settings)]
        yield from _over("probe", "layers", model, whole_set(model, settings), names, settings)


def _over(
    rule: str, group: str, model: Model, whole: Set, classifiers: Sequence[str], settings: Mapping[str, Any]
) -> Iterator[str]:
    """A line if training vectors of some classifiers are above the memory that is given."""
    sizes = {name: training_bytes(name, whole, settings) for name in dict.fromkeys(classifiers)}
    over = {name: size for name, size in sizes.items() if size > settings["memory_gb"] * 1e9}
    if over:
        yield (
            f"{rule} {model.name}: {', '.join(over)} {'need' if len(over) > 1 else 'needs'} up to "
            f"{max(over.values()) / 1e9:.3g} GB of training vectors in memory, and layers.memory_gb is "
            f"{settings['memory_gb']:g}; raise it, take a smaller layers.texts_count, or leave "
            f"{', '.join(over)} out of {group}.classifiers"
        )


def training_bytes(classifier: str, whole: Set, settings: Mapping[str, Any]) -> float:
    """Bytes that a classifier must hold, as `embscale.layers.classifiers.fit` counts them; 0 if it reads part by part.

    Args:
        classifier: of `embscale.layers.classifiers.CLASSIFIERS`.
        whole: all vectors, before the split.
        settings: parameters of the layers.
    """
    if classifier not in AT_ONCE:
        return 0.0
    return whole.share(1 - settings["test_fraction"]).size
