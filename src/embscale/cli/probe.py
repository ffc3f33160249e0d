"""Fit classifiers that predict which layer a hidden state comes from."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli import _layers
from embscale.cli._keys import OfTexts
from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.layers import Probe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    flags.add(parser, Probe, *_layers.GROUPS, OfTexts)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PROBES.csv")
    parser.add_argument("--confusion", type=Path, required=True, metavar="CONFUSION.csv[.gz]")
    parser.add_argument("--curves", type=Path, required=True, metavar="CURVES.csv[.gz]", help="of sgd, by epoch")


def run(args: argparse.Namespace) -> None:
    """Fit one classifier per condition and seed; write rows, confusion counts and curves."""
    from embscale.layers import examples, hidden_states, probes
    from embscale.progress import progress
    from embscale.rows import tidy

    outputs = [args.output, args.confusion, args.curves]
    settings = _layers.settings(args, epochs=args.epochs, tree_depth=args.tree_depth)
    facts = {"device": settings.device}
    with write_with_provenance(args, inputs=[args.states], outputs=outputs, facts=facts) as paths:
        states = examples.load_if_fits(hidden_states.load(args.states), memory_gb=args.memory_gb)
        used = examples.mask_from(states, first_position=args.first_position)
        keys = _layers.keys(args, states, used)
        layers, bootstrap = states.classes, {"resamples": args.bootstrap_resamples, "seed": args.bootstrap_seed}
        conditions = probes.conditions(args.classifiers, args.splits, args.inputs, args.controls)
        rows, confusion, curves = [], [], []
        found = {}
        report = progress("conditions", len(conditions))
        for done, condition in enumerate(conditions, 1):
            fits = probes.run(states, used, condition, settings, seeds=args.seeds, name=args.model)
            described = keys | condition.described() | {"trained_on": args.texts}
            rows.append(probes.classifier_rows(fits, args.seeds, layers, **bootstrap).assign(**described))
            confusion.append(probes.confusion(fits, args.seeds, layers).assign(**described))
            curves.append(probes.curves(fits, args.seeds).assign(**described))
            found[condition] = fits
            if (counterpart := condition.with_means) in found:
                share = probes.mean_shift_share(found[counterpart], fits, args.seeds, layers, **bootstrap)
                rows.append(share.assign(**described))
            report(done, " ".join(condition))
        for path, frames, columns in zip(
            paths,
            (rows, confusion, curves),
            (probes.COLUMNS, probes.CONFUSION_COLUMNS, probes.CURVE_COLUMNS),
            strict=True,
        ):
            tidy.write(probes.concat_rows(frames, columns), path)
