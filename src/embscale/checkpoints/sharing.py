"""The licence gate: which files may be pushed to a remote that others read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from embscale.checkpoints.suites import Checkpoint

# Fetched files are here.  Anyone can fetch them again at their pinned commit, so nobody needs our copy.
FETCHED = PurePosixPath("results/hub")
TABLES = FETCHED / "tables"

# Files with weights, or with hidden states, whose first layer consists of rows of the table.
TENSORS = (".safetensors", ".bin", ".pt", ".npy", ".npz")


def withheld(paths: Iterable[str], registry: Mapping[str, Sequence[Checkpoint]]) -> dict[str, str]:
    """The paths that must not be pushed, each with the reason.

    Args:
        paths: files, relative to the top of the repository.
        registry: as `embscale.checkpoints.suites.load` returns it; a row says whether its licence allows sharing its
            table.
    """
    licences = {row.model: row for rows in registry.values() for row in rows}
    reasons: dict[str, str] = {}
    for path in map(PurePosixPath, paths):
        # Names of models contain dots, so the longest matching name counts.
        names = [name for name in licences if any(f"{part}.".startswith(f"{name}.") for part in path.parts)]
        row = licences[max(names, key=len)] if names else None
        if path.is_relative_to(FETCHED) and not path.is_relative_to(TABLES):
            reasons[str(path)] = "it was fetched; the commit that it is pinned to is its address"
        elif path.suffix in TENSORS and row is not None and not row.redistributable:
            reasons[str(path)] = f"the licence of {row.model} ({row.licence}) does not allow passing it on"
        elif path.suffix in TENSORS and path.is_relative_to(TABLES) and row is None:
            reasons[str(path)] = "the registry has no licence for it"
    return reasons
