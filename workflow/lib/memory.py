"""Snakemake's records of a study's jobs, in one file that is recorded with the results.

Without its records Snakemake takes any parameter for the old one, so they travel with the results.  All studies have
theirs in one folder, so each records its own in a file, `FILE`.  That file is there as long as no job of the study has
run since: a run removes it, and a checkout that brings it back brings back the records.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from embscale.provenance.snakemake_metadata import METADATA, output_of, read_record, record_path
from locks import RunLock
from pipelines import site

FILE = "memory.json.xz"
RESULTS, HUB = Path("results"), Path("results/hub")
# SHA-256 of the file of each study whose records Snakemake has.
UNPACKED = Path(".snakemake/embscale.memory")


def memory_file(study: str) -> Path:
    """Where the records of a study are kept."""
    return RESULTS / study / FILE


def belongs(path: Path, study: str) -> bool:
    """Whether a result is the study's own: in its folder, or among its pages."""
    pages = site(study)
    others = pages / "studies"
    return path.is_relative_to(RESULTS / study) or (path.is_relative_to(pages) and not path.is_relative_to(others))


def pack(study: str, metadata: Path = METADATA) -> int:
    """Write the records of a study's results, and of the fetched files that they were made of; returns their number.

    Most records hold a copy of the environment file, which Snakemake reads for ``--report`` alone; it sees changed
    software by a digest, which is kept.  So the copies are left out.
    """
    known = {output_of(path, metadata): path for path in metadata.rglob("*") if path.is_file()}
    waiting = [path for path in known if belongs(path, study)]
    records: dict[str, dict[str, Any]] = {}
    while waiting:
        path = waiting.pop()
        if path in known and path.as_posix() not in records:
            record = json.loads(known[path].read_text("utf-8"))
            records[path.as_posix()] = record | {"conda_env": None}
            waiting += [Path(name) for name in record.get("input") or [] if Path(name).is_relative_to(HUB)]
    file = memory_file(study)
    content = lzma.compress(json.dumps(records, sort_keys=True).encode())
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_bytes(content)
    unfinished.replace(file)
    _mark(study, content)
    return len(records)


def unpack(study: str, metadata: Path = METADATA) -> int:
    """Give Snakemake the records that came with a study's results; returns how many it did not have.

    Those of fetched files, which studies share, only where it has none.  Does nothing where the file was unpacked
    before, where there is none, and beside a run.

    Raises:
        ValueError: the file is damaged; the message says what to do.
    """
    file = memory_file(study)
    if not file.is_file() or not RunLock().free():
        return 0
    content = file.read_bytes()
    if metadata.is_dir() and _marked(study) == hashlib.sha256(content).hexdigest():
        return 0
    new = 0
    for path, record in _records(content, file):
        old = read_record(path, metadata)
        if old != record and (old is None or belongs(path, study)):
            target = record_path(path, metadata)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(record), "utf-8")
            new += 1
    _mark(study, content)
    return new


def _records(content: bytes, file: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Results and their records."""
    try:
        return [(Path(name), dict(record)) for name, record in json.loads(lzma.decompress(content)).items()]
    except (lzma.LZMAError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: damaged ({error}); take it from the record: make fetch, or remove it") from error


def outdate(study: str, outputs: Iterable[str]) -> None:
    """Remove the file of a study if jobs with these outputs are about to change its records."""
    if any(belongs(Path(output), study) for output in outputs):
        # The mark first: were it left behind, the same file, once it is back, would pass for unpacked.
        (UNPACKED / study).unlink(missing_ok=True)
        memory_file(study).unlink(missing_ok=True)


def _marked(study: str) -> str | None:
    mark = UNPACKED / study
    return mark.read_text("utf-8") if mark.is_file() else None


def _mark(study: str, content: bytes) -> None:
    UNPACKED.mkdir(parents=True, exist_ok=True)
    (UNPACKED / study).write_text(hashlib.sha256(content).hexdigest(), "utf-8")


if __name__ == "__main__":
    pack(sys.argv[1])
    sys.exit(0)
