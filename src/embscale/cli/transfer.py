"""Train layer classifiers on one source of texts and test them on others."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli import _layers
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--states",
        nargs="+",
        action="extend",
        required=True,
        metavar="NAME=STATES.safetensors",
        help="of two or more sources of texts, all of one model",
    )
    flags.add(parser, *_layers.GROUPS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TRANSFER.csv")


def run(args: argparse.Namespace) -> None:
    """Fit on each source and on all mixed, test on each, write rows."""
    from embscale.layers import designs, examples, hidden_states, probes

    paths = dict(_named(given) for given in args.states)
    if len(paths) < 2 or len(paths) < len(args.states):
        raise EmbscaleError("--states: give two or more, each with a name of its own")
    settings = _layers.settings(args)
    facts = {"device": settings.device}
    with (
        _layers.GrowingRows({args.output: probes.COLUMNS}) as growing,
        write_with_provenance(args, inputs=list(paths.values()), outputs=[args.output], facts=facts) as outputs,
    ):
        sources = {name: hidden_states.load(file) for name, file in paths.items()}
        keys = {
            name: _layers.keys(args, states, examples.mask_from(states, first_position=args.first_position), texts=name)
            for name, states in sources.items()
        }
        layers = next(iter(sources.values())).classes
        for cell in designs.transfer(
            sources, settings, first_position=args.first_position, seeds=args.seeds, name=args.model
        ):
            described = keys[cell.tested_on] | cell.condition.described() | {"trained_on": cell.trained_on}
            rows = probes.classifier_rows(
                cell.fits, args.seeds, layers, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed
            )
            growing.add(rows.assign(**described))
        growing.write(outputs)


def _named(given: str) -> tuple[str, Path]:
    name, equals, path = given.partition("=")
    if not (name and equals and path):
        raise EmbscaleError(f"--states {given}: expected NAME=FILE")
    return name, Path(path)
