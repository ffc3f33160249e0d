"""The record that the repository carries: ``remote/STUDY``, an archive for each stage of a study's pipeline.

An archive holds the files of the stage's outputs as DVC keeps them, under their MD5.  Many of them are much alike, such
as figures and pages with these figures, or the notes of a command; compressed together they take a fifth of the space.
A stage whose outputs did not change keeps its archive byte for byte, so that it adds nothing to the history of git.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

REMOTE = "carried"  # name of DVC's default remote, which stands for what the repository carries
FOLDER, SUFFIX = Path("remote"), ".tar.xz"
# Wide enough for the largest stage, so that no file is out of sight when one like it follows.
COMPRESSION = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26}]
LISTING = ".dir"
READ_ONLY = 0o444  # as DVC leaves what it need not look at again
MD5 = re.compile(r"[0-9a-f]{32}")


class CarriedError(ValueError):
    """A record cannot be trusted or lacks a file; the message says which and what to do."""


def checked_listing(content: bytes, name: str, where: str) -> list[tuple[str, str]]:
    """The files of a recorded folder: name below it, and MD5.

    Args:
        content: the listing's bytes.
        name: its MD5 and ``.dir``.
        where: it was read, for the message.

    Raises:
        CarriedError: it is not what its name says, no list of files, or names a place that is not below its folder.
    """
    if f"{_md5(content)}{LISTING}" != name:
        raise CarriedError(
            f"{where}: not the listing that dvc.lock records: damaged or tampered with; nothing was fetched"
        )
    try:
        entries = [(entry["relpath"], entry["md5"]) for entry in json.loads(content)]
        places = [PurePosixPath(place) for place, _ in entries]
        wrong = [md5 for _, md5 in entries if not MD5.fullmatch(md5)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CarriedError(f"{where}: no listing of files ({error}); nothing was fetched") from error
    wrong += [str(place) for place in places if place.is_absolute() or not place.parts or ".." in place.parts]
    wrong += [str(place) for place in places if "\\" in str(place) or "\0" in str(place)]
    if wrong:
        raise CarriedError(f"{where}: names {wrong[0]!r}, which is no file below its folder; nothing was fetched")
    return entries


def recorded(stages: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Outputs of DVC's stages that are kept outside git: stage to path to MD5, of a folder with ``.dir``.

    Raises:
        CarriedError: an output was never recorded.
    """
    found: dict[str, dict[str, str]] = {}
    for stage in stages:
        for out in stage.outs:
            if out.use_cache:
                if not out.hash_info:
                    raise CarriedError(f"{stage.addressing}: {out} was not recorded; first run make record to its end")
                found.setdefault(stage.name, {})[str(out)] = str(out.hash_info.value)
    return found


def files(outs: Mapping[str, str], cache: Any) -> list[tuple[str, str]]:  # noqa: ANN401 (of DVC)
    """The files of a stage's outputs, folders among them: path and MD5.

    Args:
        outs: of a stage, from `recorded`.
        cache: DVC's, which has the listings.
    """
    found = []
    for path, md5 in outs.items():
        if md5.endswith(LISTING):
            entries = checked_listing(_path(cache, md5).read_bytes(), md5, path)
            found += [(f"{path}/{place}", child) for place, child in entries]
        else:
            found.append((path, md5))
    return found


def write(study: str, stages: Mapping[str, Mapping[str, str]], cache: Any) -> None:  # noqa: ANN401 (of DVC)
    """Write the archives of a study anew.

    Args:
        study: its name.
        stages: from `recorded`.
        cache: DVC's, which has all of it.
    """
    folder = FOLDER / study
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seen: set[str] = set()
    for stage, outs in stages.items():
        listings = [md5 for md5 in outs.values() if md5.endswith(LISTING)]
        # Files of a kind side by side.  Listings come first, as they say which others there are.
        ordered = sorted(files(outs, cache), key=lambda file: (Path(file[0]).suffix, file[0]))
        names = [md5 for md5 in dict.fromkeys([*listings, *(md5 for _, md5 in ordered)]) if md5 not in seen]
        seen |= set(names)
        if names:
            content = _tar((name, _path(cache, name).read_bytes()) for name in names)
            (folder / f"{stage}{SUFFIX}").write_bytes(lzma.compress(content, filters=COMPRESSION))


def restore(study: str, stages: Mapping[str, Mapping[str, str]], cache: Any) -> int:  # noqa: ANN401 (of DVC)
    """Fill DVC's cache with the files of a study, once all of them are known to be the recorded ones.

    Args:
        study: its name.
        stages: from `recorded`.
        cache: DVC's.

    Returns:
        The number of files.

    Raises:
        CarriedError: an archive is damaged, lacks a file, or holds one that is not the recorded one.
    """
    folder = FOLDER / study
    outs = [md5 for paths in stages.values() for md5 in paths.values()]
    contents: dict[str, bytes] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        contents |= _read_archive(path)
    needed = dict.fromkeys(outs)
    for name in outs:
        if name.endswith(LISTING) and name in contents:
            needed |= dict.fromkeys(md5 for _, md5 in checked_listing(contents[name], name, str(folder)))
    missing = [name for name in needed if name not in contents]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise CarriedError(
            f"{folder}: lacks {missing[0]}{more}, which dvc.lock records; the record was not pushed, or not whole"
        )
    for name in needed:
        path = _path(cache, name)
        # What an earlier pull left there may be damaged.
        if not path.is_file() or path.read_bytes() != contents[name]:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}")
            unfinished.write_bytes(contents[name])
            unfinished.chmod(READ_ONLY)
            unfinished.replace(path)
    return len(needed)


def size(study: str = "") -> int:
    """Bytes of what is carried of a study, or of all."""
    return sum(path.stat().st_size for path in (FOLDER / study).rglob("*") if path.is_file())


def _read_archive(path: Path) -> dict[str, bytes]:
    """The files of an archive by name, each the one that its name says."""
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(lzma.decompress(path.read_bytes()))) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is None:
                    raise CarriedError(f"{path}: holds {member.name!r}, which is no file; nothing was fetched")
                found[member.name] = file.read()
                if _md5(found[member.name]) != member.name.removesuffix(LISTING):
                    raise CarriedError(
                        f"{path}: {member.name} is not the file that dvc.lock records: damaged or tampered with; "
                        "nothing was fetched"
                    )
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as error:
        raise CarriedError(f"{path}: damaged or tampered with ({error}); nothing was fetched") from error
    return found


def _tar(files: Iterable[tuple[str, bytes]]) -> bytes:
    """An uncompressed archive, the same for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)  # no times, no owners
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _path(cache: Any, name: str) -> Path:  # noqa: ANN401 (of DVC)
    return Path(cache.oid_to_path(name))


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
