"""Measure how long hidden states are, how they spread, and how the layers lie to each other."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.provenance.artifacts import recorded

if TYPE_CHECKING:
    import pandas as pd

    from embscale.layers.hidden_states import HiddenStates

NAMES = ("first_position", "vectors", "groups", "dimensions", "neighbours", "resamples", "seed")
KEYS = ("suite", "model", "step", "texts", "tied")
COLUMNS = ["suite", "model", "step", "width", "texts", "tokens", "texts_count", "tied"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    parser.add_argument("--vectors", type=int, required=True, help="of each layer, where vectors are compared pairwise")
    parser.add_argument("--groups", type=int, required=True, help="of texts, left out in turn for the intervals")
    parser.add_argument("--dimensions", type=int, required=True, help="of the subspaces of most variance")
    parser.add_argument("--neighbours", type=int, required=True, help="nearest neighbours of a vector")
    parser.add_argument("--resamples", type=int, required=True, help="bootstrap resamples of the texts, for lengths")
    parser.add_argument("--seed", type=int, required=True, help="of vectors, groups, random subspaces and resamples")
    add_keys(parser)
    parser.add_argument("--norms", type=Path, required=True, metavar="NORMS.csv", help="lengths by layer")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="STRUCTURE.csv", help="all else")


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that say what is measured."""
    parser.add_argument("--first-position", type=int, required=True, help="leave out the positions before it")
    parser.add_argument("--suite", required=True, help="goes into the rows")
    parser.add_argument("--model", required=True, help="goes into the rows")
    parser.add_argument("--step", required=True, help="goes into the rows; main if it is not known")
    parser.add_argument("--tied", choices=("yes", "no", "unknown"), required=True, help="goes into the rows")
    parser.add_argument("--texts", required=True, help="name of the texts; goes into the rows")


def described(rows: pd.DataFrame, states: HiddenStates, args: argparse.Namespace) -> pd.DataFrame:
    """The rows with what they were measured on in front."""
    keys = {name: getattr(args, name) for name in KEYS}
    keys["step"] = "" if args.step == "main" else args.step
    keys |= {"width": states.width, "tokens": int(states.position.max()) + 1}
    keys["texts_count"] = len(set(states.text.tolist()))
    return rows.assign(**keys)[[*COLUMNS, *rows.columns]]


def run(args: argparse.Namespace) -> None:
    """Compute and write both."""
    import pandas as pd

    from embscale.layers import geometry, hidden_states

    params = {name: getattr(args, name) for name in (*NAMES, *KEYS)}
    outputs = [args.output, args.norms]
    with recorded(command="geometry", params=params, inputs=[args.states], outputs=outputs) as (structure, norms):
        states = hidden_states.load(args.states)
        drawn = {"resamples": args.resamples, "seed": args.seed}
        found = pd.concat(
            [
                geometry.norm_structure(states, **drawn),
                geometry.structure(
                    states,
                    first_position=args.first_position,
                    vectors=args.vectors,
                    groups=args.groups,
                    dimensions=args.dimensions,
                    neighbours=args.neighbours,
                    seed=args.seed,
                ),
            ],
            ignore_index=True,
        )
        described(found, states, args).to_csv(structure, index=False, float_format="%.6g")
        described(geometry.norms(states, **drawn), states, args).to_csv(norms, index=False, float_format="%.6g")
