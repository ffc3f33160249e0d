"""Ablations of layer classifiers: which dimensions they use, how many, how stably, and at which positions.

Huang et al.'s questions 1 and 3 (Fig. 7 and 8), each with a control.  All start from the same logistic regression on
raw vectors, fitted and tested once per seed.  Weights are reported on two scales: for ``standardised`` dimensions, and
for the unscaled dimensions (``raw``, as in Huang et al.).  On the raw scale a large weight need not mean that the
dimension matters: a dimension with small variance needs a large weight to have any effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from embscale.layers.classifiers import LOGISTIC_REGRESSION, Linear, Settings, logistic_regression, predict
from embscale.layers.examples import NO_CONTROL, RAW, Examples, Prepare
from embscale.layers.hidden_states import HiddenStates
from embscale.layers.probes import KEYS, Condition, Fit, check, fitted, interval_rows, parts, warn
from embscale.statistics import repeated_splits

COLUMNS = [
    *KEYS,
    "experiment",
    "split",
    "weights",
    "choice",
    "inverse_regularisation",
    "k",
    "fill",
    "refit",
    "positions",
    "dimension",
    "layer",
    "seed",
    "metric",
    "value",
    "ci_low",
    "ci_high",
    "n",
]

TOP = 8  # dimensions per layer that Huang et al. show
SHARES = (50, 90)  # percent of the sum of absolute weights
SCALES = ("raw", "standardised")
FILLS = ("zero", "mean")
CURVE_POINTS = 64  # points of the cumulative curve
INNER_FOLDS = 2  # folds of each training set for choosing C

# Choices of the experiment "position": accuracy by position bucket or overall, for classifiers trained without the
# first positions and with them.
BUCKET = "bucket"
WITH_FIRST_BUCKET = "bucket_with_first"
WITHOUT_FIRST = "without_first"
WITH_FIRST = "with_first"
NO_FIRST = {
    "experiment": "position",
    "choice": WITH_FIRST,
    "seed": "all",
    "metric": "accuracy",
    "value": math.nan,
    "n": 0,
}

Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Base:
    """The unablated classifiers that all ablations are compared with, one per seed.

    Attributes:
        seeds: of the splits.
        fits: fitted classifiers with their test predictions.
        trains, tests: the examples each was fitted and tested on.
        condition: classifier, split and input, the same for all.
        settings: see there.
        resamples: bootstrap resamples of the texts.
        bootstrap_seed: of the resamples.
    """

    seeds: Sequence[int]
    fits: Sequence[Fit]
    trains: Sequence[Examples]
    tests: Sequence[Examples]
    condition: Condition
    settings: Settings
    resamples: int
    bootstrap_seed: int

    @property
    def models(self) -> list[Linear]:
        """The classifier of each seed."""
        return [fit.fitted.model for fit in self.fits]

    @property
    def width(self) -> int:
        """Dimensions of a vector."""
        return self.models[0].weights.shape[1]

    @property
    def shared(self) -> float:
        """Share of the texts of one split's training set that are in another's."""
        return 1 - self.settings.test_fraction

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.trains[0].states.classes

    def accuracies(self, predicted: Sequence[Sequence[np.ndarray]]) -> Rows:
        """Rows with the accuracy of predictions, and its change from the unablated classifiers on the same vectors.

        Args:
            predicted: for each seed, one or more arrays of predictions ``[test vectors]``, one per random draw.
        """
        members = [
            (seed, fit, prediction)
            for seed, fit, predictions in zip(self.seeds, self.fits, predicted, strict=True)
            for prediction in predictions
        ]
        for name in (*self.seeds, "all"):
            chosen = [(fit, prediction) for seed, fit, prediction in members if name in (seed, "all")]
            correct = np.concatenate([prediction == fit.true for fit, prediction in chosen]).astype(float)
            before = np.concatenate([fit.predicted == fit.true for fit, _ in chosen])
            yield from (
                {"seed": str(name)} | row
                for row in interval_rows(
                    np.concatenate([fit.text for fit, _ in chosen]),
                    {"accuracy": correct, "accuracy_change": correct - before},
                    resamples=self.resamples,
                    seed=self.bootstrap_seed,
                )
            )


def check_splits(
    states: HiddenStates, used: np.ndarray, settings: Settings, *, split: str, seeds: Sequence[int]
) -> None:
    """Stop before the first fit if a later one cannot be made, inner folds included; see `probes.check`."""
    condition = Condition(LOGISTIC_REGRESSION, split, RAW, NO_CONTROL)
    check(states, used, [condition], settings, seeds=seeds)
    for seed in seeds:
        train, _ = parts(states, used, condition, settings, seed=seed)
        check(states, np.asarray(train.any(axis=0)), [condition], settings, seeds=_inner_seeds(seed))


def base(
    states: HiddenStates,
    used: np.ndarray,
    settings: Settings,
    *,
    split: str,
    seeds: Sequence[int],
    resamples: int,
    bootstrap_seed: int,
    name: str,
) -> Base:
    """Fit and test the unablated classifiers.

    Args:
        states: hidden states, preferably in memory (see `load_if_fits`).
        used: vectors that take part, bool ``[vectors]``.
        settings: see there.
        split: how to divide.
        seeds: of the splits.
        resamples: bootstrap resamples of the texts.
        bootstrap_seed: of the resamples.
        name: of the model, for warnings.
    """
    condition = Condition(LOGISTIC_REGRESSION, split, RAW, NO_CONTROL)
    trains: list[Examples] = []
    tests: list[Examples] = []
    fits: list[Fit] = []
    for seed in seeds:
        masks = parts(states, used, condition, settings, seed=seed)
        train, test = (Examples(states, mask, settings.chunk) for mask in masks)
        trains.append(train)
        tests.append(test)
        fits.append(fitted(condition, train, test, settings, seed=seed, start=fits[-1].fitted if fits else None))
        warn(fits[-1].fitted, condition, seed=seed, name=name)
    return Base(seeds, fits, trains, tests, condition, settings, resamples, bootstrap_seed)


def ablations(found: Base, *, random_masks: int) -> Iterator[pd.DataFrame]:
    """Run all ablations of one set of classifiers, one after the other; seed ``all`` aggregates over seeds.

    Accuracies are means over all test vectors, with an interval over texts.  Quantities computed from weights are means
    over splits, with an interval that allows for the texts that their training sets share.

    Args:
        found: from `base`.
        random_masks: number of random sets of dimensions per seed and size.

    Yields:
        Rows of an experiment with `COLUMNS`, except `KEYS` and ``split``.
    """
    permuted = [
        permuted_loss(model, train, seed=seed)
        for model, train, seed in zip(found.models, found.trains, found.seeds, strict=True)
    ]
    made = (
        contributions(found),
        cumulative(found),
        stability(found),
        importance(found, permuted),
        masks(found, permuted, random_masks=random_masks),
        prefixes(found),
        positions(found, BUCKET),
    )
    yield from map(pd.DataFrame, made)


def weights_of(model: Linear, scale: str) -> np.ndarray:
    """Weights ``[classes, dimensions]`` in one of `SCALES`."""
    return model.raw_weights if scale == "raw" else model.weights


def shares(weights: np.ndarray) -> np.ndarray:
    """Each dimension's percentage of the sum of absolute weights of a layer, ``[classes, dimensions]`` (Fig. 7)."""
    magnitude = np.abs(weights)
    return 100 * magnitude / magnitude.sum(axis=1, keepdims=True)


