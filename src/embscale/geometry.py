"""Where hidden states lie: principal components and lengths by layer (Huang et al., Fig. 2 to 4)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from embscale.errors import EmbscaleError
from embscale.hidden_states import FINAL_NORM, HiddenStates

SCALINGS = ("raw", "unit")


def principal_components(states: HiddenStates, *, points: int, seed: int) -> pd.DataFrame:
    """The first two principal components of as many vectors of every layer, one projection for all layers.

    Args:
        states: the final norm's output is left out.
        points: vectors in all, the same tokens at every layer.
        seed: of the choice of tokens, and of the decomposition.

    Returns:
        One row per point and scaling (``raw``, or ``unit`` for vectors of length 1), with the shares of
        variance that the two components explain.

    Raises:
        EmbscaleError: there are fewer vectors than asked for.
    """
    layers, vectors = len(states.classes), len(states.text)
    chosen = points // layers
    if not 0 < chosen <= vectors:
        raise EmbscaleError(f"{points} points over {layers} layers: each layer has {vectors} vectors")
    tokens = np.sort(np.random.default_rng(seed).choice(vectors, chosen, replace=False))
    raw = states.take(states.classes, tokens).reshape(layers * chosen, -1).astype(np.float64)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True).clip(min=1e-12)
    frames = []
    for scaling, values in zip(SCALINGS, (raw, unit), strict=True):
        pca = PCA(n_components=2, svd_solver="full", random_state=seed)
        projected = pca.fit_transform(values)
        frame = {
            "scaling": scaling,
            "layer": np.repeat(states.classes, chosen),
            "layer_index": np.repeat(np.arange(layers), chosen),
            "text": np.tile(states.text[tokens], layers),
            "position": np.tile(states.position[tokens], layers),
            "pc1": projected[:, 0],
            "pc2": projected[:, 1],
            "explained1": pca.explained_variance_ratio_[0],
            "explained2": pca.explained_variance_ratio_[1],
        }
        frames.append(pd.DataFrame(frame))
    return pd.concat(frames, ignore_index=True)


def norms(states: HiddenStates) -> pd.DataFrame:
    """Shortest, mean, median and longest vector of each layer; the final norm's output is marked as such."""
    lengths = np.stack([np.linalg.norm(np.asarray(a, np.float64), axis=1) for a in states.arrays.values()])
    return pd.DataFrame(
        {
            "layer": list(states.layers),
            "layer_index": np.arange(len(states.layers)),
            "after_final_norm": [layer == FINAL_NORM for layer in states.layers],
            "min": lengths.min(axis=1),
            "mean": lengths.mean(axis=1),
            "median": np.median(lengths, axis=1),
            "max": lengths.max(axis=1),
            "n": lengths.shape[1],
        }
    )
