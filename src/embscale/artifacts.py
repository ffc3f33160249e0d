"""Write artifacts whole or not at all, each job with a note that says where its bytes came from.

A job gets temporary paths beside its outputs.  Only when it has ended without an error are they
renamed, the note last, so that a file under its final name is always complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

import embscale
from embscale.errors import EmbscaleError

NOTE_SUFFIX = ".note.json"

READABLE = 0o644

# Libraries whose version can change a number.  Those that a job has imported go into its note.
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


def note_path(artifact: Path) -> Path:
    """Where the note of a job lies: beside the first of its outputs."""
    return artifact.with_name(artifact.name + NOTE_SUFFIX)


def source_digests() -> dict[str, str]:
    """SHA-256 of every source file of this package that the running process has imported."""
    root = Path(embscale.__file__).parent
    files = {
        Path(file)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "embscale" and (file := getattr(module, "__file__", None))
    }
    return {f.relative_to(root.parent).as_posix(): file_sha256(f) for f in sorted(files)}


def library_versions() -> dict[str, str]:
    """Versions of Python and of the imported libraries that can change a number."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python} | {
        distribution: importlib.metadata.version(distribution)
        for module, distribution in LIBRARIES.items()
        if module in sys.modules
    }


@contextlib.contextmanager
def recorded(
    *,
    command: str,
    params: Mapping[str, Any],
    inputs: list[Path],
    outputs: list[Path],
    facts: Mapping[str, Any] | None = None,
) -> Iterator[list[Path]]:
    """Hand out temporary paths for `outputs`; on success rename them and write the job's note.

    Args:
        command: the embscale command that runs.
        params: every value, paths aside, that the result depends on.
        inputs: files read; their digests go into the note.
        outputs: files made, the main one first; its name plus ``.note.json`` is the note.
        facts: what the job learns on the way and its note shall tell; filled until the job ends.

    Yields:
        One path per output, with the same suffix, in a fresh folder beside the first output.

    Raises:
        EmbscaleError: an input is missing, or the outputs cannot be written.
    """
    digests = {_noted(path): _checked_sha256(path) for path in inputs}
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
        note = {
            "command": command,
            "params": dict(params),
            "inputs": digests,
            "outputs": {p.as_posix(): file_sha256(t) for t, p in zip(temporary, outputs, strict=True)},
            "facts": dict(facts or {}),
            "embscale": embscale.__version__,
            "sources": source_digests(),
            "libraries": library_versions(),
        }
        temporary_note = scratch / "note"
        temporary_note.write_text(json.dumps(note, indent=1, sort_keys=True) + "\n", "utf-8")
        for made, path in zip([*temporary, temporary_note], [*outputs, note_path(outputs[0])], strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            made.chmod(READABLE)  # some libraries write files that only their owner can read
            made.replace(path)


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
    # A job's note lies beside its main output, its other outputs there or one folder below.  Where two name the file,
    # one is of an earlier version of the workflow, whose other outputs are still there: the newer holds.
    notes = [*path.parent.glob(f"*{NOTE_SUFFIX}"), *path.parent.parent.glob(f"*{NOTE_SUFFIX}")]
    naming = [note for note in notes if path.as_posix() in read_note(note)["outputs"]]
    if naming:
        note = max(naming, key=lambda note: note.stat().st_mtime_ns)
        noted = read_note(note)["outputs"][path.as_posix()]
        if noted != digest:
            raise EmbscaleError(
                f"{path}: its SHA-256 is {digest[:12]}, but {note.name} says {noted[:12]}: it was changed or damaged "
                "after it was made. Remove it and run again"
            )
    return digest


def read_note(path: Path) -> dict[str, Any]:
    """The note of a job.

    Raises:
        EmbscaleError: it is missing or broken.
    """
    try:
        note: dict[str, Any] = json.loads(path.read_text("utf-8"))
        dict(note["outputs"])
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such note; remove the artifact beside it and make it again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise EmbscaleError(f"{path}: not a note ({error!r}); remove it and its artifact and run again") from error
    return note


@contextlib.contextmanager
def _scratch_folder(parent: Path) -> Iterator[Path]:
    """A temporary folder on the same file system as the outputs, so that a rename is atomic."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=parent, prefix=".unfinished-")
    except OSError as error:
        raise EmbscaleError(f"{parent}: cannot write here ({error.strerror})") from error
    with scratch as name:
        # mkdtemp makes folders that only their owner can enter; files in them are renamed out of it.
        yield Path(name)
