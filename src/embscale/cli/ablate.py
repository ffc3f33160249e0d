"""Ablate a layer classifier: dimensions, masks, stability, penalties, prefixes, positions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
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

    from embscale.layers import ablations, examples, hidden_states

    settings = _layers.settings(args)
    facts = {"device": settings.device}
    with (
        _layers.GrowingRows({args.output: ablations.COLUMNS}) as growing,
        write_with_provenance(args, inputs=[args.states], outputs=[args.output], facts=facts) as paths,
    ):
        states = examples.load_if_fits(hidden_states.load(args.states), memory_gb=args.memory_gb)
        used = examples.mask_from(states, first_position=args.first_position)
        every = np.ones(len(states.text), dtype=bool)
        for vectors in (used, every):
            ablations.check_splits(states, vectors, settings, split=args.split, seeds=args.seeds)
        keys = _layers.keys(args, states, used)

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

        def frames() -> Iterator[pd.DataFrame]:
            found = base(used)
            yield from ablations.ablations(found, random_masks=args.random_masks)
            yield pd.DataFrame(ablations.regularisation(found, inverse_regularisations=args.inverse_regularisations))
            yield pd.DataFrame(ablations.first_position(found, ablations.WITHOUT_FIRST))
            if used.all():
                yield pd.DataFrame([ablations.NO_FIRST])
                print(f"{args.model}: the states have no vector before position {args.first_position}", file=sys.stderr)
            else:
                with_first = base(every)
                yield pd.DataFrame(ablations.first_position(with_first, ablations.WITH_FIRST))
                yield pd.DataFrame(ablations.positions(with_first, ablations.WITH_FIRST_BUCKET))

        for frame in frames():
            growing.add(frame.assign(**keys, split=args.split))
        growing.write(paths)
