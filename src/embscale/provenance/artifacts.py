"""Write artifacts atomically, with a note per job that records where the bytes came from.

A job gets temporary paths beside its outputs.  Only when it has ended without an error are they
renamed, the note last, so that a file under its final name is always complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

import embscale
from embscale.errors import EmbscaleError
from embscale.provenance.loaded import source_digests
from embscale.provenance.notes import NOTE_SUFFIX, note_path, outputs_of, read_note
from embscale.threads import limit

READABLE = 0o644

# Before the names of folders of temporary outputs.
UNFINISHED = ".unfinished-"

# Libraries whose version can change a number.  Those that a job imported are recorded in its note.
LIBRARIES = {
    "gensim": "gensim",
    "matplotlib": "matplotlib",
    "mteb": "mteb",
    "numba": "numba",
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "transformers": "transformers",
    "umap": "umap-learn",
}


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def signature(path: Path) -> tuple[int, ...]:
    """Inode, size and times of a file.  No program can set the last of these, ctime."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def library_versions() -> dict[str, str]:
    """Versions of Python and of the imported libraries that can change a number."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python} | {
        distribution: importlib.metadata.version(distribution)
        for module, distribution in LIBRARIES.items()
        if module in sys.modules
    }


@dataclass(frozen=True)
class Inputs:
    """Files as they were before a job read them.

    Attributes:
        digests: SHA-256 of each.
        signatures: `signature` of each, taken before its digest.
    """

    digests: dict[Path, str]
    signatures: dict[Path, tuple[int, ...]]

    def files(self) -> list[Path]:
        """The files themselves."""
        return list(self.digests)

    def check_unchanged(self) -> None:
        """Stop if the content of a file has changed; touching a file, or copying it over itself, does not count.

        Raises:
            EmbscaleError: a file changed or is gone.
        """
        for path, digest in self.digests.items():
            if not path.is_file() or (signature(path) != self.signatures[path] and file_sha256(path) != digest):
                raise EmbscaleError(f"{path}: changed while the command ran, so nothing was written; run it again")


def read_inputs(paths: Iterable[Path]) -> Inputs:
    """Compute the digests of a job's inputs; call this before reading any of them.

    Raises:
        EmbscaleError: a file is missing, or differs from the digest in the note of the job that made it.
    """
    files = list(paths)
    signatures = {path: signature(path) for path in files if path.is_file()}
    return Inputs({path: _checked_sha256(path) for path in files}, signatures)


@contextlib.contextmanager
def write_with_provenance(
    *,
    command: str,
    params: Mapping[str, Any],
    inputs: Sequence[Path] | Inputs,
    outputs: Sequence[Path],
    paths: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Iterator[list[Path]]:
    """Hand out temporary paths for `outputs`; on success rename them and write the job's note.

    Args:
        command: the embscale command that runs.
        params: all arguments of the command by flag, except paths.
        inputs: files read; their digests are recorded in the note.  For files that were read before: the result of
            `read_inputs`.
        outputs: files written, the main one first; its name plus ``.note.json`` is the note.
        paths: the command's path arguments, by flag.
        facts: further entries of the note; may be filled until the job ends.

    Yields:
        One path per output, with the same suffix, in a fresh folder beside the first output.

    Raises:
        EmbscaleError: an input is missing, the outputs cannot be written or would replace what this command did not
            make, or an input or a source file changed while the job ran.
    """
    _check_outputs(command, inputs.files() if isinstance(inputs, Inputs) else inputs, outputs)
    read = inputs if isinstance(inputs, Inputs) else read_inputs(inputs)
    with _scratch_folder(outputs[0].parent) as scratch:
        temporary = [scratch / f"{i}-{path.name}" for i, path in enumerate(outputs)]
        try:
            yield temporary
        except SafetensorError as error:
            # Readers turn theirs into an EmbscaleError, so this one comes from writing: a full disk, say.
            raise EmbscaleError(f"{outputs[0].parent}: cannot write ({error})") from error
        for made, path in zip(temporary, outputs, strict=True):
            if not made.is_file():
                raise EmbscaleError(f"{path}: the job ended without writing it")
        read.check_unchanged()
        note = {
            "command": command,
            "params": dict(params) | ({"threads": limit()} if limit() else {}),
            "paths": dict(paths or {}),
            "inputs": {_noted(path): digest for path, digest in read.digests.items()},
            "outputs": {p.as_posix(): file_sha256(t) for t, p in zip(temporary, outputs, strict=True)},
            "facts": dict(facts or {}),
            "embscale": embscale.__version__,
            "sources": source_digests(),
            "libraries": library_versions(),
        }
        temporary_note = scratch / "note"
        temporary_note.write_text(json.dumps(note, indent=1, sort_keys=True) + "\n", "utf-8")
        _move(zip([*temporary, temporary_note], [*outputs, note_path(outputs[0])], strict=True))


def _check_outputs(command: str, inputs: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Stop before anything is read or computed if an output would destroy a file that is not this command's to write.

    Raises:
        EmbscaleError: two outputs, or an output and an input, are one file, whatever their names; an output is a
            folder or a device; or it is a file that no note beside it ascribes to this command.
    """
    read = {path.resolve(): path for path in inputs}
    written: dict[Path, Path] = {}
    for path in [*outputs, note_path(outputs[0])]:
        place = path.resolve()
        if place in read:
            raise EmbscaleError(f"{path}: would be written over the input {read[place]}; name another output")
        if place in written:
            raise EmbscaleError(f"{path}: would be written over the output {written[place]}; name another output")
        written[place] = path
        if path.exists() and not path.is_file():
            raise EmbscaleError(f"{path}: a folder or a device; expected the name of a file to write")
    for path in outputs:
        makers = {maker for maker, _, _ in _ascribed(path, note_path(outputs[0]))}
        if path.is_file() and command not in makers:
            raise EmbscaleError(
                f"{path}: exists, and no note beside it says that embscale {command} made it; name another output, or "
                "remove it first"
            )


