"""What the jobs of a study took: time and memory by step, from the benchmark files that Snakemake writes.

No page holds these numbers, because they are others in every run, and a page shall not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows import tidy

# Columns of a benchmark file: seconds of the clock, of the processor, and the most memory in MiB.
MEASURED = {"s": "seconds", "cpu_time": "processor_seconds", "max_rss": "memory_mib"}
COLUMNS = [
    "step", "jobs", "seconds", "processor_seconds", "longest_job", "longest_seconds", "largest_job", "memory_mib",
]  # fmt: skip

# What rows of any table are measured in that no two runs have in common.
UNITS = ("seconds", "job", "mib")


def is_cost(column: str) -> bool:
    """Whether a column of any table says what a job took, by the last word of its name: ``longest_seconds``."""
    return column.rpartition("_")[2] in UNITS


def costs(folder: Path, steps: Sequence[str]) -> pd.DataFrame:
    """Time and memory of the jobs of each step.

    Args:
        folder: of a study's benchmark files, one folder for each step.
        steps: names of the rules.

    Returns:
        Columns `COLUMNS`, a row for each step: sums of seconds by the clock and of the processor over all jobs, the
        job that took longest, and the one with the most memory (resident, MiB).  What other work was on the machine
        is in the seconds of the clock.

    Raises:
        EmbscaleError: a step has no such files, or one is broken.
    """
    rows = []
    for step in steps:
        files = sorted((folder / step).glob("*.tsv"))
        if not files:
            raise EmbscaleError(f"{folder / step}: no *.tsv; run the step with snakemake first")
        found = pd.concat([_read(file) for file in files], ignore_index=True)
        longest, largest = found.loc[found["seconds"].idxmax()], found.loc[found["memory_mib"].idxmax()]
        rows.append(
            {
                "step": step,
                "jobs": len(found),
                "seconds": found["seconds"].sum(),
                "processor_seconds": found["processor_seconds"].sum(),
                "longest_job": longest["job"],
                "longest_seconds": longest["seconds"],
                "largest_job": largest["job"],
                "memory_mib": largest["memory_mib"],
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def _read(file: Path) -> pd.DataFrame:
    try:
        rows = tidy.load_text(file, separator="\t")[list(MEASURED)].replace("-", "nan").astype(float)
        rows = rows.rename(columns=MEASURED)
    except (KeyError, ValueError) as error:
        raise EmbscaleError(f"{file}: not a benchmark file of Snakemake ({error}); remove it") from error
    # A job that ends within a second is never looked at, and has no memory.
    return rows.fillna({"memory_mib": 0.0}).assign(job=file.stem)
