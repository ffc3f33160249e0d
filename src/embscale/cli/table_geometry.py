"""Measure the geometry of embedding tables: mean direction, spread, outlier columns, norms, duplicate rows.

A table is FILE, or STEP=FILE to record the training step in the rows.  With --by-frequency, rows are also measured by
how often their tokens occur: their norm, and their cosine with the same token's row before training (step 0) and in the
table of the last step.

    embscale table-geometry 0=step0.safetensors 400=step400.safetensors --suite own --model mine --tied no -o rows.csv
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli._keys import OfSuite, OfTied
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.progress import progress

if TYPE_CHECKING:
    import numpy as np


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="from embscale extract; see above")
    parser.add_argument(
        "--tokens",
        type=Path,
        metavar="TOKENS.safetensors",
        help="from embscale tokenize: also measure strata of rows by the frequency of their tokens in these texts",
    )
    parser.add_argument(
        "--by-frequency", type=Path, metavar="CSV", help="norm and movement of rows by frequency; needs --tokens"
    )
    flags.add(parser, OfSuite, OfTied)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ROWS.csv")


def run(args: argparse.Namespace) -> None:
    """Measure every table."""
    import numpy as np
    import pandas as pd

    from embscale.scoring import row_frequency, table_geometry
    from embscale.tables import table_files

    if args.by_frequency and not args.tokens:
        raise EmbscaleError("--by-frequency: how often tokens occur is not known; give texts with --tokens")
    keys = {"suite": args.suite, "model": args.model, "tied": args.tied}
    steps = [_step(text) for text in args.tables]
    inputs = [path for _, path in steps] + ([args.tokens] if args.tokens else [])
    outputs = [args.output, *([args.by_frequency] if args.by_frequency else [])]
    report = progress("table-geometry", len(steps))
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as written:
        frames, by_frequency = [], []
        tables = {step: table_files.Stored.open(path) for step, path in steps}
        numbered = [step for step in tables if step]
        last = tables[max(numbered, key=int)] if len(numbered) > 1 else None
        for done, (step, path) in enumerate(steps, 1):
            table = tables[step]
            counts = _counts(args.tokens, path, len(table)) if args.tokens else None
            masks = table_geometry.strata(counts) if counts is not None else {"all": np.ones(len(table), bool)}
            frames.append(table_geometry.measure(table, masks).assign(**keys, step=step))
            if args.by_frequency and counts is not None:
                measured = row_frequency.measure(table, counts, first=tables.get("0"), last=last)
                by_frequency.append(measured.assign(**keys, step=step))
            report(done, path.name)
        columns = ["suite", "model", "step", "tied"]
        rows = pd.concat(frames, ignore_index=True)
        rows[[*columns, *table_geometry.COLUMNS]].to_csv(written[0], index=False)
        if by_frequency:
            rows = pd.concat(by_frequency, ignore_index=True)
            rows[[*columns, *row_frequency.COLUMNS]].to_csv(written[1], index=False)


def _counts(path: Path, of: Path, rows: int) -> np.ndarray:
    """Occurrences of the token of each row of a table, ``[rows]``."""
    import numpy as np

    from embscale.texts import tokens

    groups, _ = tokens.load(path)
    ids = np.concatenate([group.ids for group in groups.values()])
    if len(ids) and ids.max() >= rows:
        raise EmbscaleError(f"{path}: token {ids.max()} is beyond the {rows} rows of {of}; this is another tokenizer's")
    return np.bincount(ids, minlength=rows)


def _step(text: str) -> tuple[str, Path]:
    """The step, empty where it is not known, and the file."""
    match = re.fullmatch(r"(\d+|main)=(.+)", text)
    if not match:
        return "", Path(text)
    return ("" if match[1] == "main" else match[1]), Path(match[2])
