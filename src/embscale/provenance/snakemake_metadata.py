"""Snakemake's records of jobs: what it remembers of each output, in files of its own.

The Snakefile uses this wherever Snakemake is installed, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

METADATA = Path(".snakemake/metadata")
LONGEST_NAME = 254  # of a file, less one for the mark that Snakemake sets before a part of a name


def record_path(path: Path, metadata: Path = METADATA) -> Path:
    """Where Snakemake keeps its record of an output: a file named by the output's path in base64."""
    name = urlsafe_b64encode(path.as_posix().encode()).decode()
    parts = [name[i : i + LONGEST_NAME] for i in range(0, len(name), LONGEST_NAME)]
    return metadata.joinpath(*(f"@{part}" for part in parts[:-1]), parts[-1])


def read_record(path: Path, metadata: Path = METADATA) -> dict[str, Any] | None:
    """Snakemake's record of an output; None where there is none that can be read."""
    try:
        record: dict[str, Any] = json.loads(record_path(path, metadata).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return record


def checksums(record: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of a job's inputs by path, where Snakemake took it."""
    checksums = record.get("input_checksums") or {}
    return {name: checksum.rpartition(":")[2] for name, checksum in checksums.items() if checksum}


def output_of(record: Path, metadata: Path = METADATA) -> Path:
    """The output whose record a file is: the inverse of `record_path`."""
    name = "".join(part.removeprefix("@") for part in record.relative_to(metadata).parts)
    return Path(urlsafe_b64decode(name).decode())
