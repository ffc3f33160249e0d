"""Measure the geometry of embedding tables: mean direction, spread, outlier columns, norms, duplicate rows.

A table is FILE, or STEP=FILE to record the training step in the rows.

    embscale table-geometry 0=step0.safetensors 400=step400.safetensors --suite own --model mine --tied no -o rows.csv
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from embscale.cli._keys import OfSuite, OfTied
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.progress import progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="from embscale extract; see above")
    parser.add_argument(
        "--tokens",
        type=Path,
        metavar="TOKENS.safetensors",
        help="from embscale tokenize: also measure strata of rows by the frequency of their tokens in these texts",
    )
    flags.add(parser, OfSuite, OfTied)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ROWS.csv")


def run(args: argparse.Namespace) -> None:
    """Measure every table."""
    import numpy as np
    import pandas as pd

    from embscale.scoring import table_geometry
    from embscale.tables import table_files
    from embscale.texts import tokens

    keys = {"suite": args.suite, "model": args.model, "tied": args.tied}
    steps = [_step(text) for text in args.tables]
    inputs = [path for _, path in steps] + ([args.tokens] if args.tokens else [])
    report = progress("table-geometry", len(steps))
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        frames = []
        for done, (step, path) in enumerate(steps, 1):
            table = table_files.Stored.open(path)
            counts = None
            if args.tokens:
                groups, _ = tokens.load(args.tokens)
                ids = np.concatenate([group.ids for group in groups.values()])
                if len(ids) and ids.max() >= len(table):
                    raise EmbscaleError(
                        f"{args.tokens}: token {ids.max()} is beyond the {len(table)} rows of {path}; "
                        "this is another tokenizer's"
                    )
                counts = np.bincount(ids, minlength=len(table))
            masks = table_geometry.strata(counts) if counts is not None else {"all": np.ones(len(table), bool)}
            frames.append(table_geometry.measure(table, masks).assign(**keys, step=step))
            report(done, path.name)
        rows = pd.concat(frames, ignore_index=True)
        rows[["suite", "model", "step", "tied", *table_geometry.COLUMNS]].to_csv(output, index=False)


def _step(text: str) -> tuple[str, Path]:
    """The step, empty where it is not known, and the file."""
    match = re.fullmatch(r"(\d+|main)=(.+)", text)
    if not match:
        return "", Path(text)
    return ("" if match[1] == "main" else match[1]), Path(match[2])