def _ascribed(path: Path, *others: Path) -> list[tuple[str, str, Path]]:
    """Command, SHA-256 and place of each note that names a file among its outputs, the oldest note first.

    A job's note lies beside its main output, its other outputs there or one folder below; `others` are notes
    that may lie elsewhere.
    """
    place = path.resolve()
    # A link has another folder than the file that the note is about.
    folders = {above for folder in (path.absolute().parent, place.parent) for above in (folder, folder.parent)}
    candidates = {note for folder in folders for note in folder.glob(f"*{NOTE_SUFFIX}")}
    candidates |= {other for other in others if other.is_file()}
    makers = []
    for written, note in sorted((candidate.stat().st_mtime_ns, candidate) for candidate in candidates):
        command, digests = _command_and_digests(note, written)
        if place in digests:
            makers.append((command, digests[place], note))
    return makers


@functools.cache  # a job with many inputs in one folder reads each note there once
def _command_and_digests(path: Path, written: int) -> tuple[str, dict[Path, str]]:
    """The command of a note, and the SHA-256 of each output by where it lies."""
    note = read_note(path)
    return note["command"], {output.resolve(): digest for output, digest in outputs_of(path, note).items()}


def _move(pairs: Iterator[tuple[Path, Path]]) -> None:
    """Rename files to their final names, all or none: a file left without its note would be taken for checked."""
    moved: list[Path] = []
    try:
        for made, path in pairs:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.chmod(READABLE)  # some libraries write files that only their owner can read
            made.replace(path)
            moved.append(path)
    except BaseException:
        for path in moved:
            path.unlink(missing_ok=True)
        raise


def _noted(path: Path) -> str:
    """An input's name in a note: that of a file of this package does not tell where the package lies."""
    root = Path(embscale.__file__).parent
    return (path.relative_to(root.parent) if path.is_relative_to(root) else path).as_posix()


def _checked_sha256(path: Path) -> str:
    """Digest of an input, which must be the one that the job that made it has noted.

    Neither Snakemake nor a file's own checksums notice every damage or edit by hand; this does.
    """
    if not path.is_file():
        raise EmbscaleError(f"{path}: no such file; make it first (snakemake --cores all {path})")
    digest = file_sha256(path)
    ascribed = _ascribed(path)
    if ascribed:
        # If several notes name the file, the older ones are from earlier versions of the workflow whose other outputs
        # still exist: the newest is valid.
        _, noted, note = ascribed[-1]
        if noted != digest:
            raise EmbscaleError(
                f"{path}: its SHA-256 is {digest[:12]}, but {note.name} says {noted[:12]}: it was changed or damaged "
                "after it was made. Remove it and run again"
            )
    return digest


@contextlib.contextmanager
def _scratch_folder(parent: Path) -> Iterator[Path]:
    """A temporary folder on the same file system as the outputs, so that a rename is atomic."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=parent, prefix=UNFINISHED)
    except OSError as error:
        raise EmbscaleError(f"{parent}: cannot write here ({error.strerror})") from error
    with scratch as name, _held(Path(name)):
        # mkdtemp makes folders that only their owner can enter; files in them are renamed out of it.
        yield Path(name)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder as long as this process, or one that it started, lives: however it ends, the system frees it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks; then nobody takes it for left behind
            fcntl.flock(opened, fcntl.LOCK_SH)
        yield
    finally:
        os.close(opened)


def remove_unfinished(root: Path) -> list[Path]:
    """Remove the folders of temporary outputs that jobs left because they were killed; not those of living jobs.

    Args:
        root: they lie anywhere below it.

    Returns:
        What was removed.
    """
    removed = []
    for folder in sorted(root.rglob(f"{UNFINISHED}*/")):
        with contextlib.suppress(OSError):  # gone by now, held by a job, or on a file system that cannot tell
            opened = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
                removed.append(folder)
            finally:
                os.close(opened)
    return removed
