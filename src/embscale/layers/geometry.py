"""Geometry of hidden states: norms, subspaces, neighbours, and distances between layer means.

Huang et al. plot norms by layer (inset of Fig. 2), observe that layers drift and sometimes close into a ring (Fig. 3
and 4), and conclude that layers are different subspaces.  Here each observation becomes a number with an interval over
texts and a chance level.  `embscale.layers.reductions` makes the corresponding pictures.

*raw* means unscaled vectors and *unit* vectors of norm 1.  Vectors are read in chunks; each function documents how much
memory it needs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg
from sklearn.neighbors import NearestNeighbors

from embscale.errors import EmbscaleError
from embscale.layers.hidden_states import HiddenStates
from embscale.layers.names import AFTER_FIRST, ALL, FINAL_NORM
from embscale.statistics import jackknife, spectra
from embscale.statistics.resampling import bootstrap_means, percentile_interval
from embscale.statistics.vectors import RAW, SCALINGS, UNIT, chunks, or_one, scaled

# Norms are compared in this many bins with equal numbers of vectors.
BINS = 20
# Pairs of random subspaces for the angles expected by chance.
RANDOM_PAIRS = 100
LEFT_OUT = -1  # the group of vectors that are not used

JACKKNIFE, BOOTSTRAP = "texts (jackknife)", "texts (bootstrap)"

NORMS = [
    "positions", "layer", "layer_index", "after_final_norm", "min", "mean", "mean_low", "mean_high", "median", "max",
    "n", "growth", "growth_low", "growth_high",
]  # fmt: skip
COLUMNS = [
    "quantity", "scaling", "positions", "layer_a", "layer_b", "value", "ci_low", "ci_high", "n", "reference",
    "interval_over", "reason",
]  # fmt: skip


def measured(states: HiddenStates) -> tuple[str, ...]:
    """The layers of the same width as the classes; a narrower table (opt-350m) is in a different space."""
    return tuple(layer for layer in states.layers if states.arrays[layer].shape[1] == states.width)


def sequences(states: HiddenStates) -> list[tuple[str, ...]]:
    """The layers in order, ending with the last block; then the same with the final norm's output in its place.

    The `hidden_states` of transformers end with the final norm's output, so most published plots show it.
    """
    lists = [states.classes]
    if FINAL_NORM in measured(states):
        lists.append((*states.classes[:-1], FINAL_NORM))
    return lists


def indices_from(states: HiddenStates, *, first_position: int) -> np.ndarray:
    """Indices of the vectors of this and later positions.

    Raises:
        EmbscaleError: there are none.
    """
    used = np.flatnonzero(states.position >= first_position)
    if not len(used):
        raise EmbscaleError(
            f"first position {first_position}: the last that the states hold is {states.position.max()}"
        )
    return used


# Norms


def lengths(states: HiddenStates) -> np.ndarray:
    """Norm of every vector at every layer, float64 ``[layers, vectors]``, all in memory."""
    norms_of_layers = np.empty((len(states.layers), len(states.text)))
    for row, layer in zip(norms_of_layers, states.layers, strict=True):
        for part in chunks(len(states.text)):
            row[part] = np.linalg.norm(np.asarray(states.arrays[layer][part], np.float64), axis=1)
    return norms_of_layers


def position_sets(states: HiddenStates) -> dict[str, np.ndarray]:
    """Masks of all vectors (if the first position was kept) and of all but the first position.

    In many models the norms at the first position are many times larger than elsewhere, whatever the token.
    """
    first = states.position == 0
    return ({ALL: np.ones(len(first), bool)} if first.any() else {}) | ({AFTER_FIRST: ~first} if (~first).any() else {})


def norms(states: HiddenStates, *, resamples: int, seed: int) -> pd.DataFrame:
    """Norms of the vectors of each layer, and the factor by which the mean norm grows from block to block.

    The factor is fitted to the logarithm of the mean norms of the blocks' outputs (Heimersheim and Turner 2023 find
    1.045 in GPT-2 XL, without the first position).

    Args:
        states: any.
        resamples: bootstrap resamples of the texts.
        seed: of the resamples.

    Returns:
        Columns `NORMS`: a row for each layer and set of positions; ``growth`` is the same in all rows of a set, and
        empty where there are fewer than two blocks.
    """
    every = lengths(states)
    blocks = _blocks(states.layers)
    frames = []
    for positions, mask in position_sets(states).items():
        selected = every[:, mask]
        means = _resampled(selected, states.text[mask], resamples, seed)
        low, high = percentile_interval(means[1:])
        growth = np.exp(_slope(np.log(means[:, blocks])))
        growth_low, growth_high = percentile_interval(growth[1:])
        frame = {
            "positions": positions,
            "layer": list(states.layers),
            "layer_index": np.arange(len(states.layers)),
            "after_final_norm": [layer == FINAL_NORM for layer in states.layers],
            "min": selected.min(axis=1),
            "mean": means[0],
            "mean_low": low,
            "mean_high": high,
            "median": np.median(selected, axis=1),
            "max": selected.max(axis=1),
            "n": selected.shape[1],
            "growth": growth[0],
            "growth_low": growth_low,
            "growth_high": growth_high,
        }
        frames.append(pd.DataFrame(frame)[NORMS])
    return pd.concat(frames, ignore_index=True)


def norm_structure(states: HiddenStates, *, resamples: int, seed: int) -> pd.DataFrame:
    """How norms change over the layers, and how far those of neighbouring layers overlap.

    Quantities, all of raw vectors, with intervals from a bootstrap over texts:

    - ``growth_rate``: growth factor of the mean norm per block, as in `norms`.
    - ``exponential_less_linear``: squared correlation of block number with the logarithm of the mean norm, minus that
      with the mean norm itself; positive if growth is exponential rather than linear.  Needs three blocks.
    - ``last_length_ratio``: mean norm at the last layer divided by that at the layer before.
    - ``norm_overlap``: overlap of the norm distributions of two neighbouring layers, from 0 to 1 (Weitzman's overlap
      coefficient), in bins with equal numbers of vectors of both.

    Returns:
        Columns `COLUMNS`.
    """
    every = dict(zip(states.layers, lengths(states), strict=True))
    blocks = [states.layers[i] for i in _blocks(states.layers)]
    rows = []
    sets = position_sets(states)
    if ALL not in sets:
        reason = "the states were stored without the first position"
        rows.append(_missing("growth_rate", reason, blocks[0], blocks[-1], scaling=RAW, positions=ALL))
    for positions, mask in sets.items():
        means = functools.partial(_resampled, text=states.text[mask], resamples=resamples, seed=seed)
        row = functools.partial(_bootstrapped, n=int(mask.sum()), positions=positions)
        of_blocks = means(np.stack([every[layer][mask] for layer in blocks]))
        ends = (blocks[0], blocks[-1])
        if len(blocks) > 1:
            rows.append(row("growth_rate", ends, np.exp(_slope(np.log(of_blocks))), reference=1.0))
        if len(blocks) > 2:
            better = _squared_correlation(np.log(of_blocks)) - _squared_correlation(of_blocks)
            rows.append(row("exponential_less_linear", ends, better, reference=0.0))
        for sequence in sequences(states):
            before, last = sequence[-2:]
            pair = means(np.stack([every[before][mask], every[last][mask]]))
            rows.append(row("last_length_ratio", (before, last), pair[:, 1] / pair[:, 0], reference=1.0))
        for a, b in itertools.pairwise(states.classes):
            shares = means(_in_bins(every[a][mask], every[b][mask])).reshape(-1, 2, BINS)
            rows.append(row("norm_overlap", (a, b), shares.min(axis=1).sum(axis=1), reference=1.0))
    return pd.DataFrame(rows, columns=COLUMNS)


def _blocks(layers: Sequence[str]) -> list[int]:
    return [i for i, layer in enumerate(layers) if layer.startswith("block ") and layer[6:].isdecimal()]


def _slope(values: np.ndarray) -> np.ndarray:
    """Least-squares slope of ``[..., places]`` against 0, 1, 2 ...; NaN for a single place."""
    x = np.arange(values.shape[-1]) - (values.shape[-1] - 1) / 2
    return values @ x / (x @ x) if len(x) > 1 else np.full(values.shape[:-1], np.nan)


def _squared_correlation(values: np.ndarray) -> np.ndarray:
    """Squared correlation of ``[..., places]`` with 0, 1, 2 ..."""
    x = np.arange(values.shape[-1]) - (values.shape[-1] - 1) / 2
    centred = values - values.mean(axis=-1, keepdims=True)
    return (centred @ x) ** 2 / (x @ x) / np.square(centred).sum(axis=-1)


def _in_bins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One-hot bins of each norm, ``[2 x bins, vectors]``: first those of `a`, then those of `b`."""
    edges = np.quantile(np.concatenate([a, b]), np.linspace(0, 1, BINS + 1)[1:-1])
    bins = np.arange(BINS)[:, None]
    return np.concatenate([np.searchsorted(edges, values)[None] == bins for values in (a, b)]).astype(np.float64)


