"""Summary of a run in a few lines: time and memory by chapter, bytes fetched, and up-to-date jobs."""

from __future__ import annotations

import csv
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from console import clock

MEMORY = "max_rss"  # of a benchmark file, in MiB
FETCHES = "fetch_"  # how the names of rules begin that fetch something


def of_dag(dag: Any, started: float) -> str:  # noqa: ANN401 (Snakemake's graph of jobs)
    """The summary of a run that is over.

    Args:
        dag: Snakemake's graph of jobs, each of which has a rule, a benchmark file and outputs.
        started: when the run began, in seconds since 1970.
    """
    ran = [job for job in dag.finished_jobs if job.rule.benchmark is not None]
    rows = [
        {
            "chapter": Path(job.rule.snakefile).stem,
            **benchmark(Path(str(job.benchmark))),
            "fetched": fetched(map(Path, job.output)) if job.rule.name.startswith(FETCHES) else 0,
        }
        for job in ran
    ]
    up_to_date = sum(job.rule.benchmark is not None and not dag.needrun(job) for job in dag.jobs)
    return table(rows, up_to_date=up_to_date, elapsed=time.time() - started)


def benchmark(path: Path) -> dict[str, float]:
    """Seconds and MiB of a job; 0 if it was too short to be measured."""
    if not path.is_file():
        return {"seconds": 0.0, "memory": 0.0}
    with path.open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file, delimiter="\t"), {})
    return {"seconds": number(row.get("s")), "memory": number(row.get(MEMORY))}


def number(text: str | None) -> float:
    """A cell of a benchmark file, which may lack a value."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def fetched(outputs: Iterable[Path]) -> int:
    """Bytes of the files that the notes among a job's outputs name."""
    notes = [path for path in outputs if path.name.endswith(".note.json") and path.is_file()]
    files = {Path(name) for note in notes for name in json.loads(note.read_text("utf-8"))["outputs"]}
    return sum(file.stat().st_size for file in files if file.is_file())


def table(rows: Iterable[Mapping[str, Any]], *, up_to_date: int, elapsed: float) -> str:
    """The lines of the summary.

    Args:
        rows: ``chapter``, ``seconds``, ``memory`` in MiB and ``fetched`` in bytes of each job that ran.
        up_to_date: jobs whose results were there already.
        elapsed: seconds of the whole run.
    """
    chapters: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        chapters[row["chapter"]].append(row)
    # Jobs run in parallel, so their times add up to more than the run's.
    lines = [f"{'chapter':10}{'jobs':>6}{'time of jobs':>14}{'peak memory':>13}"] if chapters else []
    for chapter, jobs in chapters.items():
        seconds, memory = sum(job["seconds"] for job in jobs), max(job["memory"] for job in jobs)
        lines.append(f"{chapter:10}{len(jobs):>6}{clock(seconds):>14}{memory:>9.0f} MiB")
    everything = [job for jobs in chapters.values() for job in jobs]
    lines.append(
        f"{len(everything)} jobs ran in {clock(elapsed)}, {up_to_date} were up to date; "
        f"peak memory {max((job['memory'] for job in everything), default=0):.0f} MiB; "
        f"{sum(job['fetched'] for job in everything) / 1e6:.1f} MB fetched"
    )
    return "\n".join(lines)
