"""Measure the geometry of hidden states: norms, spread, and relations between layers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli._keys import OfModel, OfTexts, OfTied, known_step
from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.layers import Geometry, Positions

if TYPE_CHECKING:
    import pandas as pd

    from embscale.layers.hidden_states import HiddenStates

KEYS = ("suite", "model", "step", "texts", "tied")
COLUMNS = ["suite", "model", "step", "width", "texts", "tokens", "texts_count", "tied"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    flags.add(parser, Geometry)
    add_keys(parser)
    parser.add_argument("--norms", type=Path, required=True, metavar="NORMS.csv", help="norms by layer")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="STRUCTURE.csv", help="all else")


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that identify what is measured."""
    flags.add(parser, Positions, OfModel, OfTied, OfTexts)


def described(rows: pd.DataFrame, states: HiddenStates, args: argparse.Namespace) -> pd.DataFrame:
    """The rows, preceded by the columns that identify what was measured."""
    keys = {name: getattr(args, name) for name in KEYS}
    keys["step"] = known_step(args.step)
    keys |= {"width": states.width, "tokens": int(states.position.max()) + 1}
    keys["texts_count"] = len(set(states.text.tolist()))
    return rows.assign(**keys)[[*COLUMNS, *rows.columns]]


def run(args: argparse.Namespace) -> None:
    """Compute and write both."""
    import pandas as pd

    from embscale.layers import geometry, hidden_states

    outputs = [args.output, args.norms]
    with write_with_provenance(args, inputs=[args.states], outputs=outputs) as (structure, norms):
        states = hidden_states.load(args.states)
        drawn = {"resamples": args.resamples, "seed": args.seed}
        rows = pd.concat(
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
        described(rows, states, args).to_csv(structure, index=False, float_format="%.6g")
        described(geometry.norms(states, **drawn), states, args).to_csv(norms, index=False, float_format="%.6g")
