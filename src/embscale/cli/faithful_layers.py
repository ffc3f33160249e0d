"""Repeat the published layer classifiers of Huang et al. 2024 of a model, by their protocol and by this study's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli import _layers
from embscale.cli._keys import known_step
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.layers import Epochs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--states",
        nargs="+",
        required=True,
        metavar="TEXTS=STATES.safetensors",
        help="from embscale states, by the study's name of the texts: imdb, ag_news, pile",
    )
    flags.add(parser, Epochs, *_layers.GROUPS)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row per run and way")


def run(args: argparse.Namespace) -> None:
    """Fit, test, write a row for each published run and each way."""
    import pandas as pd

    from embscale.claims import faithful_layers, published_scores
    from embscale.layers import examples, hidden_states
    from embscale.progress import progress

    paths = {}
    for text in args.states:
        name, found, path = text.partition("=")
        if not found:
            raise EmbscaleError(f"--states {text}: expected TEXTS=STATES.safetensors, such as imdb={text}")
        paths[name] = Path(path)
    settings = _layers.settings(args, epochs=args.epochs)
    inputs = [*paths.values(), published_scores.LAYERS_FILE]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts={"device": settings.device}) as (csv,):
        sources = {
            name: examples.load_if_fits(hidden_states.load(path), memory_gb=args.memory_gb)
            for name, path in paths.items()
        }
        printed = faithful_layers.repeatable(published_scores.huang(), args.model, sources)
        ways = faithful_layers.Way.both(settings, seed=args.seeds[0], first_position=args.first_position)
        fits = len(ways) * len(printed.drop_duplicates(faithful_layers.FITTED))
        step, done = progress("fits", fits), []

        def report(words: str) -> None:
            done.append(words)
            step(len(done), words)

        rows = faithful_layers.rows(
            printed, sources, ways, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed, report=report
        )
        (width,) = {states.width for states in sources.values()}
        described = {"suite": args.suite, "model": args.model, "step": known_step(args.step), "width": width}
        pd.DataFrame([described | row for row in rows], columns=faithful_layers.COLUMNS).to_csv(csv, index=False)
