"""Ablate a layer classifier: dimensions, masks, stability, penalties, prefixes, positions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli import _layers
from embscale.cli._keys import OfTexts
from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.layers import Ablations, OneSplit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    flags.add(parser, Ablations, OneSplit, *_layers.GROUPS, OfTexts)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ABLATIONS.csv")


def run(args: argparse.Namespace) -> None:
    """Fit the classifier once per seed, then ablate."""
    import numpy as np
    import pandas as pd

    from embscale.layers import ablations, examples, hidden_states, probes

    settings = _layers.settings(args)
    facts = {"device": settings.device}
    with write_with_provenance(args, inputs=[args.states], outputs=[args.output], facts=facts) as (path,):
        states = examples.load_if_fits(hidden_states.load(args.states), memory_gb=args.memory_gb)
        used = examples.mask_from(states, first_position=args.first_position)

        def base(vectors: np.ndarray) -> ablations.Base:
            return ablations.base(
                states,
                vectors,
                settings,
                split=args.split,
                seeds=args.seeds,
                resamples=args.bootstrap_resamples,
                bootstrap_seed=args.bootstrap_seed,
                name=args.model,
            )

        base_fits = base(used)
        frames = [
            ablations.ablations(base_fits, random_masks=args.random_masks),
            pd.DataFrame(ablations.regularisation(base_fits, inverse_regularisations=args.inverse_regularisations)),
            pd.DataFrame(ablations.first_position(base_fits, ablations.WITHOUT_FIRST)),
        ]
        every = np.ones(len(states.text), dtype=bool)
        if used.all():
            frames.append(pd.DataFrame([ablations.NO_FIRST]))
            print(f"{args.model}: the states have no vector before position {args.first_position}", file=sys.stderr)
        else:
            with_first = base(every)
            frames.append(pd.DataFrame(ablations.first_position(with_first, ablations.WITH_FIRST)))
            frames.append(pd.DataFrame(ablations.positions(with_first, ablations.WITH_FIRST_BUCKET)))
        keys = _layers.keys(args, states, used)
        frames = [frame.assign(**keys, split=args.split) for frame in frames]
        probes.concat_rows(frames, ablations.COLUMNS).to_csv(path, index=False)
