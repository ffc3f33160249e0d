"""Provenance notes: the file beside an artifact that says which command, parameters and bytes it came from.

The Snakefile uses this wherever Snakemake is installed, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError

NOTE_SUFFIX = ".note.json"

# Parts of a note that map the names of files to their SHA-256.
DIGESTS = ("inputs", "outputs", "sources")


def note_path(artifact: Path) -> Path:
    """Where the note of a job lies: beside the first of its outputs."""
    return artifact.with_name(artifact.name + NOTE_SUFFIX)


def read_note(path: Path) -> dict[str, Any]:
    """The note of a job.

    Raises:
        EmbscaleError: it is missing or broken.
    """
    try:
        note = json.loads(path.read_text("utf-8"))
        _check(note, path)
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such note; remove the artifact beside it and make it again") from None
    except (ValueError, RecursionError) as error:
        raise EmbscaleError(f"{path}: not a note ({error}); remove it and its artifact and run again") from error
    return dict(note)


def _check(note: Any, path: Path) -> None:  # noqa: ANN401 (whatever JSON may hold)
    """Stop at what is no note, so that its readers need not ask."""
    if not isinstance(note, dict) or not isinstance(note.get("command"), str):
        raise ValueError("expected an object that names a command")
    for part in DIGESTS:
        digests = note.get(part, {})
        if not isinstance(digests, dict) or not all(isinstance(digest, str) for digest in digests.values()):
            raise ValueError(f"{part} does not map names to digests")
        if any("\0" in name or not Path(name).name for name in digests):
            raise ValueError(f"{part} names what is no file")
    if not any(note_path(Path(name)).name == path.name for name in note.get("outputs", {})):
        raise ValueError("outputs lacks the file beside it")


def outputs_of(path: Path, note: Mapping[str, Any]) -> dict[Path, str]:
    """Where the outputs that a note names lie, with their SHA-256.

    Names in a note are relative to the folder that the command ran in, which nobody remembers.  The note lies beside
    the first output, though, so the others are found from there, whatever the present folder and wherever the whole
    was copied to.

    Args:
        path: of the note; the answers start with the same folder.
        note: from `read_note`.
    """
    firsts = [Path(name) for name in note["outputs"] if note_path(Path(name)).name == path.name]
    # Of outputs of one name in several folders, the one whose folder is the note's.
    first = max(firsts, key=lambda name: path.parent.as_posix().endswith(name.parent.as_posix()))
    places = {}
    for name, digest in note["outputs"].items():
        place = Path(name)
        if place.is_absolute() == first.is_absolute():
            place = Path(os.path.normpath(path.parent / os.path.relpath(place, first.parent)))
        places[place] = digest
    return places
