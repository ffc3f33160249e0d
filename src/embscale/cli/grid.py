"""Fit layer classifiers on shorter and longer texts, fewer and more of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli import _layers
from embscale.provenance.artifacts import recorded

OWN = ("texts", "classifiers", "split", "windows", "counts", "epochs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    _layers.add_states(parser)
    parser.add_argument("--windows", type=int, nargs="+", required=True, help="first tokens of each text")
    parser.add_argument("--counts", type=int, nargs="+", required=True, help="numbers of texts")
    parser.add_argument(
        "--classifiers", nargs="+", required=True, choices=("logistic_regression", "sgd"), help="sgd: the study's own"
    )
    parser.add_argument(
        "--split", required=True, choices=("text", "token", "vector"), help="of logistic_regression; sgd: by vector"
    )
    _layers.add_sgd(parser)
    _layers.add_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="GRID.csv")


def run(args: argparse.Namespace) -> None:
    """Fit every cell in both designs, write rows."""
    from embscale.layers import designs, examples, hidden_states, probes
    from embscale.progress import progress
    from embscale.rows import tidy

    with recorded(command="grid", params=_layers.params(args, *OWN), inputs=[args.states], outputs=[args.output]) as (
        path,
    ):
        settings = _layers.settings(args, epochs=args.epochs)
        states = examples.held(hidden_states.load(args.states), memory_gb=args.memory_gb)
        used = examples.used_vectors(states, first_position=args.first_position)
        keys = _layers.keys(args, states, used)
        frames = []
        told = progress("cells", len(args.classifiers) * len(args.windows) * len(args.counts) * 2)
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
                made = probes.rows(
                    cell.fits, args.seeds, states.classes, resamples=args.resamples, seed=args.bootstrap_seed
                )
                frames.append(made.assign(**described))
                told(len(frames), f"{classifier}: {cell.tokens} tokens of {cell.texts_count} texts, {cell.design}")
        tidy.write(probes.complete(frames, probes.COLUMNS), path)
