"""The note of a command, with every flag, so that the command can be rerun from its note alone."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from embscale.provenance import artifacts
from embscale.provenance.artifacts import Inputs

ASIDE = ("command", "threads")  # of the namespace; the note records them elsewhere


def write_with_provenance(
    args: argparse.Namespace,
    *,
    inputs: Sequence[Path] | Inputs,
    outputs: Sequence[Path],
    facts: Mapping[str, Any] | None = None,
) -> AbstractContextManager[list[Path]]:
    """Call `embscale.provenance.artifacts.write_with_provenance` with all current flags of the command.

    Args:
        args: the command's arguments, from `embscale.cli.parse`.
        inputs: files read.
        outputs: files written, the main one first.
        facts: further entries of the note, may be filled until the job ends.
    """
    params: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for name, value in vars(args).items():
        if name not in ASIDE:
            (paths if _is_path(value) else params)[name] = _plain(value)
    return artifacts.write_with_provenance(
        command=args.command, params=params, paths=paths, inputs=inputs, outputs=outputs, facts=facts
    )


def _is_path(value: object) -> bool:
    return isinstance(value, Path) or (isinstance(value, list) and any(isinstance(item, Path) for item in value))


def _plain(value: Any) -> Any:  # noqa: ANN401 (of any flag)
    """A value in a form that JSON supports."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.as_posix() if isinstance(value, Path) else value
