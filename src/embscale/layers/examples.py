"""Inputs of layer classifiers: which vectors, in which form, and random vectors as controls.

Everything is read in chunks, so memory is bounded by the chunk size, not by the number of texts.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, cast, get_args

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from embscale.errors import EmbscaleError
from embscale.layers.hidden_states import HiddenStates
from embscale.parameters.layers import Input, Split

SPLITS: tuple[str, ...] = get_args(Split)
RAW = "raw"
MEAN_REMOVED = "mean_removed"
INPUTS: tuple[str, ...] = get_args(Input)

# Predictions, written down before the controls were run, of how a linear classifier does on random vectors.  "chance":
# flipping all signs leaves the distribution unchanged, so the likelihood is maximal at zero weights (the loss is
# convex, and W and -W do equally well).  This holds in the limit of infinitely many vectors.  With few vectors per
# dimension the weights are noise, larger for layers with larger norms; this may lift the accuracy above chance, but not
# bring the log loss below that of guessing.  "high": the mean of each layer is kept, and a linear classifier uses
# differences between means.  "norm": positive vectors all lie close to the diagonal, and their position along it is
# their norm, so a linear classifier does about as well as one that sees only the norm.
EXPECTED = {"scalar_norm": "chance", "gaussian": "high", "study_random": "norm"}
NO_CONTROL = "none"

LAYER_NORM_EPSILON = 1e-5  # that of torch.nn.LayerNorm

# Random vectors are drawn in blocks of this size, each with its own seed, so that they do not depend on how many are
# requested at a time.
DRAWN_ROWS = 1024

Prepare = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def raw(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The vectors, unchanged."""
    return features


def norm_only(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Only the norm of each vector, ``[n, 1]``."""
    return np.linalg.norm(features, axis=1, keepdims=True)


@dataclass(frozen=True)
class Examples:
    """Vectors labelled with their layers, read in chunks.

    They are ordered as in ``part``, layer by layer, whatever the chunk size.

    Attributes:
        states: the hidden states to read from.
        part: which vectors of which layers, bool ``[classes, vectors]``.
        chunk: number of vectors read at a time, at every layer.
        prepare: a function of features ``[n, width]``, labels ``[n]`` and vectors ``[n]`` (their indices in `states`)
            that returns the classifier's input, float32 ``[n, columns]``.
    """

    states: HiddenStates
    part: np.ndarray
    chunk: int
    prepare: Prepare = raw

    def __len__(self) -> int:
        return int(self.part.sum())

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Features ``[n, columns]``, labels ``[n]`` and places among all examples ``[n]``."""
        used, counts = np.flatnonzero(self.part.any(axis=0)), self.part.sum(axis=1)
        place = np.cumsum(counts) - counts  # of the next example of each layer
        for start in range(0, len(used), self.chunk):
            vectors = used[start : start + self.chunk]
            chosen = self.part[:, vectors]
            places = (place[:, None] + np.cumsum(chosen, axis=1) - 1)[chosen]
            place += chosen.sum(axis=1)
            labels, columns = np.nonzero(chosen)
            features = self.states.take(self.states.classes, vectors)[chosen]
            yield self.prepare(features, labels, vectors[columns]), labels, places

    @property
    def labels(self) -> np.ndarray:
        """The layer of each example as an index ``[examples]``, in order."""
        return np.nonzero(self.part)[0]

    def whole(self, *, memory_gb: float = math.inf) -> tuple[np.ndarray, np.ndarray]:
        """All features, float32 ``[examples, columns]``, and labels ``[examples]``, in order.

        Args:
            memory_gb: larger features are in a file of the folder for temporary files, mapped into memory; the file
                vanishes with the array, even if the process is killed.
        """
        features = np.empty((len(self), 0), np.float32)
        for block, _, places in self.chunks():
            if not features.size:
                features = _array((len(self), block.shape[1]), memory_gb)
            features[places] = block
        return features, self.labels

    def of_each(self, values: np.ndarray) -> np.ndarray:
        """An attribute of each vector (its text, its position) expanded to every example, in order."""
        return np.broadcast_to(values, self.part.shape)[self.part]


def gigabytes(examples: int, columns: int) -> float:
    """Size of features in float32."""
    return examples * columns * 4 / 1e9


def _array(shape: tuple[int, int], memory_gb: float) -> np.ndarray:
    if gigabytes(*shape) <= memory_gb:
        return np.empty(shape, np.float32)
    return np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=shape)


def check_space(gigabytes: float) -> None:
    """Stop if the folder for temporary files has no room for features that do not fit into memory.

    Raises:
        EmbscaleError: it has not.
    """
    folder = tempfile.gettempdir()
    if gigabytes * 1e9 > (free := shutil.disk_usage(folder).free):
        raise EmbscaleError(
            f"{folder}: {free / 1e9:.1f} GB are free, but {gigabytes:.1f} GB of training vectors that do not fit into "
            "memory are to be written there; set TMPDIR to a larger disk, raise --memory-gb, or take fewer texts"
        )