def frequent(weights: np.ndarray) -> np.ndarray:
    """Dimensions ordered by how many layers have them among their top 8; ties are broken by larger share.

    Huang et al. pick dimensions 591, 690, 581 and 239 of gpt2-medium by eye as those that "frequently appear".
    """
    percent = shares(weights)
    ranked = np.argsort(-percent, axis=1, kind="stable")[:, :TOP]
    often = np.bincount(ranked.ravel(), minlength=percent.shape[1])
    return np.lexsort((-percent.sum(axis=0), -often))


def sizes(limit: int) -> list[int]:
    """Powers of two below `limit`, then `limit` itself."""
    powers = [2**i for i in range(limit.bit_length()) if 2**i < limit]
    return [*powers, limit]


def contributions(found: Base) -> Rows:
    """The top 8 dimensions of each layer with signed percentages (Fig. 7), and the share of them that is positive.

    ``k`` is the rank.  Seed ``all`` ranks by the mean share over seeds and reports the mean signed percentage.
    """
    for scale in SCALES:
        signed = np.stack([shares(weights_of(m, scale)) * np.sign(m.weights) for m in found.models])
        for name, some in _seeds_and_all(signed, found.seeds):
            order = np.argsort(-np.abs(some).mean(axis=0), axis=1, kind="stable")[:, :TOP]
            for i, layer in enumerate(found.layers):
                tops = some[:, i, order[i]]
                keys = {"weights": scale, "layer": layer, "seed": name}
                for rank, dimension in enumerate(order[i]):
                    detail = {"experiment": "contribution", "metric": "percent", "k": rank + 1}
                    yield (
                        keys | detail | {"dimension": int(dimension)} | _over_splits(tops[:, rank], shared=found.shared)
                    )
                detail = {"experiment": "sign", "metric": "positive_share", "k": tops.shape[1]}
                yield keys | detail | _over_splits((tops > 0).mean(axis=1), shared=found.shared)


