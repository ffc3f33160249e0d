"""Which layer does a hidden state of a model come from?  All steps for one checkpoint and one file of texts.

Texts run through the checkpoint, classifiers are fitted for every seed, lengths measured, PCA drawn.  FOLDER gets
states.safetensors, tidy rows (probes.csv, confusion.csv, curves.csv, norms.csv, structure.csv, points.csv, quality.csv)
and figures (accuracy, confusion, norms, PCA), each with the note of the command that made it; those commands are
states, probe, geometry, reductions and draw, which a study runs one by one.

    embscale layers CHECKPOINT --texts texts.jsonl --tokens 32 --texts-count 200 --split text -o FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embscale.cli import draw, geometry, probe, reductions, states

Chosen = dict[str, tuple[Any, str]]

# What else changes a number, by the command that it is handed to: flag, value unless said otherwise, and help.
CHOSEN: Chosen = {
    "seed": (1, "of the choice of texts and of whatever else is drawn but the splits"),
    "first_position": (1, "leave out the vectors before it: the first has abnormal norms"),
}
OF_STATES: Chosen = {
    "batch": (16, "texts in one forward pass"),
    "precision": ("float32", "of the forward pass: float32, float16 or bfloat16"),
    "storage_gb": (20.0, "refuse a larger file of hidden states (1 GB is 10^9 bytes)"),
}
OF_PROBE: Chosen = {
    "classifiers": (
        ["logistic_regression", "nearest_centroid", "norm_only", "position_only", "majority"],
        "as embscale probe knows them",
    ),
    "inputs": (["raw"], "how vectors are scaled, as embscale probe knows it"),
    "controls": (["scalar_norm", "gaussian"], "random vectors, as embscale probe knows them"),
    "seeds": ([1, 2, 3, 4, 5], "of the splits"),
    "test_fraction": (0.25, "share of texts, token types or vectors"),
    "inverse_regularisation": (1.0, "C of the logistic regression"),
    "tree_depth": (5, "of the decision tree, at most"),
    "epochs": (1000, "of sgd"),
    "memory_gb": (2.0, "larger sets of vectors are read by chunks"),
    "chunk": (4096, "vectors read at once, at every layer"),
    "resamples": (2000, "bootstrap resamples of the texts"),
}
OF_GEOMETRY: Chosen = {
    "vectors": (1000, "of each layer, where vectors are compared pairwise"),
    "groups": (20, "of texts, left out in turn for the intervals"),
    "dimensions": (8, "of the subspaces of most variance"),
    "neighbours": (10, "nearest neighbours of a vector"),
}
OF_PICTURES: Chosen = {
    "points": (1200, "hidden states in the picture, all layers together"),
    "outliers": (4, "dimensions of most variance that one of the PCAs leaves out"),
}
# What is written of a figure, and the figures with the rows that each shows.
FILES = {"svg": "svg", "partial": "md", "data": "csv"}
FIGURES = {
    "layer_accuracy": "probes.csv",
    "layer_confusion": "confusion.csv",
    "layer_norms": "norms.csv",
    "layer_reductions": "points.csv",
}
# t-SNE and UMAP are not drawn, so that their settings are of no influence; the commands want them all the same.
NOT_DRAWN = {"reductions": ["pca"], "perplexity": 1, "umap_neighbours": 2, "start_dimensions": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a folder in the Hugging Face layout")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="rows with a text")
    parser.add_argument("--tokens", type=int, required=True, help="first tokens of each text")
    parser.add_argument("--texts-count", type=int, required=True, help="texts to take")
    parser.add_argument(
        "--split", choices=("text", "token", "vector"), required=True, help="what training and test must not share"
    )
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="beside the others the second study's own protocol: sgd, which always splits by vector",
    )
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="holds tokenizer.json (the checkpoint's)")
    parser.add_argument("--min-tokens", type=int, help="texts with fewer are passed over and counted (--tokens)")
    parser.add_argument("--text-split", metavar="NAME", help="keep only the rows whose metadata.split is NAME (all)")
    parser.add_argument("--strip-html", action="store_true", help="tags become spaces, entities characters")
    parser.add_argument("--strip-punctuation", action="store_true", help="take out the Unicode categories P")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="cuda if there is one (auto)")
    for name, (value, words) in (CHOSEN | OF_STATES | OF_PROBE | OF_GEOMETRY | OF_PICTURES).items():
        several = isinstance(value, list)
        told = " ".join(map(str, value)) if several else value
        kind = type(value[0] if several else value)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            nargs="*" if several else None,
            default=value,
            help=f"{words} ({told})",
        )
    parser.add_argument("--suite", default="own", help="goes into the rows (own)")
    parser.add_argument("--model", help="the same (the checkpoint's folder)")
    parser.add_argument("--step", default="main", help="the same (main, which is not known)")
    parser.add_argument("--tied", choices=("yes", "no", "unknown"), default="unknown", help="the same (unknown)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="for rows and figures")


def run(args: argparse.Namespace) -> None:
    """Hand each command its part."""
    folder: Path = args.output
    stored = folder / "states.safetensors"
    faithful = ["sgd"] if args.faithful and "sgd" not in args.classifiers else []
    told = vars(args) | {
        "model": args.model or args.checkpoint.resolve().name,
        "tokenizer": args.tokenizer or args.checkpoint,
        "min_tokens": args.tokens if args.min_tokens is None else args.min_tokens,
        "classifiers": [*args.classifiers, *faithful],
        "splits": [args.split],
        "bootstrap_seed": args.seed,
    }

    def some(*names: str) -> dict[str, Any]:
        return {name: told[name] for name in names}

    def files(output: str, *others: str) -> dict[str, Path]:
        return {"output": folder / f"{output}.csv"} | {name: folder / f"{name}.csv" for name in others}

    keys = some("suite", "model", "step", "first_position") | {"texts": args.texts.name.partition(".")[0]}
    measured = keys | some("tied", "groups", "seed")
    texts = some("texts", "text_split", "strip_html", "strip_punctuation", "texts_count", "min_tokens", "tokens")
    # All positions are stored: the norms are shown with and without the first.
    texts |= some("tokenizer", "device", "seed", *OF_STATES) | {"first_position": 0}
    _hand(states, [args.checkpoint], texts | {"output": stored})
    fits = keys | some("splits", "device", "bootstrap_seed", *OF_PROBE)
    _hand(probe, [stored], fits | files("probes", "confusion", "curves"))
    found = measured | some("resamples", *OF_GEOMETRY)
    _hand(geometry, [stored], found | files("structure", "norms"))
    found = measured | some(*OF_PICTURES) | NOT_DRAWN
    _hand(reductions, [stored], found | files("points", "quality"))
    for figure, rows in FIGURES.items():
        made = {name: folder / "figures" / f"{figure}.{end}" for name, end in FILES.items()}
        _hand(draw, [figure], {"rows": folder / rows} | made)


def _hand(command: Any, positional: Sequence[object], flags: Mapping[str, Any]) -> None:  # noqa: ANN401 (a module)
    """Run another command; a flag without a value is there or not, and one that is None is not."""
    words = list(map(str, positional))
    for name, value in flags.items():
        if value is not None and value is not False:
            values = [] if value is True else value if isinstance(value, list) else [value]
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
    parser = argparse.ArgumentParser(prog=f"embscale {command.__name__.rpartition('.')[2]}")
    command.add_arguments(parser)
    command.run(parser.parse_args(words))
