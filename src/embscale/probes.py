"""Which layer does a vector come from?  A linear classifier, honest splits, intervals over texts.

Huang et al., Fig. 5 and 6, with the split by text instead of by vector and a classifier that is
fitted until it converges.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from embscale.errors import EmbscaleError
from embscale.hidden_states import HiddenStates
from embscale.statistics import bootstrap_means, percentile_interval

CLASSIFIER = "logistic_regression"
INPUT = "raw"
ITERATIONS = 2000
SPLITS = ("text", "token", "vector")
COLUMNS = [
    "suite",
    "model",
    "step",
    "classifier",
    "split",
    "input",
    "seed",
    "layer",
    "metric",
    "value",
    "ci_low",
    "ci_high",
    "n",
    "n_train",
    "n_layers",
    "converged",
]


@dataclass(frozen=True)
class Fit:
    """Predictions of one classifier on the vectors that it was not fitted on.

    Attributes:
        true, predicted: layer of each tested vector, as an index.
        text: the text it comes from.
        n_train: vectors that the classifier was fitted on.
        converged: whether the optimiser stopped by itself.
    """

    true: np.ndarray
    predicted: np.ndarray
    text: np.ndarray
    n_train: int
    converged: bool


def groups(states: HiddenStates, split: str) -> np.ndarray:
    """What must lie on one side of a split: the text, the token type, or each vector by itself.

    Returns:
        A group for each of ``[layers x vectors]``, layer by layer.
    """
    layers, vectors = len(states.classes), len(states.text)
    if split == "vector":  # the study's own: a token's states at other layers may lie on the other side
        return np.arange(layers * vectors)
    return np.tile({"text": states.text, "token": states.token}[split], layers)


def fit(states: HiddenStates, *, split: str, test_fraction: float, seed: int, inverse_regularisation: float) -> Fit:
    """Fit a multinomial logistic regression on standardised vectors and test it on the rest.

    Raises:
        EmbscaleError: a layer is missing on one side of the split.
    """
    layers, vectors = len(states.classes), len(states.text)
    features = states.take(states.classes, np.arange(vectors)).reshape(layers * vectors, -1)
    labels = np.repeat(np.arange(layers), vectors)
    splitter = GroupShuffleSplit(n_splits=1, test_size=test_fraction, random_state=seed)
    train, test = next(splitter.split(features, labels, groups(states, split)))
    for side, part in (("train", train), ("test", test)):
        missing = set(range(layers)) - set(labels[part])
        if missing:
            raise EmbscaleError(
                f"split by {split}, seed {seed}: {side} has no vector of {states.classes[min(missing)]}"
            )
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=inverse_regularisation, max_iter=ITERATIONS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        classifier.fit(features[train], labels[train])
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    predicted = classifier.predict(features[test])
    return Fit(labels[test], predicted, np.tile(states.text, layers)[test], len(train), converged)


def rows(
    fits: Sequence[Fit], seeds: Sequence[int], layers: Sequence[str], *, resamples: int, seed: int
) -> pd.DataFrame:
    """Tidy rows: each split by itself, and all together as seed ``all``.

    The value of ``all`` is the mean over all tested vectors of all splits, so ``n`` counts a vector once for each
    split in which it was tested.  Its interval resamples texts, each with all its tests: many splits do not make
    it narrower than the texts allow.  ``n_train`` is that of the first split.

    Args:
        fits: one per seed.
        seeds: of the splits.
        layers: names of the layers.
        resamples: bootstrap resamples of the texts.
        seed: of the resamples.

    Returns:
        The columns of `COLUMNS` from ``seed`` on; ``layer`` is empty where all layers are meant.
    """
    made = []
    for name, members in [*((str(s), [f]) for s, f in zip(seeds, fits, strict=True)), ("all", list(fits))]:
        shared = {
            "seed": name,
            "n_train": members[0].n_train,
            "n_layers": len(layers),
            "converged": all(f.converged for f in members),
        }
        for row in _metric_rows(members, layers, resamples=resamples, seed=seed):
            made.append(shared | row)
    return pd.DataFrame(made)


def confusion(fits: Sequence[Fit], layers: Sequence[str]) -> pd.DataFrame:
    """How often a vector of one layer was taken for another, all splits together."""
    counts = sum(
        np.bincount(f.true * len(layers) + f.predicted, minlength=len(layers) ** 2).reshape(len(layers), -1)
        for f in fits
    )
    table = pd.DataFrame(counts, index=list(layers), columns=list(layers)).rename_axis("true_layer").reset_index()
    return table.melt("true_layer", var_name="predicted_layer", value_name="count")


def _metric_rows(fits: Sequence[Fit], layers: Sequence[str], *, resamples: int, seed: int) -> Iterator[dict[str, Any]]:
    true, predicted, text = (np.concatenate([getattr(f, part) for f in fits]) for part in ("true", "predicted", "text"))
    chance = 1 / len(layers)
    correct = (true == predicted).astype(float)
    error = np.abs(true - predicted)
    per_vector = {
        "accuracy": correct,
        "chance_corrected_accuracy": (correct - chance) / (1 - chance),
        "mean_absolute_layer_error": error.astype(float),
        "within_one_accuracy": (error <= 1).astype(float),
    }
    yield {"layer": None, "metric": "chance", "value": chance, "ci_low": chance, "ci_high": chance, "n": len(true)}
    yield from _intervals(per_vector, text, None, resamples, seed)
    for index, layer in enumerate(layers):
        of_layer = true == index
        yield from _intervals({"recall": correct[of_layer]}, text[of_layer], layer, resamples, seed)


def _intervals(
    per_vector: dict[str, np.ndarray], text: np.ndarray, layer: str | None, resamples: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Means over vectors with intervals over texts: a ratio of two resampled sums, since texts differ in vectors."""
    _, group, size = np.unique(text, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(group, weights=values) for values in per_vector.values()] + [size], axis=1)
    means = bootstrap_means(sums, resamples=resamples, seed=seed)
    low, high = percentile_interval(means[:, :-1] / means[:, -1:])
    for i, (metric, values) in enumerate(per_vector.items()):
        yield {
            "layer": layer,
            "metric": metric,
            "value": values.mean(),
            "ci_low": low[i],
            "ci_high": high[i],
            "n": len(values),
        }
