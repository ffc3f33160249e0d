"""The source files of this package that the running process has loaded, each with the SHA-256 of what was loaded.

A job's note names the code that made its artifact.  Read when the job ends, a file may hold other code than the one
that ran: it was edited, or another commit was checked out, in the meantime.  So each module is compiled from the very
bytes that are hashed.  Python's cache of compiled modules is passed over: it goes by a file's size and time in whole
seconds, and compiling all that a command imports takes a few hundredths of a second.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from embscale.errors import EmbscaleError

PACKAGE = Path(__file__).parents[1]

_digests: dict[Path, str] = {}


class _Loader(SourceFileLoader):
    """Compile a module from its file, and remember the digest of what was read."""

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, from one reading of its file."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        _digests[Path(path)] = hashlib.sha256(source).hexdigest()
        return self.source_to_code(source, path)


class _Finder:
    """Finds this package's modules as Python does, to be loaded by `_Loader`."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module lies; None for what is not of this package."""
        if not fullname.startswith(f"{PACKAGE.name}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def watch() -> None:
    """Remember every module of this package that is loaded from now on; called once, by the package itself."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] == PACKAGE.name:
            _digests[Path(file)] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    sys.meta_path.insert(0, _Finder)


def source_digests() -> dict[str, str]:
    """SHA-256 of each loaded source file, by its path from the folder that holds the package.

    Raises:
        EmbscaleError: a file no longer holds what was loaded from it.
    """
    for path, loaded in _digests.items():
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != loaded:
            raise EmbscaleError(f"{path}: changed while the command ran, so nothing was written; run it again")
    return {path.relative_to(PACKAGE.parent).as_posix(): _digests[path] for path in sorted(_digests)}