def cumulative(found: Base) -> Rows:
    """Percentage of the summed weights in the k largest (Fig. 8), and how many weights make up 50 % and 90 %.

    Choice ``random`` is the same curve for weights drawn from a normal distribution.  If the observed curve bends no
    more than this one, no dimension stands out.
    """
    kinds = [("largest", scale, np.stack([weights_of(m, scale) for m in found.models])) for scale in SCALES]
    shape = found.models[0].weights.shape
    kinds.append(("random", "", np.stack([np.random.default_rng(s).standard_normal(shape) for s in found.seeds])))
    ks = np.unique(np.linspace(1, found.width, min(CURVE_POINTS, found.width)).round().astype(int))
    for choice, scale, weights in kinds:
        shared = 0 if choice == "random" else found.shared
        curves = np.cumsum(-np.sort(-np.stack([shares(some) for some in weights]), axis=2), axis=2)
        for name, some in _seeds_and_all(curves, found.seeds):
            for i, layer in enumerate(found.layers):
                keys = {"experiment": "cumulative", "choice": choice, "weights": scale, "layer": layer, "seed": name}
                for share in SHARES:
                    needed = (some[:, i] < share).sum(axis=1) + 1
                    yield keys | {"metric": f"dimensions_for_{share}_percent"} | _over_splits(needed, shared=shared)
                if name == "all":
                    for k in ks:
                        yield keys | {"metric": "percent", "k": int(k)} | _over_splits(some[:, i, k - 1], shared=shared)


