"""Principal components and lengths of hidden states, layer by layer."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.artifacts import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    parser.add_argument("--points", type=int, required=True, help="hidden states in the picture, all layers together")
    parser.add_argument("--seed", type=int, required=True, help="of the choice of points")
    parser.add_argument("--suite", required=True, help="goes into the rows")
    parser.add_argument("--model", required=True, help="goes into the rows")
    parser.add_argument("--step", required=True, help="goes into the rows; main if it is not known")
    parser.add_argument("--pca", type=Path, required=True, metavar="PCA.csv")
    parser.add_argument("--norms", type=Path, required=True, metavar="NORMS.csv")


def run(args: argparse.Namespace) -> None:
    """Compute and write both."""
    from embscale import geometry, hidden_states

    keys = {"suite": args.suite, "model": args.model, "step": "" if args.step == "main" else args.step}
    params = {"points": args.points, "seed": args.seed} | keys
    outputs = [args.pca, args.norms]
    with recorded(command="geometry", params=params, inputs=[args.states], outputs=outputs) as (pca, norms):
        states = hidden_states.load(args.states)
        described = keys | {"width": states.width}
        geometry.principal_components(states, points=args.points, seed=args.seed).assign(**described).to_csv(
            pca, index=False, float_format="%.6g"
        )
        geometry.norms(states).assign(**described).to_csv(norms, index=False, float_format="%.6g")
