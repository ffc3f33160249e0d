"""Read checkpoint files by byte ranges, on disk or on the hub."""

from __future__ import annotations

import functools
import importlib.resources
import io
from pathlib import Path
from typing import Protocol

from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256

# Directories of checkpoint files are read in blocks of this many bytes; the last few blocks are cached.
BLOCK = 256 * 1024
BLOCKS_KEPT = 16


class Source(Protocol):
    """A folder of checkpoint files: on disk, in an installed package, or at a commit of a hub repository."""

    def files(self) -> dict[str, int]:
        """Sizes in bytes by name; folders inside it are left out."""

    def digest(self, name: str) -> str:
        """Digest of a file's content, with its kind: ``sha256:...`` or ``git-sha1:...``."""

    def fetch(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of a file, all of them and no others."""

    def label(self, name: str) -> str:
        """The name of a file in messages."""


class LocalFolder:
    """A folder on disk.

    Raises:
        EmbscaleError: there is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise EmbscaleError(f"{folder}: no such folder; expected a checkpoint in the Hugging Face layout")
        self.folder = folder

    def files(self) -> dict[str, int]:
        """Sizes in bytes by name."""
        return {path.name: path.stat().st_size for path in sorted(self.folder.iterdir()) if path.is_file()}

    def digest(self, name: str) -> str:
        """SHA-256 of a file."""
        return f"sha256:{file_sha256(self.folder / name)}"

    def fetch(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of a file."""
        with (self.folder / name).open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) != end - start:
            raise EmbscaleError(f"{self.label(name)}: ends at byte {start + len(data)}, before {end}; get it again")
        return data

    def label(self, name: str) -> str:
        """The file's path."""
        return str(self.folder / name)


def package_folder(address: str) -> LocalFolder:
    """A folder inside an installed package, ``PACKAGE`` or ``PACKAGE/FOLDER/...``.

    Raises:
        EmbscaleError: the package is not installed, or holds no such folder.
    """
    package, _, inside = address.partition("/")
    try:
        root = importlib.resources.files(package)
    except (ModuleNotFoundError, ValueError):
        raise EmbscaleError(f"package:{address}: no package {package} is installed here") from None
    return LocalFolder(Path(str(root)) / inside)


class RangeFile(io.RawIOBase):
    """A readable and seekable file object for a file of a source.

    Args:
        source: the folder of the file.
        name: its name in the folder.
        size: its size in bytes.
    """

    def __init__(self, source: Source, name: str, size: int) -> None:
        self._size = size
        self._position = 0
        self._block = functools.lru_cache(BLOCKS_KEPT)(
            lambda number: source.fetch(name, number * BLOCK, min((number + 1) * BLOCK, size))
        )

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset, which may be after the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a place before the first byte")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read up to the end of the current block."""
        if self._position >= self._size:
            return 0
        number, offset = divmod(self._position, BLOCK)
        data = self._block(number)[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_file(source: Source, name: str) -> io.BufferedReader:
    """A file of a source for reading, block by block.

    Raises:
        EmbscaleError: the source holds no file of that name.
    """
    files = source.files()
    if name not in files:
        raise EmbscaleError(f"{source.label(name)}: no such file; it holds {', '.join(sorted(files)[:8]) or 'nothing'}")
    return io.BufferedReader(RangeFile(source, name, files[name]), BLOCK)


def read_whole(source: Source, name: str) -> bytes:
    """All bytes of a small file."""
    with open_file(source, name) as file:
        return file.read()
