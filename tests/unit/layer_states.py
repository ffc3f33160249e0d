"""Hidden states whose answer is known, for the tests of layer classifiers."""

import numpy as np

from embscale.layers.classifiers import Settings
from embscale.layers.hidden_states import HiddenStates

SETTINGS = Settings(
    test_fraction=0.25,
    inverse_regularisation=1.0,
    epochs=3,
    tree_depth=4,
    device="cpu",
    memory_gb=1.0,
    chunk=150,
)


def made(states, *, texts=20, layers=None, ids="text"):
    """States ``[layers, vectors, width]`` as those of some texts of equal length."""
    count, vectors, _ = states.shape
    per_text = vectors // texts
    names = layers or ("embedding", *(f"block {i}" for i in range(1, count)))
    return HiddenStates(
        arrays=dict(zip(names, states.astype(np.float32), strict=True)),
        text=np.repeat(np.arange(texts), per_text),
        position=np.tile(np.arange(per_text), texts),
        token=np.arange(vectors) % 7,
        metadata={"text_ids": [f"{ids}-{i}" for i in range(texts)], "tokens": per_text},
    )


def noise(layers, vectors, width, seed=0):
    """Standard normal states, alike at every layer."""
    return np.random.default_rng(seed).normal(size=(layers, vectors, width))


def everything(states):
    """All vectors take part."""
    return np.ones(len(states.text), dtype=bool)
