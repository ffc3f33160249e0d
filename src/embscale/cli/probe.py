"""Fit classifiers that say which layer a hidden state comes from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.artifacts import recorded

NAMES = ("split", "test_fraction", "seeds", "inverse_regularisation", "resamples", "bootstrap_seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    parser.add_argument(
        "--split", choices=("text", "token", "vector"), required=True, help="what both sides never share"
    )
    parser.add_argument("--test-fraction", type=float, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="of the splits")
    parser.add_argument("--inverse-regularisation", type=float, required=True, help="C of the logistic regression")
    parser.add_argument("--resamples", type=int, required=True, help="bootstrap resamples of the texts")
    parser.add_argument("--bootstrap-seed", type=int, required=True)
    parser.add_argument("--suite", required=True, help="goes into the rows")
    parser.add_argument("--model", required=True, help="goes into the rows")
    parser.add_argument("--step", required=True, help="goes into the rows; main if it is not known")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PROBES.csv")
    parser.add_argument("--confusion", type=Path, required=True, metavar="CONFUSION.csv")


def run(args: argparse.Namespace) -> None:
    """Fit one classifier per seed, write rows and confusion counts."""
    from embscale import hidden_states, probes

    keys = {"suite": args.suite, "model": args.model, "step": "" if args.step == "main" else args.step}
    params = {name: getattr(args, name) for name in NAMES} | keys
    outputs = [args.output, args.confusion]
    with recorded(command="probe", params=params, inputs=[args.states], outputs=outputs) as (rows_path, confusion_path):
        states = hidden_states.load(args.states)
        fits = [
            probes.fit(
                states,
                split=args.split,
                test_fraction=args.test_fraction,
                seed=seed,
                inverse_regularisation=args.inverse_regularisation,
            )
            for seed in args.seeds
        ]
        for seed, fit in zip(args.seeds, fits, strict=True):
            if not fit.converged:
                print(f"{args.model}, seed {seed}: not converged after {probes.ITERATIONS} iterations", file=sys.stderr)
        rows = probes.rows(fits, args.seeds, states.classes, resamples=args.resamples, seed=args.bootstrap_seed)
        described = {"classifier": probes.CLASSIFIER, "split": args.split, "input": probes.INPUT}
        rows.assign(**keys, **described)[probes.COLUMNS].to_csv(rows_path, index=False)
        probes.confusion(fits, states.classes).assign(**keys).to_csv(confusion_path, index=False)
