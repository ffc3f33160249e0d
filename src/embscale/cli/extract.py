"""Extract the input embedding table of a checkpoint folder; nothing else of it is read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.artifacts import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="FOLDER", help="holds config.json and model.safetensors")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE.safetensors")


def run(args: argparse.Namespace) -> None:
    """Read one tensor, write it alone."""
    from embscale import checkpoints, tables

    inputs = [args.checkpoint / "config.json", args.checkpoint / "model.safetensors"]
    with recorded(command="extract", params={}, inputs=inputs, outputs=[args.output]) as (output,):
        tensor, table = checkpoints.input_table(args.checkpoint)
        tables.save(output, table, {"tensor": tensor})
    print(f"{tensor}: {table.shape[0]} rows x {table.shape[1]} columns", file=sys.stderr)
