"""Flags and steps that the commands on layer classifiers share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import numpy as np

    from embscale.layers.classifiers import Settings
    from embscale.layers.hidden_states import HiddenStates

NAMES = (
    "seeds",
    "first_position",
    "test_fraction",
    "inverse_regularisation",
    "memory_gb",
    "chunk",
    "resamples",
    "bootstrap_seed",
)
KEYS = ("suite", "model", "step")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shared flags."""
    parser.add_argument("--seeds", type=int, nargs="+", required=True, help="of the splits and whatever else is drawn")
    parser.add_argument("--first-position", type=int, required=True, help="leave out the vectors before it")
    parser.add_argument("--test-fraction", type=float, required=True, help="share of texts, token types or vectors")
    parser.add_argument("--inverse-regularisation", type=float, required=True, help="C of the logistic regression")
    parser.add_argument("--memory-gb", type=float, required=True, help="larger sets of vectors are read by chunks")
    parser.add_argument("--chunk", type=int, required=True, help="vectors read at once, at every layer")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu", help="where to fit; cpu by default")
    parser.add_argument("--resamples", type=int, required=True, help="bootstrap resamples of the texts")
    parser.add_argument("--bootstrap-seed", type=int, required=True)
    parser.add_argument("--suite", required=True, help="goes into the rows")
    parser.add_argument("--model", required=True, help="goes into the rows")
    parser.add_argument("--step", required=True, help="goes into the rows; main if it is not known")


def add_states(parser: argparse.ArgumentParser) -> None:
    """Declare the states of one source of texts and its name."""
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="from embscale states")
    parser.add_argument("--texts", required=True, metavar="NAME", help="of their source; goes into the rows")


def add_sgd(parser: argparse.ArgumentParser) -> None:
    """Declare how long the study's own protocol runs."""
    parser.add_argument("--epochs", type=int, required=True, help="of sgd; the study made 1000")


def params(args: argparse.Namespace, *further: str) -> dict[str, Any]:
    """What goes into the note: the shared flags and some of the command's own."""
    return {name: getattr(args, name) for name in (*NAMES, *KEYS, *further)}


def settings(args: argparse.Namespace, *, epochs: int = 0, tree_depth: int = 0) -> Settings:
    """What all fits share; a command without `sgd` or trees needs neither epochs nor depth."""
    from embscale.layers.classifiers import Settings

    device = args.device
    if device != "cpu":
        from embscale.devices import choose_device

        device = choose_device(device).type
    return Settings(
        test_fraction=args.test_fraction,
        inverse_regularisation=args.inverse_regularisation,
        epochs=epochs,
        tree_depth=tree_depth,
        device=device,
        memory_gb=args.memory_gb,
        chunk=args.chunk,
    )


def check(flag: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Names that a flag may have, which argparse cannot know without importing what takes long to import.

    Raises:
        EmbscaleError: one is unknown.
    """
    for name in given:
        if name not in known:
            raise EmbscaleError(f"--{flag}: no {name!r}; known are {', '.join(known)}")


def keys(
    args: argparse.Namespace, states: HiddenStates, used: np.ndarray, *, texts: str | None = None
) -> dict[str, Any]:
    """The columns that all rows of a command start with; a grid has its own tokens and number of texts."""
    from embscale.layers import probes

    return {
        "suite": args.suite,
        "model": args.model,
        "step": "" if args.step == "main" else args.step,
        "width": states.width,
        "texts": args.texts if texts is None else texts,
        "tokens": int(states.position[used].max()) + 1,
        "texts_count": probes.texts_of(states, used),
    }