def train_test_split(
    states: HiddenStates, used: np.ndarray, *, split: str, test_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split vectors into a training set and a test set.

    Args:
        states: their texts and tokens.
        used: which vectors to use, bool ``[vectors]``.
        split: the unit that is never in both sets: a ``text``, a ``token`` type, or a single ``vector``.  Huang et al.
            split by vector, so a token's states at different layers may be in different sets.
        test_fraction: share of texts, types or vectors.
        seed: of the choice.

    Returns:
        Training and test masks, both bool ``[classes, vectors]``.

    Raises:
        EmbscaleError: there is too little data to split, or a layer is missing from one set.
    """
    layers, vectors = len(states.classes), np.flatnonzero(used)
    if split == "vector":
        groups = np.arange(layers * len(vectors))
    else:
        groups = {"text": states.text, "token": states.token}[split][vectors]
    splitter = GroupShuffleSplit(n_splits=1, test_size=test_fraction, random_state=seed)
    try:
        sides = next(splitter.split(groups, groups=groups))
    except ValueError as error:
        raise EmbscaleError(
            f"split by {split}: {len(np.unique(groups))} groups do not divide into {test_fraction:g} to test and the "
            "rest to train; take more texts"
        ) from error
    parts = []
    for name, chosen in zip(("train", "test"), sides, strict=True):
        side = np.zeros((layers, len(vectors)), dtype=bool)
        side.reshape(-1)[chosen] = split == "vector"
        if split != "vector":
            side[:, chosen] = True
        if len(missing := np.flatnonzero(~side.any(axis=1))):
            raise EmbscaleError(f"split by {split}, seed {seed}: {name} has no vector of {states.classes[missing[0]]}")
        part = np.zeros((layers, len(states.text)), dtype=bool)
        part[:, vectors] = side
        parts.append(part)
    return parts[0], parts[1]


def thinned(part: np.ndarray, per_layer: int, *, seed: int) -> np.ndarray:
    """Choose a number of vectors per layer at random; the same ones at every layer if all layers have the same.

    Args:
        part: bool ``[classes, vectors]``.
        per_layer: how many to keep of each layer.
        seed: of the choice.

    Raises:
        EmbscaleError: a layer has fewer.
    """
    if (fewest := int(part.sum(axis=1).min())) < per_layer:
        raise EmbscaleError(f"{per_layer} training vectors a layer are wanted, but a layer has {fewest}")
    turn = np.random.default_rng(seed).permutation(part.shape[1])
    kept = np.zeros_like(part)
    for layer, row in enumerate(part):
        chosen = turn[row[turn]][:per_layer]
        kept[layer, chosen] = True
    return kept


def prepared(name: str, train: Examples) -> Prepare:
    """The function that transforms vectors into the form `name`; statistics are estimated on `train` only.

    ``unit``: norm 1.  ``z_scored``: each dimension with mean 0 and variance 1 over all layers together.
    ``layer_normed``: LayerNorm without its own weights (Ba et al. 2016).  ``mean_removed``: the mean vector of the
    vector's own layer is subtracted.  This uses the labels of test vectors too, so it is a diagnostic, not a usable
    classifier: it shows how well layers can be distinguished once differences between their means are gone.
    """
    if name == "unit":
        return _unit
    if name == "layer_normed":
        return _layer_normed
    if name == "z_scored":
        of_layers = moments(train)
        mean, scale = of_layers.mean.astype(np.float32), of_layers.scale.astype(np.float32)
        return lambda features, labels, vectors: (features - mean) / scale
    if name == MEAN_REMOVED:
        means = layer_means(train).astype(np.float32)
        return lambda features, labels, vectors: features - means[labels]
    return raw


def _unit(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.divide(features, norms, out=np.zeros_like(features), where=norms > 0)


def _layer_normed(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    centred = features - features.mean(axis=1, keepdims=True)
    return centred / np.sqrt(centred.var(axis=1, keepdims=True) + LAYER_NORM_EPSILON)


class Moments(NamedTuple):
    """Sums over examples that closed forms need, all in float64.

    Attributes:
        counts: examples of each layer, ``[classes]``.
        means: of each column at each layer, ``[classes, columns]``.
        variances: likewise, around the layer's mean.
    """

    counts: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Of each column over all examples, ``[columns]``."""
        return np.asarray(self.counts @ self.means / self.counts.sum())

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each column over all examples, ``[columns]``; 1 for a constant column."""
        between = (self.means - self.mean) ** 2
        return divisors(self.counts @ (self.variances + between) / self.counts.sum(), self.mean)


def divisors(variances: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Standard deviations to divide columns by; 1 for columns that are constant up to the precision of a float32."""
    constant = variances <= (np.finfo(np.float32).eps * mean) ** 2
    return np.sqrt(np.where(constant, 1.0, variances))


def layer_means(examples: Examples) -> np.ndarray:
    """Mean of each column at each layer, float64 ``[classes, columns]``."""
    return _layer_sums(examples, lambda block, layer: block.sum(axis=0, dtype=np.float64)) / _counts(examples)[:, None]


def moments(examples: Examples) -> Moments:
    """Means and variances of each layer, in two passes: sums of squares alone lose digits where means are large."""
    means, counts = layer_means(examples), _counts(examples)
    squares = _layer_sums(examples, lambda block, layer: ((block - means[layer]) ** 2).sum(axis=0))
    return Moments(counts, means, squares / counts[:, None])


def _counts(examples: Examples) -> np.ndarray:
    return np.asarray(examples.part.sum(axis=1))


def _layer_sums(examples: Examples, summed: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
    """Sums ``[classes, ...]`` over the examples of each layer, of a function of its features ``[n, columns]``."""
    sums: list[np.ndarray | float] = [0.0 for _ in examples.states.classes]
    for features, labels, _ in examples.chunks():
        for layer in np.unique(labels):
            sums[layer] += summed(features[labels == layer], layer)
    return np.stack(np.broadcast_arrays(*sums))


class Drawn:
    """Random rows in place of an array of hidden states, generated on demand and reproducible."""

    def __init__(self, shape: tuple[int, int], block: Callable[[int], np.ndarray]) -> None:
        """`block(i)` returns the rows from ``DRAWN_ROWS * i`` on, at least as many as remain."""
        self.shape, self.block = shape, block

    def __getitem__(self, vectors: np.ndarray) -> np.ndarray:
        """The rows of some vectors, float32 ``[len(vectors), width]``."""
        rows = np.empty((len(vectors), self.shape[1]), np.float32)
        blocks = vectors // DRAWN_ROWS
        for i in np.unique(blocks):
            here = blocks == i
            rows[here] = self.block(int(i))[vectors[here] % DRAWN_ROWS]
        return rows


def control(states: HiddenStates, used: np.ndarray, name: str, *, seed: int, chunk: int) -> HiddenStates:
    """Random vectors in place of all hidden states; texts, positions and tokens stay.

    ``scalar_norm``: isotropic directions, norms drawn from those of the layer's vectors.  ``study_random``: Huang et
    al.'s own (their code; Fig. 10): every entry uniform from 0 to 1, then scaled to a norm drawn in the same way.
    ``gaussian``: each dimension normal with the mean and variance that it has at the layer.

    Args:
        states: the hidden states to imitate.
        used: the vectors from which norms, means and variances are estimated, bool ``[vectors]``.
        name: of the control.
        seed: of the draws.
        chunk: vectors read at once.
    """
    every = Examples(states, np.broadcast_to(used, (len(states.classes), len(used))), chunk)
    draw = _gaussian(every) if name == "gaussian" else _scaled(every, positive=name == "study_random")
    shape = (len(states.text), states.width)

    def random_vectors(layer: int) -> np.ndarray:
        return cast("np.ndarray", Drawn(shape, lambda i: draw(layer, np.random.default_rng([seed, layer, i]))))

    return replace(states, arrays={name: random_vectors(layer) for layer, name in enumerate(states.classes)})


def _gaussian(every: Examples) -> Callable[[int, np.random.Generator], np.ndarray]:
    _, means, variances = moments(every)
    scales = np.sqrt(variances)
    return lambda layer, generator: generator.normal(means[layer], scales[layer], (DRAWN_ROWS, means.shape[1]))


def _scaled(every: Examples, *, positive: bool) -> Callable[[int, np.random.Generator], np.ndarray]:
    lengths = np.empty(len(every), np.float32)
    for features, _, places in every.chunks():
        lengths[places] = np.linalg.norm(features, axis=1)
    of_layer = lengths.reshape(len(every.part), -1)
    shape = (DRAWN_ROWS, every.states.width)

    def draw(layer: int, generator: np.random.Generator) -> np.ndarray:
        rows = generator.random(shape) if positive else generator.standard_normal(shape)
        length = generator.choice(of_layer[layer], (DRAWN_ROWS, 1))
        scaled: np.ndarray = rows * (length / np.linalg.norm(rows, axis=1, keepdims=True))
        return scaled

    return draw


def load_if_fits(states: HiddenStates, *, memory_gb: float) -> HiddenStates:
    """Load the layers to be classified into memory if they fit; otherwise return the states unchanged."""
    vectors = np.arange(len(states.text))
    if gigabytes(len(states.classes) * len(vectors), states.width) > memory_gb:
        return states
    return replace(states, arrays={layer: states.take([layer], vectors)[0] for layer in states.classes})


def mask_from(states: HiddenStates, *, first_position: int) -> np.ndarray:
    """Mask of the vectors from `first_position` on, bool ``[vectors]``.

    Raises:
        EmbscaleError: there are none.
    """
    used: np.ndarray = states.position >= first_position
    if not used.any():
        raise EmbscaleError(
            f"first position {first_position}: the states end at position {int(states.position.max())}; nothing is left"
        )
    return used
