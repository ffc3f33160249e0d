"""Reconcile Snakemake's records with the files: changed contents with old times, and results without records.

Snakemake compares an input's content only where its time is newer than that of the output, takes parameters and code
for unchanged where it has no record of a job, and never looks at a result again.  After a pull, a checkout, a copy or
an edit, each of these can pass old bytes off as made by new code or new parameters.  `reconcile` runs before each graph
is built and turns what it finds into something that Snakemake does see.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError
from embscale.provenance.notes import NOTE_SUFFIX, outputs_of, read_note
from embscale.provenance.snakemake_metadata import checksums, read_record, record_path
from locks import RunLock
from memory import FILE as MEMORY

# Folders that rules write to.  A note that names a file elsewhere, as for a command run by hand, is not the
# workflow's.
WRITTEN = (Path("results"), Path("report/_site"))
LOCK, PROJECT = Path("requirements.lock"), Path("pyproject.toml")
KNOWN_DIGESTS = Path(".snakemake/embscale.digests.json")
# Among the results, made by no rule; Quarto leaves the latter two.
NOT_RESULTS = ("benchmarks", MEMORY, "_page", ".gitignore")
OLDEST = 1.0  # s since 1970: older than any input, but not 0, which Snakemake takes for no time at all


class Digests:
    """SHA-256 of files, cached between runs for files whose inode, size and times are unchanged."""

    def __init__(self, store: Path = KNOWN_DIGESTS) -> None:
        self.store = store
        self.known: dict[str, list[Any]] = {}
        if store.is_file():
            try:
                self.known = json.loads(store.read_text("utf-8"))
            except ValueError:
                self.known = {}  # a killed run; everything is read again

    def __call__(self, path: Path) -> str:
        """Hexadecimal SHA-256 of a file's bytes."""
        status = path.stat()
        # No program can set ctime, so an edit that keeps the size and restores mtime is detected too.
        signature = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        known = self.known.get(str(path))
        if known and known[:-1] == signature:
            return str(known[-1])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.known[str(path)] = [*signature, digest]
        return digest

    def save(self) -> None:
        """Save the cache for the next run."""
        self.store.parent.mkdir(exist_ok=True)
        unfinished = self.store.with_name(f"{self.store.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(self.known), "utf-8")
        unfinished.replace(self.store)


def results(roots: Iterable[Path]) -> Iterator[Path]:
    """Every file that a rule has made, in order: no measurements, no page made by hand, no hidden folder."""
    for root in roots:
        if root.is_file():
            yield root
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_RESULTS)
            yield from (Path(folder, name) for name in sorted(files) if name not in NOT_RESULTS)


def damaged(roots: Iterable[Path], digest: Digests) -> list[tuple[Path, Path]]:
    """Results whose bytes differ from those in a note, each with that note.

    What a note names outside the roots and the folders that rules write to is none of the workflow's results, however
    its name is written and whatever links lead there.
    """
    roots = list(roots)
    within = [folder.resolve() for folder in (*WRITTEN, *roots)]
    noted: dict[Path, tuple[str, Path]] = {}
    notes = [path for path in results(roots) if path.name.endswith(NOTE_SUFFIX)]
    # Of several notes that name a file all but the newest are of earlier versions of the workflow.
    for path in sorted(notes, key=lambda path: path.stat().st_mtime_ns):
        noted |= {name: (sha, path) for name, sha in _outputs(path, _read_note(path)).items()}
    return [
        (name, note)
        for name, (sha, note) in noted.items()
        if name.is_file() and any(name.resolve().is_relative_to(folder) for folder in within) and digest(name) != sha
    ]


