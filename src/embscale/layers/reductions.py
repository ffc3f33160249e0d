"""Hidden states in two dimensions: PCA, t-SNE and UMAP of the same points (Huang et al., Fig. 2 to 4).

Huang et al. find t-SNE cluttered and UMAP useless, and report settings for neither.  Here the settings are parameters,
recorded in every row, and the quality of a picture is measured: whether neighbours in it are neighbours in space
(trustworthiness), whether layers are separated, and whether consecutive layers are adjacent.

Points are balanced: the same tokens at every layer.  The last digits of the t-SNE gradient depend on the number of
threads, and after a thousand steps so does the picture, which is another reason to use one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from embscale.errors import EmbscaleError
from embscale.layers.geometry import JACKKNIFE, indices_from, order_of_layers
from embscale.layers.hidden_states import HiddenStates
from embscale.parameters.layers import Reduction
from embscale.statistics import jackknife
from embscale.statistics.vectors import RAW, UNIT, chunks, scaled

REDUCTIONS: tuple[str, ...] = get_args(Reduction)
OUTLIER_REMOVED = "outlier_removed"
EVERY, BLOCKS = "all", "blocks"  # with and without the first class, which is what block 1 receives
NONE = "none"  # the unreduced vectors, for comparison with the pictures

# Number of neighbours in the measures, the default of scikit-learn's trustworthiness.
NEIGHBOURS = 10
# Rows of the distance matrix that are in memory at a time.
ROWS = 512

POINTS = [
    "reduction", "scaling", "layers", "layer", "layer_index", "text", "position", "token", "x", "y", "explained1",
    "explained2", "trustworthiness", "perplexity", "umap_neighbours", "start_dimensions", "outliers", "seed",
]  # fmt: skip
QUALITY = [
    "reduction", "scaling", "layers", "quantity", "value", "ci_low", "ci_high", "n", "reference", "interval_over",
    "perplexity", "umap_neighbours", "start_dimensions", "outliers", "seed",
]  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Settings of the pictures.

    Attributes:
        first_position: vectors of earlier positions are left out.
        points: hidden states of a picture, all layers together.
        perplexity: of t-SNE (van der Maaten and Hinton 2008).
        umap_neighbours: ``n_neighbors`` of UMAP (McInnes et al. 2018).
        start_dimensions: number of principal components that are the input of t-SNE and UMAP.
        outliers: number of dimensions of largest variance that ``outlier_removed`` drops.
        groups: of texts, for the jackknife.
        seed: of the choice of tokens and of groups, of t-SNE and of UMAP.
    """

    first_position: int
    points: int
    perplexity: float
    umap_neighbours: int
    start_dimensions: int
    outliers: int
    groups: int
    seed: int


