"""Which layer does a hidden state of a model come from?  Run all steps for one checkpoint and one file of texts.

The texts are run through the checkpoint, classifiers are fitted for every seed, norms are measured, and a PCA is drawn.
FOLDER gets states.safetensors, tidy rows (probes.csv, confusion.csv, curves.csv, norms.csv, structure.csv, points.csv,
quality.csv) and figures (accuracy, confusion, norms, PCA), each with the note of the command that made it; those
commands are states, probe, geometry, reductions and draw, which a study runs one by one.

    embscale layers CHECKPOINT --texts texts.jsonl [--tokens 32 --texts-count 200 --split text -o FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embscale import cli
from embscale.cli._keys import OfTied
from embscale.cli._numbers import count
from embscale.parameters import flags
from embscale.parameters.layers import (
    Choice,
    Classifiers,
    Cleaning,
    Fits,
    Geometry,
    OneSplit,
    Positions,
    Reductions,
    Running,
)

# Smaller defaults for a quick look; everything else is as in params.yaml.
BRIEF = {
    "classifiers": ["logistic_regression", "nearest_centroid", "norm_only", "position_only", "majority"],
    "inputs": ["raw"],
    "controls": ["scalar_norm", "gaussian"],
    "kinds": ["pca"],
    "epochs": 1000,
    "tied": "unknown",
}
GROUPS = (OneSplit, Choice, Cleaning, Running, Positions, Fits, Classifiers, Geometry, Reductions, OfTied)
# Commands, the main output of each, and its other outputs.
OUTPUTS = (
    ("probe", "probes", "confusion", "curves"),
    ("geometry", "structure", "norms"),
    ("reductions", "points", "quality"),
)
# Files written per figure, and the figures with the rows that each shows.
FILES = {"svg": "svg", "partial": "md", "data": "csv"}
FIGURES = {
    "layer_accuracy": "probes.csv",
    "layer_confusion": "confusion.csv",
    "layer_norms": "norms.csv",
    "layer_reductions": "points.csv",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a folder in the Hugging Face layout")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="rows with a text")
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="also run the protocol of Huang et al.: sgd, which always splits by vector",
    )
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="holds tokenizer.json (the checkpoint's)")
    parser.add_argument("--text-split", metavar="NAME", help="keep only the rows whose metadata.split is NAME (all)")
    parser.add_argument("--min-tokens", type=count, help="texts with fewer are passed over and counted (--tokens)")
    parser.add_argument("--suite", default="own", help="recorded in the output (own)")
    parser.add_argument("--step", default="main", help="recorded in the output (main, which is not known)")
    parser.add_argument("--model", help="recorded in the output (the checkpoint's folder)")
    layers = flags.section("layers")
    defaults = layers | flags.section("layers", "geometry") | flags.section("layers", "reductions") | BRIEF
    flags.add(parser, *GROUPS, defaults=defaults | {"split": layers["splits"][0]} if layers else defaults)
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="for rows and figures (layers-MODEL)")


def run(args: argparse.Namespace) -> None:
    """Run each command with its share of the flags."""
    model = args.model or args.checkpoint.resolve().name
    folder: Path = args.output or Path(f"layers-{model}")
    stored = folder / "states.safetensors"
    faithful = ["sgd"] if args.faithful and "sgd" not in args.classifiers else []
    given = vars(args) | {
        "model": model,
        "tokenizer": args.tokenizer or args.checkpoint,
        "classifiers": [*args.classifiers, *faithful],
        "min_tokens": args.tokens if args.min_tokens is None else args.min_tokens,
        "splits": [args.split],
        "states": stored,
    }
    # All positions are stored: the norms are shown with and without the first.
    _run("states", given | {"first_position": 0, "output": stored})
    given["texts"] = args.texts.name.partition(".")[0]
    for command, output, *others in OUTPUTS:
        _run(command, given | {name: folder / f"{name}.csv" for name in others} | {"output": folder / f"{output}.csv"})
    for figure, rows in FIGURES.items():
        paths = {name: folder / "figures" / f"{figure}.{end}" for name, end in FILES.items()}
        _run("draw", {"figure": figure, "rows": [folder / rows]} | paths)


def _run(command: str, given: Mapping[str, Any]) -> None:
    """Run another command with those values for which it has flags."""
    words = cli.line(command, {name: value for name, value in given.items() if name in cli.flags_of(command)})
    cli.load(command).run(cli.parse(command, words[1:]))
