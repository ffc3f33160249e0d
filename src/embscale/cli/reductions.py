"""Place hidden states in two dimensions by PCA, t-SNE and UMAP, and measure how good each picture is."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli.geometry import KEYS, add_keys, described
from embscale.provenance.artifacts import recorded

# Named here, because importing what knows them takes seconds.
REDUCTIONS = ("pca", "tsne", "umap")
SETTINGS = (
    "first_position",
    "points",
    "perplexity",
    "umap_neighbours",
    "start_dimensions",
    "outliers",
    "groups",
    "seed",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    parser.add_argument("--reductions", nargs="+", choices=REDUCTIONS, required=True)
    parser.add_argument("--points", type=int, required=True, help="hidden states in a picture, all layers together")
    parser.add_argument("--perplexity", type=float, required=True, help="of t-SNE")
    parser.add_argument("--umap-neighbours", type=int, required=True, help="UMAP's n_neighbors")
    parser.add_argument(
        "--start-dimensions", type=int, required=True, help="principal components that t-SNE and UMAP start from"
    )
    parser.add_argument(
        "--outliers", type=int, required=True, help="dimensions of most variance that one of the PCAs leaves out"
    )
    parser.add_argument("--groups", type=int, required=True, help="of texts, left out in turn for the intervals")
    parser.add_argument("--seed", type=int, required=True, help="of points, groups, t-SNE and UMAP")
    add_keys(parser)
    parser.add_argument("--quality", type=Path, required=True, metavar="QUALITY.csv", help="measures of the pictures")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="POINTS.csv[.gz]", help="the pictures")


def run(args: argparse.Namespace) -> None:
    """Compute and write both."""
    from embscale.layers import hidden_states, reductions
    from embscale.rows import tidy

    params = {name: getattr(args, name) for name in ("reductions", *SETTINGS, *KEYS)}
    outputs = [args.output, args.quality]
    with recorded(command="reductions", params=params, inputs=[args.states], outputs=outputs) as (points, quality):
        states = hidden_states.load(args.states)
        settings = reductions.Settings(**{name: getattr(args, name) for name in SETTINGS})
        placed, measures = reductions.reduce(states, reductions=args.reductions, settings=settings)
        tidy.write(described(placed, states, args), points, float_format="%.5g")
        tidy.write(described(measures, states, args), quality, float_format="%.6g")
