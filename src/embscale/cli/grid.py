"""Fit layer classifiers on shorter and longer texts, fewer and more of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli import _layers
from embscale.cli._keys import OfTexts
from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.layers import Epochs, GridConditions, OneSplit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    flags.add(parser, GridConditions, OneSplit, Epochs, *_layers.GROUPS, OfTexts)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="GRID.csv[.gz]")


def run(args: argparse.Namespace) -> None:
    """Fit every cell in both designs, write rows."""
    from embscale.layers import designs, examples, hidden_states, probes
    from embscale.progress import progress
    from embscale.rows import tidy

    settings = _layers.settings(args, epochs=args.epochs)
    facts = {"device": settings.device}
    with write_with_provenance(args, inputs=[args.states], outputs=[args.output], facts=facts) as (path,):
        states = examples.load_if_fits(hidden_states.load(args.states), memory_gb=args.memory_gb)
        used = examples.mask_from(states, first_position=args.first_position)
        keys = _layers.keys(args, states, used)
        frames = []
        report = progress("cells", len(args.classifiers) * len(args.windows) * len(args.counts) * 2)
        for classifier in args.classifiers:
            for cell in designs.grid(
                states,
                used,
                settings,
                classifier=classifier,
                split=args.split,
                windows=args.windows,
                counts=args.counts,
                seeds=args.seeds,
                name=args.model,
            ):
                described = keys | cell.condition.described() | {"trained_on": args.texts, "design": cell.design}
                described |= {"tokens": cell.tokens, "texts_count": cell.texts_count}
                rows = probes.classifier_rows(
                    cell.fits, args.seeds, states.classes, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed
                )
                frames.append(rows.assign(**described))
                report(len(frames), f"{classifier}: {cell.tokens} tokens of {cell.texts_count} texts, {cell.design}")
        tidy.write(probes.concat_rows(frames, probes.COLUMNS), path)
