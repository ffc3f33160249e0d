"""Fit layer classifiers on shorter and longer texts, fewer and more of them."""

from __future__ import annotations

import argparse
import itertools
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

    settings = _layers.settings(args, epochs=args.epochs)
    facts = {"device": settings.device}
    with (
        _layers.GrowingRows({args.output: probes.COLUMNS}) as growing,
        write_with_provenance(args, inputs=[args.states], outputs=[args.output], facts=facts) as paths,
    ):
        states = examples.load_if_fits(hidden_states.load(args.states), memory_gb=args.memory_gb)
        used = examples.mask_from(states, first_position=args.first_position)
        keys = _layers.keys(args, states, used)
        # All grids are checked before the first fit.
        grids = [
            designs.grid(
                states,
                used,
                settings,
                classifier=classifier,
                split=args.split,
                windows=args.windows,
                counts=args.counts,
                seeds=args.seeds,
                name=args.model,
            )
            for classifier in args.classifiers
        ]
        report = progress("cells", len(args.classifiers) * len(args.windows) * len(args.counts) * 2)
        for done, cell in enumerate(itertools.chain(*grids), 1):
            described = keys | cell.condition.described() | {"trained_on": args.texts, "design": cell.design}
            described |= {"tokens": cell.tokens, "texts_count": cell.texts_count}
            rows = probes.classifier_rows(
                cell.fits, args.seeds, states.classes, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed
            )
            growing.add(rows.assign(**described))
            name = f"{cell.condition.classifier}: {cell.tokens} tokens of {cell.texts_count} texts, {cell.design}"
            report(done, name)
        growing.write(paths)