def reconcile(roots: Iterable[Path]) -> list[Path]:
    """Make Snakemake notice changed contents and missing records.

    An input that is not what a result was made from gets the present time, so that Snakemake compares it.  A result
    without a record, with the record of another run than the one that its note describes, or made with a library of
    another version than the lock file's, gets a time older than any input and no record, so that it is made again.

    Args:
        roots: folders and files of results, relative to the current folder.

    Returns:
        Results that will be made again for lack of a record.

    Raises:
        ValueError: results are not those that their notes tell of; the message has a line for each.
    """
    roots = list(roots)
    if not RunLock().free():
        return []  # a dry run beside a run: what that one has in hand looks unfinished from here
    digest = Digests()
    edited = damaged(roots, digest)
    if edited:
        lines = (f"{path}: not what {note.name} says: changed or damaged after it was made" for path, note in edited)
        raise ValueError("\n".join([*lines, "Remove it to have it made again, or take it from the record: make fetch"]))
    paths = list(results(roots))
    versions = locked_versions()
    for path in paths:
        if path.name.endswith(NOTE_SUFFIX):
            note = _read_note(path)
            if not _agree(note, _record(path) or {}) or other_libraries(note, versions):
                for name in (path, *_outputs(path, note)):
                    record_path(name).unlink(missing_ok=True)
    forgotten, changed = [], set()

    @functools.cache  # most inputs are those of many results
    def present(source: str) -> str | None:
        return digest(Path(source)) if Path(source).is_file() else None

    for path in paths:
        record = _record(path)
        if record is None:
            forgotten.append(path)
            continue
        for source, checksum in checksums(record).items():
            if present(source) not in (None, checksum):
                changed.add(Path(source))
    for path in forgotten:
        os.utime(path, (OLDEST, OLDEST))
    for path in changed:
        os.utime(path)
    digest.save()
    return forgotten


def _record(path: Path) -> dict[str, Any] | None:
    """Snakemake's record of a file, or of its folder if the whole folder is an output."""
    return next(filter(None, map(read_record, (path, *path.parents))), None)


def locked_versions(lock: Path = LOCK, project: Path = PROJECT) -> dict[str, str]:
    """Versions of packages by name, from the lock file and, for torch, which is not in it, from pyproject.toml.

    None where there is neither file.
    """
    locked = lock.read_text("utf-8") if lock.is_file() else ""
    pinned = project.read_text("utf-8") if project.is_file() else ""
    torch = re.findall(r'"(torch)==([\w.]+)"', pinned)
    return dict(torch + re.findall(r"^([\w.-]+)==([\w.]+)", locked, re.MULTILINE))


def other_libraries(note: dict[str, Any], versions: dict[str, str]) -> list[str]:
    """Libraries of a job whose version was neither the locked nor the installed one.

    The former alone would make results again for ever in an environment that was not made from the lock file.
    """
    # A local label such as +cpu belongs to one machine.
    noted = {name: version.partition("+")[0] for name, version in note.get("libraries", {}).items()}
    return [
        name
        for name, version in noted.items()
        if version != versions.get(name, version) and version != _installed(name).partition("+")[0]
    ]


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _agree(note: dict[str, Any], record: dict[str, Any]) -> bool:
    """Whether a job's note and Snakemake's record refer to the same bytes."""
    recorded = checksums(record)
    noted = note.get("inputs", {}) | {f"src/{name}": sha for name, sha in note.get("sources", {}).items()}
    return all(recorded.get(name, sha) == sha for name, sha in noted.items())


def _read_note(path: Path) -> dict[str, Any]:
    """A job's note; empty if it cannot be read, which its consumers report."""
    try:
        return read_note(path)
    except EmbscaleError:
        return {}


def _outputs(path: Path, note: dict[str, Any]) -> dict[Path, str]:
    """The outputs that a note names; none if it could not be read."""
    return outputs_of(path, note) if note else {}


def remove_damaged() -> None:
    """Remove results of any study that are not what their notes say, as after a checkout."""
    digest = Digests()
    # Files fetched from a hub are checked by the jobs that read them.
    studies = [folder for folder in Path("results").glob("*") if folder.name != "hub"]
    for path, note in damaged([*studies, WRITTEN[-1]], digest):
        path.unlink()
        print(f"removed {path}: not what {note.name} says", file=sys.stderr)
    digest.save()


def main() -> int:
    """Remove damaged results unless a run is active and may be writing them; for ``make fetch``."""
    lock = RunLock()
    if not lock.acquire():
        print(lock.refusal, file=sys.stderr)
        return 1
    remove_damaged()
    return 0


if __name__ == "__main__":
    sys.exit(main())