def reduce(states: HiddenStates, *, reductions: Sequence[str], settings: Settings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every reduction of every scaling, with and without the first layer.

    Scalings are ``raw``, ``unit`` (norm 1) and, for PCA only, ``outlier_removed`` (raw, without the dimensions of
    largest variance).

    Args:
        states: the final norm's output is left out.
        reductions: some of `REDUCTIONS`.
        settings: see there.

    Returns:
        Points, columns `POINTS`: ``x`` and ``y``, and for PCA the shares of variance that they explain.  And
        measures of each picture, columns `QUALITY`:

        - ``explained_variance``: of PCA's two components together.
        - ``trustworthiness``: 1 if every point's nearest points in the picture are also nearest in space (Venna and
          Kaski 2001).
        - ``neighbours_of_same_layer``: share of the nearest points from the same layer; the reference is the value for
          randomly mixed points.
        - ``order_of_layers``: see `embscale.layers.geometry.structure`.

        Where the reduction is ``none``, those of the vectors themselves.

    Raises:
        EmbscaleError: there are fewer vectors or dimensions than asked for.
    """
    chosen = _choose(states, settings, has_neighbours=bool({*reductions} - {"pca"}))
    text = states.text[chosen]
    values = states.take(states.classes, chosen).astype(np.float64)
    if not 0 <= settings.outliers < states.width - 1:
        raise EmbscaleError(f"{settings.outliers} outliers: vectors have only {states.width} dimensions")
    described = {
        "perplexity": settings.perplexity,
        "umap_neighbours": settings.umap_neighbours,
        "start_dimensions": settings.start_dimensions,
        "outliers": settings.outliers,
        "seed": settings.seed,
    }
    points, quality = [], []
    for layers, first in ((EVERY, 0), (BLOCKS, 1)):
        classes = states.classes[first:]
        group = np.tile(jackknife.text_groups(text, groups=settings.groups, seed=settings.seed), len(classes))
        label = np.repeat(np.arange(len(classes)), len(chosen))
        for scaling in (RAW, UNIT, OUTLIER_REMOVED):
            flat = _treated(values[first:], scaling, settings.outliers).reshape(len(label), -1)
            about = {"scaling": scaling, "layers": layers}
            if scaling != OUTLIER_REMOVED:
                measures = _measures(flat, label, group)
                quality += [{"reduction": NONE} | about | described | row for row in measures]
            for reduction in reductions:
                if scaling == OUTLIER_REMOVED and reduction != "pca":
                    continue
                placed, explained = _place(flat, reduction, settings)
                trust = trustworthiness(flat, placed, neighbours=NEIGHBOURS)
                measures = itertools.chain(_measures(placed, label, group, trust), _explained(explained, len(flat)))
                quality += [{"reduction": reduction} | about | described | row for row in measures]
                frame = {
                    "layer": np.repeat(classes, len(chosen)),
                    "layer_index": label + first,
                    "text": np.tile(text, len(classes)),
                    "position": np.tile(states.position[chosen], len(classes)),
                    "token": np.tile(states.token[chosen], len(classes)),
                    "x": placed[:, 0],
                    "y": placed[:, 1],
                }
                shared = {"explained1": explained[0], "explained2": explained[1], "trustworthiness": trust.mean()}
                points.append(pd.DataFrame(frame).assign(reduction=reduction, **about, **shared, **described))
    return pd.concat(points, ignore_index=True)[POINTS], pd.DataFrame(quality, columns=QUALITY)


def trustworthiness(values: np.ndarray, placed: np.ndarray, *, neighbours: int) -> np.ndarray:
    """Trustworthiness of each point of a picture, ``[points]`` (Venna and Kaski 2001).

    The mean over points is scikit-learn's ``trustworthiness``, which has no values per point.

    Args:
        values: the vectors, ``[points, width]``.
        placed: the picture, ``[points, 2]``.
        neighbours: of each point.

    Raises:
        EmbscaleError: there are too few points for the measure to be defined.
    """
    points = len(values)
    if neighbours >= points / 2:
        raise EmbscaleError(f"{points} points: trustworthiness over {neighbours} neighbours needs more than twice them")
    near = NearestNeighbors(n_neighbors=neighbours).fit(placed).kneighbors(return_distance=False)
    squares = np.square(values).sum(axis=1)
    penalty = np.empty(points)
    for part in chunks(points, ROWS):
        apart = squares[part, None] + squares - 2 * values[part] @ values.T
        rows = np.arange(len(apart))
        apart[rows, np.arange(part.start, part.stop)] = -np.inf  # itself first
        rank = np.empty_like(apart, dtype=np.int64)
        rank[rows[:, None], np.argsort(apart, axis=1, kind="stable")] = np.arange(points)
        penalty[part] = np.clip(rank[rows[:, None], near[part]] - neighbours, 0, None).sum(axis=1)
    return 1 - penalty * 2 / (neighbours * (2 * points - 3 * neighbours - 1))


def _choose(states: HiddenStates, settings: Settings, *, has_neighbours: bool) -> np.ndarray:
    """The tokens, as indices of vectors."""
    used = indices_from(states, first_position=settings.first_position)
    layers, vectors = len(states.classes), len(used)
    count = settings.points // layers
    if not 0 < count <= vectors:
        raise EmbscaleError(f"{settings.points} points over {layers} layers: each layer has {vectors} vectors")
    fewest = count * (layers - 1)
    if has_neighbours and fewest <= max(3 * settings.perplexity, settings.umap_neighbours):
        raise EmbscaleError(
            f"{fewest} points without the first layer: a perplexity of {settings.perplexity:g} and "
            f"{settings.umap_neighbours} neighbours need more than three times the one and the other"
        )
    return np.sort(np.random.default_rng(settings.seed).choice(used, count, replace=False))


def _treated(values: np.ndarray, scaling: str, outliers: int) -> np.ndarray:
    if scaling != OUTLIER_REMOVED:
        return scaled(values, scaling)
    order = np.argsort(values.reshape(-1, values.shape[-1]).var(axis=0), kind="stable")
    return values[..., np.sort(order[: len(order) - outliers])]


def _place(values: np.ndarray, reduction: str, settings: Settings) -> tuple[np.ndarray, tuple[float, float]]:
    """Points in two dimensions, and the shares of variance explained; NaN unless the reduction is PCA."""
    dimensions = 2 if reduction == "pca" else min(settings.start_dimensions, *values.shape)
    pca = PCA(n_components=dimensions, svd_solver="covariance_eigh")
    start = pca.fit_transform(values)
    if reduction == "pca":
        first, second = pca.explained_variance_ratio_
        return start, (float(first), float(second))
    if reduction == "tsne":
        from sklearn.manifold import TSNE

        return TSNE(perplexity=settings.perplexity, random_state=settings.seed).fit_transform(start), (np.nan, np.nan)
    from umap import UMAP  # slow to import: compiles code

    model = UMAP(n_neighbors=settings.umap_neighbours, random_state=settings.seed, n_jobs=1)
    return model.fit_transform(start), (np.nan, np.nan)


def _measures(
    placed: np.ndarray, label: np.ndarray, group: np.ndarray, trust: np.ndarray | None = None
) -> Iterator[dict[str, Any]]:
    """Measures of a picture, or of the vectors themselves, with intervals that leave texts out.

    The picture is held fixed: intervals are over texts, given the picture.
    """
    layers, points = int(label.max()) + 1, len(label)
    groups = int(group.max()) + 1
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(placed).kneighbors(return_distance=False)
    same = (label[near] == label[:, None]).mean(axis=1)
    per_point = {"neighbours_of_same_layer": same} | ({} if trust is None else {"trustworthiness": trust})
    chance = {"neighbours_of_same_layer": (points / layers - 1) / (points - 1)}
    sizes = jackknife.left_out(np.bincount(group, minlength=groups))
    for quantity, numbers in per_point.items():
        means = jackknife.left_out(np.bincount(group, weights=numbers, minlength=groups)) / sizes
        yield _row(quantity, means, points, chance.get(quantity, np.nan))
    if layers > 2:
        sums = np.zeros((groups, layers, placed.shape[1]))
        np.add.at(sums, (group, label), placed)
        counts = np.bincount(group * layers + label, minlength=groups * layers).reshape(groups, layers)
        centres = jackknife.left_out(sums) / jackknife.left_out(counts)[..., None]
        yield _row("order_of_layers", order_of_layers(centres), points, 0.0)


def _explained(explained: tuple[float, float], points: int) -> Iterator[dict[str, Any]]:
    if not np.isnan(explained[0]):
        yield _row("explained_variance", np.array([sum(explained)]), points, np.nan)


def _row(quantity: str, values: np.ndarray, n: int, reference: float) -> dict[str, Any]:
    alone = len(values) == 1
    low, high = (np.nan, np.nan) if alone else jackknife.interval(values)
    numbers = {"value": float(values[0]), "ci_low": float(low), "ci_high": float(high), "reference": reference}
    return {"quantity": quantity, "n": n, "interval_over": "" if alone else JACKKNIFE} | numbers