def _resampled(values: np.ndarray, text: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Means of ``[columns, vectors]`` over all texts and over resampled texts, ``[1 + resamples, columns]``."""
    _, group, size = np.unique(text, return_inverse=True, return_counts=True)
    sums = np.stack([*(np.bincount(group, weights=column) for column in values), size], axis=1)
    drawn = bootstrap_means(sums, resamples=resamples, seed=seed)
    return np.vstack([values.mean(axis=1), drawn[:, :-1] / drawn[:, -1:]])


# Structure


def structure(
    states: HiddenStates,
    *,
    first_position: int,
    vectors: int,
    groups: int,
    dimensions: int,
    neighbours: int,
    seed: int,
) -> pd.DataFrame:
    """Spread of the vectors of each layer, and relations between layers.

    Intervals are from `embscale.statistics.jackknife`.  For each scaling, of one layer (``layer_a``):

    - ``effective_rank``, ``participation_ratio``: of the centred vectors, as in `embscale.statistics.spectra`; the
      reference is the value for the same number of independent isotropic vectors.
    - ``mean_share``: squared norm of the mean vector divided by the mean squared norm.
    - ``mean_cosine``: mean cosine over all pairs of different vectors of the layer (unit only).

    of two layers:

    - ``principal_angle_smallest``, ``principal_angle_mean`` in degrees, and ``subspace_overlap``, the mean squared
      cosine (1 for equal subspaces), between the subspaces of largest variance.  If both layers are the same, between
      those of two halves of its texts, which shows the effect of sampling.  The reference is the value for random
      subspaces.
    - ``linear_cka``: Kornblith et al. 2019, eq. 3 to 5; the reference is its mean when tokens are paired at random.
      ``linear_cka_debiased`` is the same with the unbiased estimate of HSIC (Song et al. 2012, eq. 5); chance is 0.
    - ``neighbour_retention``: share of a vector's nearest neighbours by cosine that are its neighbours at the other
      layer too; of vectors of different tokens, since equal rows of the table are each other's neighbours by
      definition (unit only).
    - ``cosine_of_means``, ``distance_of_means``.
    - ``mean_shift_share``: share of the variance over both layers that is explained by their means.

    of all classes together, from ``layer_a`` to ``layer_b``:

    - ``mean_shift_share_of_all``: the same over all classes.

    and, once more with the final norm's output in the place of the last block's:

    - ``order_of_layers``: correlation, over pairs of layers, of their distance in the model with the distance of their
      means.
    - ``largest_step_ratio``: largest distance of neighbouring layers' means over the mean one.
    - ``last_step_ratio``: the last such distance over the mean of the others.
    - ``closing_distance``: distance of the last layer's mean from the first's, divided by the mean step between
      neighbours: 1 if the layers form a ring; the number of steps (the reference) if they lie on a line.
    - ``return``: 1 less that distance over the largest distance of any layer from the first: 0 if the last layer is the
      farthest, towards 1 if the path leads back.
    - ``closing_distance_2d``, ``return_2d``: the same on the first two principal components, as in the pictures.

    Args:
        states: any; layers of another width than the classes are left out.
        first_position: vectors of earlier positions are left out.
        vectors: number of vectors, the same at each layer, for pairwise comparisons and for the principal components of
            all layers.  Needs ``layers x vectors² x 4`` and ``layers x vectors x width x 8`` bytes of memory.
        groups: of texts, for the jackknife.  Needs memory for ``layers x groups x width`` numbers.
        dimensions: of the subspaces of largest variance.
        neighbours: of each vector.
        seed: of the choice of vectors and groups, and of random subspaces.

    Returns:
        Columns `COLUMNS`.

    Raises:
        EmbscaleError: there are fewer vectors or dimensions than asked for, or only one text.
    """
    if dimensions >= states.width:
        raise EmbscaleError(
            f"{dimensions} dimensions: vectors have {states.width}, so a subspace is nearly all of them"
        )
    used = indices_from(states, first_position=first_position)
    group = np.full(len(states.text), LEFT_OUT)
    group[used] = jackknife.text_groups(states.text[used], groups=groups, seed=seed)
    generator = np.random.default_rng(seed)
    order = generator.permutation(used)
    sample = np.sort(order[:vectors])
    _, firsts = np.unique(states.token[order], return_index=True)
    different = np.sort(order[np.sort(firsts)][:vectors])
    if len(different) <= neighbours:
        raise EmbscaleError(f"{len(different)} different tokens have no {neighbours} neighbours each; take more texts")
    rows: list[dict[str, Any]] = []
    for scaling in SCALINGS:
        moments = _moments(states, group, scaling)
        rows += _of_means(states, moments)
        rows += _of_classes(states, moments, sample, group)
        rows += _of_spread(states, moments, group, dimensions, generator)
        rows += _of_kernels(states, sample, group, scaling)
    rows += _of_neighbours(states, different, group, neighbours)
    return pd.DataFrame(rows, columns=COLUMNS)


@dataclass(frozen=True)
class _Moments:
    """Moments over all texts, and over all but each group of texts.

    Attributes:
        scaling: of the vectors.
        layers: `measured` ones.
        count: vectors, ``[1 + groups]``.
        means: of each layer, ``[1 + groups, layers, width]``.
        squares: mean squared norm, ``[1 + groups, layers]``.
    """

    scaling: str
    layers: tuple[str, ...]
    count: np.ndarray
    means: np.ndarray
    squares: np.ndarray

    def of(self, layers: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Means and squares of some layers."""
        chosen = [self.layers.index(layer) for layer in layers]
        return self.means[:, chosen], self.squares[:, chosen]

    @property
    def n(self) -> int:
        """Vectors of each layer."""
        return int(self.count[0])


def _moments(states: HiddenStates, group: np.ndarray, scaling: str) -> _Moments:
    layers = measured(states)
    groups = int(group.max()) + 1
    sums = np.zeros((groups, len(layers), states.width))
    squares = np.zeros((groups, len(layers)))
    for number, layer in enumerate(layers):
        for part in chunks(len(group)):
            values = scaled(states.arrays[layer][part], scaling)
            member = group[part] == np.arange(groups)[:, None]
            sums[:, number] += member.astype(np.float64) @ values
            squares[:, number] += member @ np.square(values).sum(axis=1)
    count = jackknife.left_out(np.bincount(group[group != LEFT_OUT], minlength=groups)).astype(np.float64)
    return _Moments(
        scaling,
        layers,
        count,
        jackknife.left_out(sums) / count[:, None, None],
        jackknife.left_out(squares) / count[:, None],
    )


def _of_means(states: HiddenStates, moments: _Moments) -> Iterator[dict[str, Any]]:
    """Quantities of each layer's mean, and of pairs of means."""
    row = functools.partial(_jackknifed, n=moments.n, scaling=moments.scaling)
    lengths_of_means = np.square(moments.means).sum(axis=-1)
    for i, a in enumerate(moments.layers):
        yield row("mean_share", (a, ""), lengths_of_means[:, i] / moments.squares[:, i])
        if moments.scaling == UNIT:
            n = moments.count
            yield row("mean_cosine", (a, ""), (n * lengths_of_means[:, i] - 1) / (n - 1), reference=0.0)
    for i, j in itertools.combinations(range(len(moments.layers)), 2):
        pair = moments.layers[i], moments.layers[j]
        product = (moments.means[:, i] * moments.means[:, j]).sum(axis=-1)
        cosine = product / or_one(np.sqrt(lengths_of_means[:, i] * lengths_of_means[:, j]))
        yield row("cosine_of_means", pair, cosine, reference=0.0)
        yield row("distance_of_means", pair, np.linalg.norm(moments.means[:, i] - moments.means[:, j], axis=-1))
        yield row("mean_shift_share", pair, *_mean_shift(moments, pair))
    ends = states.classes[0], states.classes[-1]
    if len(states.classes) > 2:
        yield row("mean_shift_share_of_all", ends, *_mean_shift(moments, states.classes))


def _mean_shift(moments: _Moments, layers: Sequence[str]) -> tuple[np.ndarray, float]:
    """Variance between the means divided by the total variance, and its expectation if all means are equal."""
    means, squares = moments.of(layers)
    centre = means.mean(axis=1, keepdims=True)
    between = np.square(means - centre).sum(axis=-1).mean(axis=1)
    total = squares.mean(axis=1) - np.square(centre[:, 0]).sum(axis=-1)
    return between / total, (len(layers) - 1) / (len(layers) * moments.n - 1)


def _of_classes(
    states: HiddenStates, moments: _Moments, sample: np.ndarray, group: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Quantities of the path of the means from the first layer to the last."""
    for sequence in sequences(states):
        ends = sequence[0], sequence[-1]
        row = functools.partial(_jackknifed, layers=ends, scaling=moments.scaling)
        if len(sequence) < 3:
            reason = "a way from layer to layer needs three layers"
            yield _missing("order_of_layers", reason, *ends, scaling=moments.scaling)
            continue
        means, _ = moments.of(sequence)
        steps = np.linalg.norm(np.diff(means, axis=1), axis=-1)
        yield row("order_of_layers", values=order_of_layers(means), n=moments.n, reference=0.0)
        yield row("largest_step_ratio", values=steps.max(axis=1) / steps.mean(axis=1), n=moments.n, reference=1.0)
        last = steps[:, -1] / steps[:, :-1].mean(axis=1)
        yield row("last_step_ratio", values=last, n=moments.n, reference=1.0)
        projected = _two_dimensions(states, sequence, sample, group[sample], moments.scaling)
        for suffix, centres, n in (("", means, moments.n), ("_2d", projected, len(sample))):
            closing, back = _ring(centres)
            yield row(f"closing_distance{suffix}", values=closing, n=n, reference=float(len(sequence) - 1))
            yield row(f"return{suffix}", values=back, n=n, reference=0.0)


def order_of_layers(centres: np.ndarray) -> np.ndarray:
    """Correlation of layers' distances in the model and in space; 1 if the layers are equally spaced on a line.

    Args:
        centres: ``[..., layers, dims]``, in the order of the model.

    Returns:
        ``[...]``, over all pairs of layers; NaN if all distances are equal.
    """
    first, second = np.triu_indices(centres.shape[-2], 1)
    apart = np.linalg.norm(centres[..., first, :] - centres[..., second, :], axis=-1)
    x, y = (second - first) - (second - first).mean(), apart - apart.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return y @ x / np.sqrt((x @ x) * np.square(y).sum(axis=-1))


def _ring(centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Closing distance and return of layers' means ``[1 + groups, layers, dims]``."""
    steps = np.linalg.norm(np.diff(centres, axis=1), axis=-1)
    from_first = np.linalg.norm(centres[:, 1:] - centres[:, :1], axis=-1)
    return from_first[:, -1] / steps.mean(axis=1), 1 - from_first[:, -1] / from_first.max(axis=1)


def _two_dimensions(
    states: HiddenStates, sequence: Sequence[str], sample: np.ndarray, group: np.ndarray, scaling: str
) -> np.ndarray:
    """Layers' means on the first two principal components of all layers together, ``[1 + groups, layers, 2]``.

    The components are recomputed without each group of texts.
    """
    values = scaled(states.take(sequence, sample), scaling)
    projected = []
    for without in range(-1, int(group.max()) + 1):
        kept = values[:, group != without]
        flat = kept.reshape(-1, kept.shape[-1])
        width = flat.shape[1]
        _, axes = linalg.eigh(np.cov(flat.T, bias=True), subset_by_index=(width - 2, width - 1))
        projected.append((kept.mean(axis=1) - flat.mean(axis=0)) @ axes)
    return np.stack(projected)


def _leading(covariance: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, the largest first, and the first few eigenvectors ``[width, count]``."""
    values, directions = linalg.eigh(covariance)
    return values[::-1], directions[:, ::-1][:, :count]


def _of_spread(
    states: HiddenStates, moments: _Moments, group: np.ndarray, dimensions: int, generator: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Eigenvalues of each layer's covariance, and the angles of the layers' leading subspaces."""
    row = functools.partial(_jackknifed, n=moments.n, scaling=moments.scaling)
    chance = spectra.isotropic(moments.n, states.width)
    random = _angles_of_random(states.width, dimensions, generator)
    bases, halves = [], []
    for number, layer in enumerate(moments.layers):
        values, axes, of_halves = _spectrum(states, moments, number, group, dimensions)
        for measure in (spectra.effective_rank, spectra.participation_ratio):
            yield row(measure.__name__, (layer, ""), measure(values), reference=chance[measure.__name__])
        bases.append(axes)
        halves.append(of_halves)
    for i, j in itertools.combinations_with_replacement(range(len(moments.layers)), 2):
        pair = moments.layers[i], moments.layers[j]
        if i == j:  # sampling noise; no interval, since there are only two halves
            angles = linalg.subspace_angles(*halves[i])[None]
        else:
            angles = np.stack([linalg.subspace_angles(a, b) for a, b in zip(bases[i], bases[j], strict=True)])
        for quantity, measure in ANGLES.items():
            yield row(quantity, pair, measure(angles), reference=measure(random).mean())


ANGLES = {
    "principal_angle_smallest": lambda angles: np.degrees(angles.min(axis=-1)),
    "principal_angle_mean": lambda angles: np.degrees(angles.mean(axis=-1)),
    "subspace_overlap": lambda angles: np.square(np.cos(angles)).mean(axis=-1),
}


def _spectrum(
    states: HiddenStates, moments: _Moments, number: int, group: np.ndarray, dimensions: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues ``[1 + groups, width]`` and leading subspaces ``[1 + groups, width, dimensions]`` of a layer.

    Last, the leading subspaces of the even and of the odd groups, ``[2, width, dimensions]``.  A few covariances are in
    memory at a time; the vectors are read twice.
    """
    layer, groups = moments.layers[number], len(moments.count) - 1

    def products(chosen: np.ndarray) -> np.ndarray:
        sums = np.zeros((states.width, states.width))
        for part in chunks(len(chosen)):
            values = scaled(states.arrays[layer][chosen[part]], moments.scaling)
            sums += values.T @ values
        return sums

    def decomposed(summed: np.ndarray, count: float, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _leading(summed / count - np.outer(mean, mean), dimensions)

    whole, odd = products(np.flatnonzero(group != LEFT_OUT)), np.zeros((states.width, states.width))
    spectra = [decomposed(whole, moments.count[0], moments.means[0, number])]
    for without in range(groups):
        of_group = products(np.flatnonzero(group == without))
        odd += of_group * (without % 2)
        spectra.append(decomposed(whole - of_group, moments.count[without + 1], moments.means[without + 1, number]))
    sums = moments.count[:, None] * moments.means[:, number]
    of_groups, counts = sums[0] - sums[1:], moments.count[0] - moments.count[1:]
    halves = [
        decomposed(summed, counts[side::2].sum(), of_groups[side::2].sum(axis=0) / counts[side::2].sum())[1]
        for side, summed in ((0, whole - odd), (1, odd))
    ]
    values, axes = zip(*spectra, strict=True)
    return np.stack(values), np.stack(axes), np.stack(halves)


def _angles_of_random(width: int, dimensions: int, generator: np.random.Generator) -> np.ndarray:
    """Principal angles of pairs of random subspaces, ``[pairs, dimensions]``."""
    drawn = generator.normal(size=(RANDOM_PAIRS, 2, width, dimensions))
    return np.stack([linalg.subspace_angles(a, b) for a, b in drawn])


def _of_kernels(states: HiddenStates, sample: np.ndarray, group: np.ndarray, scaling: str) -> Iterator[dict[str, Any]]:
    """Linear CKA of all pairs of layers, from the inner products of all pairs of vectors."""
    layers = measured(states)
    chosen = sample[np.argsort(group[sample], kind="stable")]  # so that a group's vectors are contiguous
    sizes = np.bincount(group[chosen], minlength=int(group.max()) + 1)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    kernels = np.empty((len(layers), len(chosen), len(chosen)), np.float32)
    for kernel, layer in zip(kernels, layers, strict=True):
        values = scaled(states.take([layer], chosen)[0], scaling)
        values -= values.mean(axis=0)  # does not change CKA, but avoids loss of precision
        values /= or_one(np.sqrt(np.square(values).sum(axis=1).mean()))
        kernel[:] = values @ values.T
    both = [_hsic(kernels, bounds, debiased=debiased) for debiased in (False, True)]
    for i, j in itertools.combinations(range(len(layers)), 2):
        row = functools.partial(_jackknifed, layers=(layers[i], layers[j]), n=len(chosen), scaling=scaling)
        for quantity, (hsic, chance) in zip(("linear_cka", "linear_cka_debiased"), both, strict=True):
            with np.errstate(invalid="ignore", divide="ignore"):
                length = np.sqrt(hsic[:, i, i] * hsic[:, j, j])
                similarities = hsic[:, i, j] / length
                reference = chance[i, j] / length[0]
            yield row(quantity, values=similarities, reference=reference)


def _hsic(kernels: np.ndarray, bounds: np.ndarray, *, debiased: bool) -> tuple[np.ndarray, np.ndarray]:
    """HSIC of all pairs of layers up to a common factor, and its mean when vectors are paired at random.

    Everything is computed from sums over pairs of groups, so leaving one group out is cheap.

    Args:
        kernels: products of vectors, ``[layers, vectors, vectors]``.
        bounds: where each group begins, and the end.
        debiased: use the unbiased estimator, without products of vectors with themselves (Song et al. 2012, eq. 5);
            otherwise the products of centred vectors (Kornblith et al. 2019, eq. 3).

    Returns:
        ``[1 + groups, layers, layers]`` and ``[layers, layers]``.
    """
    layers, vectors, _ = kernels.shape
    groups = len(bounds) - 1
    products = np.zeros((groups, groups, layers, layers))
    towards = np.zeros((layers, vectors, groups))  # sum of each vector's products with those of each group
    for g in range(groups):
        rows = slice(bounds[g], bounds[g + 1])
        block = kernels[:, rows].astype(np.float64)
        if debiased:
            own = np.arange(bounds[g], bounds[g + 1])
            block[:, own - bounds[g], own] = 0
        for h in range(groups):
            part = block[:, :, bounds[h] : bounds[h + 1]]
            flat = part.reshape(layers, -1)
            products[g, h] = flat @ flat.T
            towards[:, rows, h] = part.sum(axis=2)
    estimates = []
    for without in range(-1, groups):
        kept = np.arange(groups) != without
        mask = np.repeat(kept, np.diff(bounds))
        n = int(mask.sum())
        inner = products[np.ix_(kept, kept)].sum(axis=(0, 1))
        sums = towards[:, mask][:, :, kept].sum(axis=2)
        whole = sums.sum(axis=1)
        crossed, wholes = sums @ sums.T, np.outer(whole, whole)
        if debiased:
            estimates.append((inner + wholes / ((n - 1) * (n - 2)) - 2 / (n - 2) * crossed) / (n * (n - 3)))
        else:
            estimates.append(inner - 2 / n * crossed + wholes / n**2)
    if debiased:
        return np.stack(estimates), np.zeros((layers, layers))
    traces = (
        np.trace(kernels.astype(np.float64), axis1=1, axis2=2) - kernels.sum(axis=(1, 2), dtype=np.float64) / vectors
    )
    return np.stack(estimates), np.outer(traces, traces) / (vectors - 1)


def _of_neighbours(states: HiddenStates, chosen: np.ndarray, group: np.ndarray, count: int) -> Iterator[dict[str, Any]]:
    """Share of nearest neighbours that two layers share."""
    layers = measured(states)
    neighbours = []
    for layer in layers:
        values = scaled(states.take([layer], chosen)[0], UNIT)
        neighbours.append(NearestNeighbors(n_neighbors=count).fit(values).kneighbors(return_distance=False))
    member = (group[chosen] == np.arange(int(group.max()) + 1)[:, None]).astype(np.float64)
    sizes = jackknife.left_out(member.sum(axis=1))
    for i, j in itertools.combinations(range(len(layers)), 2):
        shared = (neighbours[i][:, :, None] == neighbours[j][:, None, :]).any(axis=2).mean(axis=1)
        yield _jackknifed(
            "neighbour_retention",
            (layers[i], layers[j]),
            jackknife.left_out(member @ shared) / sizes,
            n=len(chosen),
            scaling=UNIT,
            reference=count / (len(chosen) - 1),
        )


def _jackknifed(
    quantity: str,
    layers: tuple[str, str],
    values: np.ndarray,
    reference: float = np.nan,
    *,
    n: int,
    scaling: str,
) -> dict[str, Any]:
    """A row from values ``[1 + groups]``; without an interval if there is only one value."""
    alone = len(values) == 1
    low, high = (np.nan, np.nan) if alone else jackknife.interval(values)
    over = "" if alone else JACKKNIFE
    return _made(quantity, layers, (values[0], low, high), n, scaling, "", over=over) | {"reference": reference}


def _bootstrapped(
    quantity: str, layers: tuple[str, str], draws: np.ndarray, *, n: int, positions: str, reference: float
) -> dict[str, Any]:
    """A row of raw vectors from values ``[1 + resamples]``."""
    values = (draws[0], *percentile_interval(draws[1:]))
    return _made(quantity, layers, values, n, RAW, positions, over=BOOTSTRAP) | {"reference": reference}


def _made(
    quantity: str,
    layers: Sequence[str],
    values: Sequence[Any],
    n: int,
    scaling: str,
    positions: str,
    *,
    over: str,
) -> dict[str, Any]:
    named = dict(zip(("value", "ci_low", "ci_high"), map(float, values), strict=True))
    about = {"quantity": quantity, "scaling": scaling, "positions": positions, "n": n, "interval_over": over}
    return about | named | {"layer_a": layers[0], "layer_b": layers[1], "reference": np.nan, "reason": ""}


def _missing(
    quantity: str, reason: str, layer_a: str, layer_b: str, *, scaling: str, positions: str = ""
) -> dict[str, Any]:
    row = _made(quantity, (layer_a, layer_b), (np.nan,) * 3, 0, scaling, positions, over="")
    return row | {"reason": reason}
