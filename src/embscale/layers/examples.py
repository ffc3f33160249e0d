"""What a layer classifier is shown: which vectors, in which form, and random ones in their place.

Everything is read by chunks of vectors, so that memory is bounded by the chunk, not by the number of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast, get_args

import numpy as np
from sklearn.model_selection import GroupShuffleSplit
from sklearn.preprocessing import StandardScaler

from embscale.errors import EmbscaleError
from embscale.layers.hidden_states import HiddenStates
from embscale.parameters.layers import Input, Split

SPLITS: tuple[str, ...] = get_args(Split)
RAW = "raw"
MEAN_REMOVED = "mean_removed"
INPUTS: tuple[str, ...] = get_args(Input)

# Written down before the controls were run (I-42): what a linear classifier makes of random vectors.
# "chance": their distribution does not change when all signs are turned, and then the likelihood is highest with all
# weights zero (the loss is convex, and W and -W do equally well).  That holds for endlessly many vectors; with few for
# each dimension the weights are noise, larger for layers of longer vectors, which may lift the accuracy above chance
# but not the log loss below that of guessing.
# "high": the mean of each layer is kept, and mean shifts are what a linear classifier reads.
# "norm": positive vectors all lie about one diagonal, and their place along it is their length, so that such a
# classifier does about as well as one that is given the length alone.
EXPECTED = {"scalar_norm": "chance", "gaussian": "high", "study_random": "norm"}
NO_CONTROL = "none"

LAYER_NORM_EPSILON = 1e-5  # that of torch.nn.LayerNorm

# Random vectors are drawn in blocks of this many, each with a seed of its own, so that they do not depend on how many
# are asked for at once.
DRAWN_ROWS = 1024

Prepare = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def raw(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The vectors as they are."""
    return features


def norm_only(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The length of each vector and nothing else, ``[n, 1]``."""
    return np.linalg.norm(features, axis=1, keepdims=True)


@dataclass(frozen=True)
class Examples:
    """Vectors with the layer that each is of, read by chunks.

    Their order is that of ``part``: layer by layer, whatever the chunk.

    Attributes:
        states: where they are read from.
        part: which they are, bool ``[classes, vectors]``.
        chunk: vectors that are read at once, at every layer.
        prepare: a function of features ``[n, width]``, labels ``[n]`` and vectors ``[n]`` (their place in `states`)
            that gives what the classifier sees, float32 ``[n, columns]``.
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

    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """All features ``[examples, columns]`` and labels ``[examples]``, in order."""
        features, labels = np.empty(0, np.float32), np.empty(len(self), np.int64)
        for block, layers, places in self.chunks():
            if features.ndim == 1:
                features = np.empty((len(self), block.shape[1]), np.float32)
            features[places], labels[places] = block, layers
        return features, labels

    def of_each(self, values: np.ndarray) -> np.ndarray:
        """What is known of each vector (its text, its position), for each example in order."""
        return np.broadcast_to(values, self.part.shape)[self.part]


def train_test_split(
    states: HiddenStates, used: np.ndarray, *, split: str, test_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Divide vectors into those to train on and those to test on.

    Args:
        states: their texts and tokens.
        used: which vectors take part at all, bool ``[vectors]``.
        split: what is never on both sides: a ``text``, a type of ``token``, or only the very ``vector``.  The last is
            the study's own; the same token's states at other layers may then lie on the other side.
        test_fraction: share of texts, types or vectors.
        seed: of the choice.

    Returns:
        Two bool ``[classes, vectors]``.

    Raises:
        EmbscaleError: there is too little to divide, or a layer is missing on one side.
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
    """So many vectors of each layer, chosen at random; the same at every layer where all layers have the same.

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
    """How to bring vectors into the form `name`; what has to be estimated is estimated on `train` alone.

    ``unit``: length one.  ``z_scored``: each dimension with mean 0 and variance 1 over all layers together.
    ``layer_normed``: LayerNorm without its own weights (Ba et al. 2016).  ``mean_removed``: without the mean vector
    of the layer that the vector is of.  That uses the label of a tested vector too, so it is no classifier to use but
    an experiment: what is left to tell layers by when the shifts of their means are gone.
    """
    if name == "unit":
        return _unit
    if name == "layer_normed":
        return _layer_normed
    if name == "z_scored":
        scaler = standardiser(train)
        mean, scale = scaler.mean_.astype(np.float32), scaler.scale_.astype(np.float32)
        return lambda features, labels, vectors: (features - mean) / scale
    if name == MEAN_REMOVED:
        means = _moments(train)[0].astype(np.float32)
        return lambda features, labels, vectors: features - means[labels]
    return raw


def _unit(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.divide(features, norms, out=np.zeros_like(features), where=norms > 0)


def _layer_normed(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    centred = features - features.mean(axis=1, keepdims=True)
    return centred / np.sqrt(centred.var(axis=1, keepdims=True) + LAYER_NORM_EPSILON)


def standardiser(train: Examples) -> StandardScaler:
    """Mean and standard deviation of each column over all layers."""
    scaler = StandardScaler()
    for features, _, _ in train.chunks():
        scaler.partial_fit(features)
    return scaler


def _moments(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each dimension at each layer, ``[classes, width]``."""
    scalers = [StandardScaler() for _ in examples.states.classes]
    for features, labels, _ in examples.chunks():
        for layer in np.unique(labels):
            scalers[layer].partial_fit(features[labels == layer])
    return np.stack([s.mean_ for s in scalers]), np.stack([np.sqrt(s.var_) for s in scalers])


class Drawn:
    """Random rows in place of an array of hidden states, made when they are asked for and always the same."""

    def __init__(self, shape: tuple[int, int], block: Callable[[int], np.ndarray]) -> None:
        """`block` gives the rows from ``DRAWN_ROWS * i`` on, at least as many as there are."""
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

    ``scalar_norm``: directions without any preference, lengths drawn from those of the layer's vectors.
    ``study_random``: Huang et al.'s own (their code; Fig. 10): every entry uniform from 0 to 1, then scaled to a length
    drawn in the same way.  ``gaussian``: each dimension normal with the mean and variance that it has at the layer.

    Args:
        states: what to imitate.
        used: the vectors whose lengths, means and variances count, bool ``[vectors]``.
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
    means, deviations = _moments(every)
    return lambda layer, generator: generator.normal(means[layer], deviations[layer], (DRAWN_ROWS, means.shape[1]))


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
    """The same states with the layers to be told apart in memory, if they fit; as they are otherwise."""
    vectors = np.arange(len(states.text))
    if len(states.classes) * len(vectors) * states.width * 4 > memory_gb * 1e9:
        return states
    return replace(states, arrays={layer: states.take([layer], vectors)[0] for layer in states.classes})


def mask_from(states: HiddenStates, *, first_position: int) -> np.ndarray:
    """Which vectors take part, bool ``[vectors]``: those from `first_position` on.

    Raises:
        EmbscaleError: none does.
    """
    used: np.ndarray = states.position >= first_position
    if not used.any():
        raise EmbscaleError(
            f"first position {first_position}: the states end at position {int(states.position.max())}; nothing is left"
        )
    return used
