"""Count the parameters of models, and of their tables, from the files themselves."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError

COLUMNS = ("suite", "model", "rows", "dims", "parameters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        nargs="+",
        required=True,
        metavar="WORD",
        help="suite, model, table.safetensors, and the model's own file unless there is only a table; repeatable",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV")


def run(args: argparse.Namespace) -> None:
    """Read headers, write a row for each model."""
    import pandas as pd

    for words in args.models:
        if len(words) not in (3, 4):
            raise EmbscaleError(f"--model {' '.join(words)}: expected SUITE MODEL TABLE [CHECKPOINT]")
    inputs = [Path(file) for words in args.models for file in words[2:]]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as [output]:
        rows = []
        for suite, model, table, *checkpoint in args.models:
            [shape] = shapes(Path(table))
            whole = shapes(Path(checkpoint[0])) if checkpoint else [shape]
            rows.append([suite, model, *shape, sum(map(math.prod, whole))])
        pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(output, index=False)


def shapes(path: Path) -> list[list[int]]:
    """Shapes of the tensors in a safetensors file; tied tensors are stored, and therefore counted, once."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 (not a mapping)
    except (OSError, SafetensorError) as error:
        raise EmbscaleError(f"{path}: not a safetensors file ({error}); make it again") from error
