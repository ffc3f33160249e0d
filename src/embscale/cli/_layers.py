"""Flags and steps that the commands on layer classifiers share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from embscale.cli._keys import OfModel, known_step
from embscale.parameters.layers import Fits

if TYPE_CHECKING:
    import numpy as np

    from embscale.layers.classifiers import Settings
    from embscale.layers.hidden_states import HiddenStates

GROUPS = (Fits, OfModel)


def settings(args: argparse.Namespace, *, epochs: int = 0, tree_depth: int = 0) -> Settings:
    """Settings shared by all fits; a command without `sgd` or trees needs neither epochs nor depth."""
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


def keys(
    args: argparse.Namespace, states: HiddenStates, used: np.ndarray, *, texts: str | None = None
) -> dict[str, Any]:
    """The leading columns of all rows of a command; a grid sets its own tokens and number of texts."""
    from embscale.layers import probes

    return {
        "suite": args.suite,
        "model": args.model,
        "step": known_step(args.step),
        "width": states.width,
        "texts": args.texts if texts is None else texts,
        "tokens": int(states.position[used].max()) + 1,
        "texts_count": probes.texts_of(states, used),
    }
