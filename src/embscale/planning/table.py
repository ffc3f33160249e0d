"""The plan of a study as text: a line for each chapter, and what one must know to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from embscale.planning import disk
from embscale.planning.models import Models
from embscale.planning.speed import Speed
from embscale.planning.work import CHAPTERS, PAIRS, SORTING, STEP, Job, texts_of
from embscale.training.plan import duration, si, side_by_side

CHAPTERS_OF_DISK = (disk.HUB, disk.TRAINING, disk.LAYERS)


def render(
    models: Models,
    jobs: Sequence[Job],
    files: Sequence[disk.File],
    *,
    speed: Speed | None,
    throughput: float,
    cores: int,
    room_words: str,
) -> str:
    """The table, then remarks.

    Args:
        models: of the study.
        jobs: of `embscale.planning.work`.
        files: of `embscale.planning.disk`, whether they are there or not.
        speed: of `embscale.planning.speed`; None if it was not measured.
        throughput: floating-point operations a second of the stated GPU.
        cores: jobs at a time.
        room_words: what is still to be written, and where.
    """
    header = ["chapter", "jobs", "to fetch", "disk", "memory", "FLOPs", *(["core time", "with a GPU"] if speed else [])]
    rows = [header]
    for chapter in CHAPTERS:
        some = [job for job in jobs if job.chapter == chapter]
        if some:
            rows.append([chapter, *_cells(some, [f for f in files if f.chapter == chapter], speed, throughput)])
    rows.append(["total", *_cells(jobs, files, speed, throughput)])
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([f"{name:{sizes[0]}}", *(f"{cell:>{size}}" for cell, size in zip(cells, sizes[1:], strict=True))])
        for name, *cells in rows
    ]
    return "\n".join([*lines, "", *_remarks(models, jobs, speed, throughput, cores), room_words])


def operations(job: Job) -> float:
    """Floating-point operations of all jobs of a kind; cosines that are sorted, comparisons and steps are none."""
    return job.count * sum(count for kind, count in job.operations.items() if kind not in (PAIRS, SORTING, STEP))


def _cells(some: Sequence[Job], files: Sequence[disk.File], speed: Speed | None, throughput: float) -> list[str]:
    fetched = sum(file.size for file in files if file.chapter == disk.HUB)
    cells = [
        str(sum(job.count for job in some)),
        si(fetched, "B") if fetched else "",
        si(sum(file.size for file in files), "B") if files else "",
        si(max(job.peak for job in some), "B"),
        si(total) if (total := sum(map(operations, some))) else "",
    ]
    if speed:
        ways: list[Callable[[Job], float]] = [speed.seconds, lambda job: speed.with_gpu(job, throughput)]
        cells += [duration(sum(job.count * way(job) for job in some)) for way in ways]
    return cells


def _remarks(models: Models, jobs: Sequence[Job], speed: Speed | None, throughput: float, cores: int) -> Iterator[str]:
    if speed:
        each = [speed.seconds(job) for job in jobs for _ in range(job.count)]
        took = side_by_side(sorted(each, reverse=True), cores)
        yield (
            f"From nothing: about {duration(took)} on {cores} core{'s' if cores > 1 else ''}, a job on each, if "
            "nothing else is running; the longest job is "
            f"{max(jobs, key=speed.seconds).name}, {duration(max(each))}. Without the time of downloads."
        )
        yield (
            f"With a GPU: one that keeps up {si(throughput)} FLOPs a second (--gpu-tflops), for jobs whose device is "
            f"auto or cuda; ladder.device is {models.config['ladder']['device']}."
        )
    assumed = [task for task in models.tasks if not texts_of(task).known]
    yield (
        f"Assumed, as they are not there before the run: the size of {' and '.join(assumed)} (as the default study's), "
        "that every source has enough texts, and a usual number of iterations of fits, measured at the size of GPT-2."
    )
    yield "Not counted: the texts of tasks and data sets, and rows, figures and pages, for which 1 GB is kept free."
