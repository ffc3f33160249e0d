"""Reduce hidden states to two dimensions by PCA, t-SNE and UMAP, and measure the quality of each picture."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli.geometry import add_keys, described
from embscale.parameters import flags
from embscale.parameters.layers import Reductions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    flags.add(parser, Reductions)
    add_keys(parser)
    parser.add_argument("--quality", type=Path, required=True, metavar="QUALITY.csv", help="measures of the pictures")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="POINTS.csv[.gz]", help="the pictures")


def run(args: argparse.Namespace) -> None:
    """Compute and write both."""
    from embscale.layers import hidden_states, reductions
    from embscale.rows import tidy

    outputs = [args.output, args.quality]
    with write_with_provenance(args, inputs=[args.states], outputs=outputs) as (points, quality):
        states = hidden_states.load(args.states)
        settings = reductions.Settings(
            **{field.name: getattr(args, field.name) for field in dataclasses.fields(reductions.Settings)}
        )
        placed, measures = reductions.reduce(states, reductions=args.kinds, settings=settings)
        tidy.write(described(placed, states, args), points, float_format="%.5g")
        tidy.write(described(measures, states, args), quality, float_format="%.6g")
