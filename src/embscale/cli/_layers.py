"""Flags and steps that the commands on layer classifiers share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from embscale.cli._keys import OfModel, known_step
from embscale.parameters.layers import Fits

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from embscale.layers.classifiers import Settings
    from embscale.layers.hidden_states import HiddenStates

GROUPS = (Fits, OfModel)


def settings(args: argparse.Namespace, *, epochs: int = 0, tree_depth: int = 0) -> Settings:
    """Settings shared by all fits; a command without `sgd` or trees needs neither epochs nor depth."""
    from embscale.layers.classifiers import Settings

    device = args.device
    if device != "cpu":
        from embscale.devices import choose_device

        device = choose_device(device).type
    return Settings(
        test_fraction=args.test_fraction,
        inverse_regularisation=args.inverse_regularisation,
        epochs=epochs,
        tree_depth=tree_depth,
        device=device,
        memory_gb=args.memory_gb,
        chunk=args.chunk,
    )


def keys(
    args: argparse.Namespace, states: HiddenStates, used: np.ndarray, *, texts: str | None = None
) -> dict[str, Any]:
    """The leading columns of all rows of a command; a grid sets its own tokens and number of texts."""
    from embscale.layers import probes

    return {
        "suite": args.suite,
        "model": args.model,
        "step": known_step(args.step),
        "width": states.width,
        "texts": args.texts if texts is None else texts,
        "tokens": int(states.position[used].max()) + 1,
        "texts_count": probes.texts_of(states, used),
    }


class GrowingRows:
    """Rows of a command that may run for days, kept beside its outputs until all of them are there.

    Outputs appear only when a command has ended without an error (`embscale.cli._note`).  So that an error in the last
    fit does not cost all others, the rows so far are also in ``OUTPUT.part``, a CSV file without a note; it is removed
    once the outputs are there.
    """

    def __init__(self, columns: Mapping[Path, Sequence[str]]) -> None:
        """The columns of each output, by its path."""
        self.columns = columns
        self.frames: dict[Path, list[pd.DataFrame]] = {output: [] for output in columns}
        self.parts = {output: output.with_name(f"{output.name.removesuffix('.gz')}.part") for output in columns}

    def __enter__(self) -> Self:
        """Nothing is written before there are rows."""
        return self

    def add(self, *frames: pd.DataFrame) -> None:
        """Further rows of each output."""
        for (output, rows), frame in zip(self.frames.items(), frames, strict=True):
            rows.append(frame)
            self._write(output, self.parts[output])

    def write(self, paths: Sequence[Path]) -> None:
        """Write all rows to the paths that stand for the outputs."""
        for output, path in zip(self.columns, paths, strict=True):
            self._write(output, path)

    def _write(self, output: Path, path: Path) -> None:
        from embscale.layers import probes
        from embscale.rows import tidy

        tidy.write(probes.concat_rows(self.frames[output], self.columns[output]), path)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove what is now in the outputs; after an error, tell where it is."""
        written = [part for part in self.parts.values() if part.exists()]
        if kind is None:
            for part in written:
                part.unlink()
        elif any(self.frames.values()):
            print(f"the rows so far are in {', '.join(map(str, written))}", file=sys.stderr)
