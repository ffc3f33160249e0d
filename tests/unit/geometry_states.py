"""Hidden states made by hand, for tests of what is measured on them."""

import numpy as np

from embscale.layers.hidden_states import HiddenStates
from embscale.layers.names import FINAL_NORM


def made(values, *, texts=20, names=None, first_position=0):
    """Hidden states from ``[layers, vectors, width]``: the table, then blocks; equally many vectors of each text."""
    count, vectors, _ = values.shape
    per_text = vectors // texts
    return HiddenStates(
        arrays=dict(zip(names or layer_names(count), values.astype(np.float32), strict=True)),
        text=np.repeat(np.arange(texts), per_text),
        position=np.tile(np.arange(first_position, first_position + per_text), texts),
        token=np.arange(vectors) % (vectors - 3),
    )


def layer_names(count, *, final_norm=False):
    blocks = count - 1 - final_norm
    return ("embedding", *(f"block {i}" for i in range(1, blocks + 1)), *([FINAL_NORM] if final_norm else []))


def noise(layers, vectors, width, seed=0):
    return np.random.default_rng(seed).normal(size=(layers, vectors, width))
