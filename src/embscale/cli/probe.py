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
    import pandas as pd

    from embscale.layers import examples, hidden_states, probes
    from embscale.progress import progress

    outputs = [args.output, args.confusion, args.curves]
    columns = (probes.COLUMNS, probes.CONFUSION_COLUMNS, probes.CURVE_COLUMNS)
    settings = _layers.settings(args, epochs=args.epochs, tree_depth=args.tree_depth)
    facts = {"device": settings.device}
    with (
        _layers.GrowingRows(dict(zip(outputs, columns, strict=True))) as growing,
        write_with_provenance(args, inputs=[args.states], outputs=outputs, facts=facts) as paths,
    ):
        states = hidden_states.load(args.states)
        used = examples.mask_from(states, first_position=args.first_position)
        conditions = probes.conditions(args.classifiers, args.splits, args.inputs, args.controls)
        probes.check(states, used, conditions, settings, seeds=args.seeds)
        states = examples.load_if_fits(states, memory_gb=args.memory_gb)
        keys = _layers.keys(args, states, used)
        layers, bootstrap = states.classes, {"resamples": args.bootstrap_resamples, "seed": args.bootstrap_seed}
        found: dict[probes.Condition, list[probes.Fit]] = {}
        report = progress("conditions", len(conditions))
        for done, condition in enumerate(conditions, 1):
            fits = probes.run(states, used, condition, settings, seeds=args.seeds, name=args.model)
            rows = [probes.classifier_rows(fits, args.seeds, layers, **bootstrap)]
            found[condition] = fits
            if (counterpart := condition.with_means) in found:
                rows.append(probes.mean_shift_share(found[counterpart], fits, args.seeds, layers, **bootstrap))
            described = keys | condition.described() | {"trained_on": args.texts}
            frames = pd.concat(rows), probes.confusion(fits, args.seeds, layers), probes.curves(fits, args.seeds)
            growing.add(*(frame.assign(**described) for frame in frames))
            report(done, " ".join(condition))
        growing.write(paths)