def stability(found: Base) -> Rows:
    """Mean overlap of the k most frequent dimensions between pairs of seeds.

    Choice ``random`` is the expected overlap of two random sets of k dimensions (hypergeometric).
    """
    for scale in SCALES:
        orders = [frequent(weights_of(model, scale)) for model in found.models]
        for k in sizes(found.width // 2):
            overlap = np.array([[len(np.intersect1d(a[:k], b[:k])) / k for b in orders] for a in orders])
            keys = {"experiment": "stability", "metric": "overlap", "k": k, "seed": "all"}
            yield keys | {"choice": "frequent", "weights": scale} | _over_pairs(overlap)
    for k in sizes(found.width // 2):
        chance = k / found.width
        exact = {"value": chance, "ci_low": chance, "ci_high": chance}
        yield {"experiment": "stability", "metric": "overlap", "k": k, "seed": "all", "choice": "random"} | exact


def permuted_loss(model: Linear, examples: Examples, *, seed: int) -> np.ndarray:
    """Permutation importance: accuracy lost when one dimension is permuted, ``[dimensions]`` (Breiman 2001).

    Permuting one dimension changes only its own term in the logits of a linear model, so computing all dimensions costs
    little more than one prediction; scikit-learn's `permutation_importance` predicts anew for each.  Values are
    permuted within each chunk of vectors.

    Args:
        model: classifier.
        examples: the training examples, if the result is used to choose dimensions to mask.
        seed: of the permutations.
    """
    generator = np.random.default_rng(seed)
    lost = np.zeros(model.weights.shape[1])
    for features, labels, _ in examples.chunks():
        logits, standardised = model.logits(features), model.standardised(features)
        right = (logits.argmax(axis=1) == labels).sum()
        for dimension, weights in enumerate(model.weights.T.astype(np.float32)):
            column = standardised[:, dimension]
            moved = logits + (generator.permutation(column) - column)[:, None] * weights
            lost[dimension] += right - (moved.argmax(axis=1) == labels).sum()
    return lost / len(examples)


def importance(found: Base, permuted: Sequence[np.ndarray]) -> Rows:
    """Permutation importance of each dimension beside its share of the weights over all layers.

    Args:
        found: from `base`.
        permuted: from `permuted_loss`, for each seed.
    """
    lost = np.stack(permuted)
    for dimension in range(found.width):
        keys = {"experiment": "importance", "choice": "permuted", "dimension": dimension, "seed": "all"}
        yield keys | {"metric": "accuracy_change"} | _over_splits(-lost[:, dimension], shared=found.shared)
    for scale in SCALES:
        percent = np.stack([shares(weights_of(model, scale)).mean(axis=0) for model in found.models])
        for dimension in range(found.width):
            keys = {"experiment": "importance", "weights": scale, "dimension": dimension, "seed": "all"}
            yield keys | {"metric": "percent"} | _over_splits(percent[:, dimension], shared=found.shared)
        ranks = np.array([stats.spearmanr(one, other).statistic for one, other in zip(percent, lost, strict=True)])
        for name, some in _seeds_and_all(ranks, found.seeds):
            keys = {"experiment": "importance", "weights": scale, "seed": name}
            yield keys | {"metric": "rank_correlation"} | _over_splits(some, shared=found.shared)


def masks(found: Base, permuted: Sequence[np.ndarray], *, random_masks: int) -> Rows:
    """Accuracy with dimensions masked: frequent, important, high-variance or random ones.

    ``important`` dimensions have the largest permutation importance on the training vectors; dimensions of largest
    variance are called outliers.

    Without refitting, a masked dimension is set at evaluation to ``zero``, as in Huang et al., or to its ``mean``,
    which carries no information about the layer and stays within the training distribution.  With refitting, a
    classifier is trained on the remaining dimensions only; of the random masks, only the first of each seed is
    refitted.  Frequent dimensions are determined on both scales without refitting, and on the standardised scale only
    with refitting.
    """
    yield from (
        {"experiment": "mask", "choice": "none", "k": 0, "refit": False} | row
        for row in found.accuracies([[fit.predicted] for fit in found.fits])
    )
    every = np.arange(found.width)
    for k in sizes(found.width // 2):
        chosen: dict[tuple[str, str], list[list[np.ndarray]]] = {
            ("frequent", scale): [[frequent(weights_of(m, scale))[:k]] for m in found.models] for scale in SCALES
        }
        chosen["important", ""] = [[np.argsort(-lost, kind="stable")[:k]] for lost in permuted]
        chosen["outlier", ""] = [[np.argsort(-m.scale, kind="stable")[:k]] for m in found.models]
        chosen["random", ""] = [
            [np.random.default_rng([seed, draw]).permutation(every)[:k] for draw in range(random_masks)]
            for seed in found.seeds
        ]
        for (choice, scale), of_seeds in chosen.items():
            keys = {"experiment": "mask", "choice": choice, "weights": scale, "k": k}
            without = [
                _masked(m, test, some) for m, test, some in zip(found.models, found.tests, of_seeds, strict=True)
            ]
            for fill in FILLS:
                detail = {"fill": fill, "refit": False}
                yield from (keys | detail | row for row in found.accuracies([some[fill] for some in without]))
            if scale != "raw":
                again = _refit(found, [np.setdiff1d(every, some[0]) for some in of_seeds])
                yield from (keys | {"refit": True} | row for row in found.accuracies(again))


def _masked(model: Linear, test: Examples, masked: Sequence[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Predictions ``[vectors]`` with each mask applied, by fill value."""
    predicted = {fill: [np.empty(len(test), np.int64) for _ in masked] for fill in FILLS}
    for features, _, places in test.chunks():
        logits, standardised = model.logits(features), model.standardised(features)
        for i, dimensions in enumerate(masked):
            weights = model.weights[:, dimensions].astype(np.float32)
            # In standardised dimensions, the mean is 0 and a raw value of 0 is this.
            zero = -model.mean[dimensions] / model.scale[dimensions]
            without = logits - standardised[:, dimensions] @ weights.T
            predicted["mean"][i][places] = without.argmax(axis=1)
            predicted["zero"][i][places] = (without + weights @ zero).argmax(axis=1)
    return predicted


def _refit(found: Base, kept: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Predictions of classifiers refitted on a subset of dimensions, starting from the full classifier's weights."""
    predicted = []
    for model, train, test, dimensions in zip(found.models, found.trains, found.tests, kept, strict=True):
        only = _columns(dimensions)
        start = replace(model, weights=model.weights[:, dimensions])
        again = logistic_regression(replace(train, prepare=only), found.settings, start=start)
        predicted.append([predict(again, replace(test, prepare=only))["predicted"]])
    return predicted


def regularisation(found: Base, *, inverse_regularisations: Sequence[float]) -> Rows:
    """Accuracy by strength of the penalty, and with the strength chosen by cross-validation on each training set.

    Each training set is split twice more, by the same rule that separates it from its test set.  The C with the highest
    mean accuracy is chosen; ties go to the smallest C.

    Args:
        found: from `base`.
        inverse_regularisations: values of C to try.
    """
    tried = sorted(inverse_regularisations)
    paths, chosen = [], []
    for seed, train, test in zip(found.seeds, found.trains, found.tests, strict=True):
        paths.append(_path(found, train, test, tried, seed=seed))
        scores = np.zeros(len(tried))
        for inner in _inner_seeds(seed):
            masks = parts(train.states, np.asarray(train.part.any(axis=0)), found.condition, found.settings, seed=inner)
            fit_on, judge_on = (replace(train, part=mask & train.part) for mask in masks)
            path = _path(found, fit_on, judge_on, tried, seed=seed)
            scores += [(fit.predicted == fit.true).mean() for fit in path]
        chosen.append(int(scores.argmax()))
    for i, value in enumerate(tried):
        fits = [path[i] for path in paths]
        keys = {"experiment": "regularisation", "choice": "given", "inverse_regularisation": value}
        yield from (keys | row for row in found.accuracies([[fit.predicted] for fit in fits]))
        share = float(np.mean([fit.converged for fit in fits]))
        yield keys | {"seed": "all", "metric": "converged", "value": share, "n": len(fits)}
    keys = {"experiment": "regularisation", "choice": "cross_validated"}
    for seed, i in zip(found.seeds, chosen, strict=True):
        yield keys | {"seed": str(seed), "metric": "inverse_regularisation", "value": tried[i]}
    predicted = [[path[i].predicted] for path, i in zip(paths, chosen, strict=True)]
    yield from (keys | row for row in found.accuracies(predicted))


def _inner_seeds(seed: int) -> range:
    """Seeds of the folds of a split's training set."""
    return range(INNER_FOLDS * seed, INNER_FOLDS * (seed + 1))


def _path(found: Base, train: Examples, test: Examples, values: Sequence[float], *, seed: int) -> list[Fit]:
    """Fit and test a classifier for each C, each starting from the previous solution."""
    fits: list[Fit] = []
    for value in values:
        settings = replace(found.settings, inverse_regularisation=value)
        start = fits[-1].fitted if fits else None
        fits.append(fitted(found.condition, train, test, settings, seed=seed, start=start))
    return fits


def _columns(dimensions: np.ndarray) -> Prepare:
    return lambda features, labels, vectors: features[:, dimensions]


def prefixes(found: Base) -> Rows:
    """Accuracy of classifiers on the ``first`` k dimensions and on k ``random`` ones: does the order matter?"""
    every = np.arange(found.width)
    orders = {
        "first": [every for _ in found.seeds],
        "random": [np.random.default_rng([seed, found.width]).permutation(every) for seed in found.seeds],
    }
    for choice, of_seeds in orders.items():
        for k in sizes(found.width):
            keys = {"experiment": "prefix", "choice": choice, "k": k, "refit": True}
            whole = [[fit.predicted] for fit in found.fits]
            predicted = _refit(found, [np.sort(order[:k]) for order in of_seeds]) if k < found.width else whole
            yield from (keys | row for row in found.accuracies(predicted))


def positions(found: Base, choice: str) -> Rows:
    """Accuracy by position in the text, in buckets of doubling size: 0, 1, 2-3, 4-7 and so on."""
    last = max(int(fit.position.max()) for fit in found.fits)
    for low, high in [(0, 0), *((2**i, min(2 ** (i + 1) - 1, last)) for i in range(last.bit_length()))]:
        parts = [(low <= fit.position) & (fit.position <= high) for fit in found.fits]
        if not all(part.any() for part in parts):
            continue
        keys = {"experiment": "position", "choice": choice, "positions": f"{low} to {high}" if high > low else f"{low}"}
        some = [
            replace(fit, true=fit.true[part], predicted=fit.predicted[part], text=fit.text[part])
            for fit, part in zip(found.fits, parts, strict=True)
        ]
        for row in replace(found, fits=some).accuracies([[fit.predicted] for fit in some]):
            if row["metric"] == "accuracy":
                yield keys | row


def first_position(found: Base, choice: str) -> Rows:
    """Overall accuracy, for comparing classifiers with and without the first positions.

    Args:
        found: classifiers trained and tested with or without them.
        choice: which of the two.
    """
    for row in found.accuracies([[fit.predicted] for fit in found.fits]):
        if row["metric"] == "accuracy":
            yield {"experiment": "position", "choice": choice} | row


def _seeds_and_all(values: np.ndarray, seeds: Sequence[int]) -> list[tuple[str, np.ndarray]]:
    """Each seed's slice of ``[seeds, ...]``, then all of it."""
    return [*((str(s), values[i : i + 1]) for i, s in enumerate(seeds)), ("all", values)]


def _over_splits(values: np.ndarray, *, shared: float) -> dict[str, Any]:
    """Mean over splits with its interval, none for a single split; see `repeated_splits.interval`."""
    low, high = repeated_splits.interval(values, shared=shared)
    return {"value": float(np.mean(values)), "ci_low": low, "ci_high": high, "n": len(values)}


def _over_pairs(overlap: np.ndarray) -> dict[str, Any]:
    """Mean over pairs of splits ``[splits, splits]``; ``n`` counts pairs.

    There is no interval: all pairs are of the same texts, and how far they agree is a property of these.
    """
    pairs = overlap[np.triu_indices(len(overlap), 1)]
    value = float(pairs.mean()) if len(pairs) else math.nan
    return {"value": value, "ci_low": math.nan, "ci_high": math.nan, "n": len(pairs)}
