"""Layer classification: which layer does a vector come from?  Classifiers, splits, and intervals over texts.

Huang et al., Fig. 5, 6, 9 and 10, and the experiments that their post plans.  They use one classifier, one kind of
split (by vector) and one input.  Here that run is compared with others that differ from it in one factor each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from embscale.layers.classifiers import (
    ITERATIONS,
    LOGISTIC_REGRESSION,
    SGD,
    SGD_TEST_FRACTION,
    Fitted,
    Settings,
    check_memory,
    fit,
    predict,
    select_features,
)
from embscale.layers.examples import (
    EXPECTED,
    INPUTS,
    MEAN_REMOVED,
    NO_CONTROL,
    RAW,
    Examples,
    control,
    load_if_fits,
    prepared,
    train_test_split,
)
from embscale.layers.hidden_states import HiddenStates
from embscale.statistics.resampling import bootstrap_means, percentile_interval

# Inputs that are run for a classifier if requested; classifiers not listed get raw vectors only.  For `sgd`, those that
# Huang et al. may have meant: raw, norm 1, or with the "0-1 normal distribution".
INPUTS_OF = {
    LOGISTIC_REGRESSION: (RAW, "unit", "layer_normed", MEAN_REMOVED),
    SGD: (RAW, "unit", "z_scored"),
    "nearest_centroid": INPUTS,
    "decision_tree": (RAW, MEAN_REMOVED),
}

CALIBRATION_BINS = 15  # Guo et al. 2017

KEYS = ["suite", "model", "step", "width", "texts", "tokens", "texts_count"]
COLUMNS = [
    *KEYS,
    "trained_on",
    "classifier",
    "split",
    "input",
    "control",
    "expected",
    "design",
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
CONFUSION_COLUMNS = [
    *KEYS, "classifier", "split", "input", "control", "seed", "true_layer", "predicted_layer", "count"
]  # fmt: skip
CURVE_COLUMNS = [
    *KEYS, "classifier", "split", "input", "seed", "epoch", "train_loss", "train_loss_last_batch", "test_accuracy"
]  # fmt: skip


class Condition(NamedTuple):
    """One kind of run.

    Attributes:
        classifier: of `layer_classifiers.CLASSIFIERS`.
        split: of `layer_examples.SPLITS`.
        input: of `layer_examples.INPUTS`.
        control: of `layer_examples.EXPECTED`, or ``none``.
    """

    classifier: str
    split: str
    input: str
    control: str

    def described(self) -> dict[str, str]:
        """Columns of the rows."""
        return {**self._asdict(), "expected": EXPECTED.get(self.control, "")}

    @property
    def with_means(self) -> Condition | None:
        """The corresponding condition with layer means kept, if this one removes them."""
        return self._replace(input=RAW) if self.input == MEAN_REMOVED else None


def conditions(
    classifiers: Sequence[str], splits: Sequence[str], inputs: Sequence[str], controls: Sequence[str]
) -> list[Condition]:
    """The conditions to run: variations of one base run, not a full factorial design.

    The base run is logistic regression on raw vectors with the first split and no control.  Other splits, inputs and
    controls are run with logistic regression; other classifiers with the first split and raw vectors.  The nearest
    centroid also gets every input, and the tree the vectors without layer means, which a linear classifier cannot use
    at all.  `sgd` reproduces Huang et al., so it splits by vector.  Logistic regression standardises its input, so
    z-scored vectors are equivalent to raw ones and are omitted.
    """
    first = splits[0]
    conditions = []
    for classifier in classifiers:
        applicable = [name for name in inputs if name in INPUTS_OF.get(classifier, (RAW,))]
        if classifier == SGD:
            conditions += [Condition(SGD, "vector", name, NO_CONTROL) for name in applicable]
            continue
        conditions.append(Condition(classifier, first, RAW, NO_CONTROL))
        if classifier == LOGISTIC_REGRESSION:
            conditions += [Condition(classifier, split, RAW, NO_CONTROL) for split in splits[1:]]
            conditions += [Condition(classifier, first, RAW, name) for name in controls]
        conditions += [Condition(classifier, first, name, NO_CONTROL) for name in applicable if name != RAW]
    return conditions


def parts(
    states: HiddenStates, used: np.ndarray, condition: Condition, settings: Settings, *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The training and test masks of a condition, see `train_test_split`."""
    fraction = SGD_TEST_FRACTION if condition.classifier == SGD else settings.test_fraction
    return train_test_split(states, used, split=condition.split, test_fraction=fraction, seed=seed)


def check(
    states: HiddenStates,
    used: np.ndarray,
    conditions: Sequence[Condition],
    settings: Settings,
    *,
    seeds: Sequence[int],
) -> None:
    """Stop before the first fit if one of several cannot be made.

    Args:
        states: to be split.
        used: vectors that take part, bool ``[vectors]``.
        conditions: to be run.
        settings: see there.
        seeds: of the splits.

    Raises:
        EmbscaleError: there is too little data for a split, or too little memory or disk for a classifier.
    """
    alike: dict[tuple[bool, str], list[Condition]] = {}  # that share their splits
    for condition in conditions:
        alike.setdefault((condition.classifier == SGD, condition.split), []).append(condition)
    for members in alike.values():
        largest = max(int(parts(states, used, members[0], settings, seed=seed)[0].sum()) for seed in seeds)
        check_memory([condition.classifier for condition in members], largest, states.width, settings)


@dataclass(frozen=True)
class Fit:
    """Predictions of one classifier on its test vectors.

    Attributes:
        true, predicted: layer of each test vector, as an index.
        confidence: probability of the predicted layer; NaN if the classifier has no probabilities.
        log_loss: minus the logarithm of the true layer's probability; NaN likewise.
        text: the text it comes from.
        position: its position in the text.
        n_train: vectors that the classifier was fitted on.
        fitted: the classifier.
    """

    true: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    log_loss: np.ndarray
    text: np.ndarray
    position: np.ndarray
    n_train: int
    fitted: Fitted

    @property
    def converged(self) -> bool:
        """Whether the optimiser stopped by itself."""
        return self.fitted.converged


def run(
    states: HiddenStates,
    used: np.ndarray,
    condition: Condition,
    settings: Settings,
    *,
    seeds: Sequence[int],
    name: str,
) -> list[Fit]:
    """Fit and test one classifier per seed; the seed determines the split and all other random choices.

    Args:
        states: in memory, if they fit there (`load_if_fits`).
        used: vectors that take part, bool ``[vectors]``.
        condition: what to run.
        settings: see there.
        seeds: of the splits.
        name: of the model, for warnings.
    """
    fits: list[Fit] = []
    for seed in seeds:
        source = states
        if condition.control != NO_CONTROL:
            random = control(states, used, condition.control, seed=seed, chunk=settings.chunk)
            source = load_if_fits(random, memory_gb=settings.memory_gb)
        masks = parts(source, used, condition, settings, seed=seed)
        train, test = (Examples(source, mask, settings.chunk) for mask in masks)
        fits.append(fitted(condition, train, test, settings, seed=seed, start=fits[-1].fitted if fits else None))
        warn(fits[-1].fitted, condition, seed=seed, name=name)
    return fits


def fitted(
    condition: Condition, train: Examples, test: Examples, settings: Settings, *, seed: int, start: Fitted | None
) -> Fit:
    """Fit on one set of examples and test on another, both prepared as the condition requires."""
    prepare = prepared(condition.input, train)
    train, test = (select_features(condition.classifier, replace(part, prepare=prepare)) for part in (train, test))
    model = fit(condition.classifier, train, test, settings, seed=seed, start=start)
    return Fit(
        true=np.nonzero(test.part)[0],
        **predict(model.model, test),
        text=test.of_each(test.states.text),
        position=test.of_each(test.states.position),
        n_train=len(train),
        fitted=model,
    )


def warn(fitted: Fitted, condition: Condition, *, seed: int, name: str) -> None:
    """Warn on stderr if the optimiser did not converge."""
    if condition.classifier == LOGISTIC_REGRESSION and not fitted.converged:
        print(
            f"{name}, {' '.join(condition)}, seed {seed}: not converged after {ITERATIONS} iterations", file=sys.stderr
        )


def classifier_rows(
    fits: Sequence[Fit], seeds: Sequence[int], layers: Sequence[str], *, resamples: int, seed: int
) -> pd.DataFrame:
    """Tidy rows for each split, and for all splits together as seed ``all``.

    The value of ``all`` is the mean over all tested vectors of all splits, so ``n`` counts a vector once for each
    split in which it was tested.  Its interval resamples texts, each with all its predictions, so more splits do not
    make it narrower than the texts allow.  There is no interval if a resample contains no vector of the layer.
    ``n_train`` is that of the first split.

    Args:
        fits: one per seed.
        seeds: of the splits.
        layers: names of the layers.
        resamples: bootstrap resamples of the texts.
        seed: of the resamples.

    Returns:
        The columns of `COLUMNS` from ``seed`` on; ``layer`` is empty for values over all layers.
    """
    rows = []
    for name, members in _seeds_and_all(fits, seeds):
        shared = {
            "seed": name,
            "n_train": members[0].n_train,
            "n_layers": len(layers),
            "converged": all(f.converged for f in members),
        }
        rows += [shared | row for row in _metric_rows(members, layers, resamples=resamples, seed=seed)]
    return pd.DataFrame(rows)


def mean_shift_share(
    raw: Sequence[Fit],
    removed: Sequence[Fit],
    seeds: Sequence[int],
    layers: Sequence[str],
    *,
    resamples: int,
    seed: int,
) -> pd.DataFrame:
    """Share of the accuracy above chance that is lost when each layer's mean is subtracted.

    For logistic regression it is necessarily 1: if all layers have the same mean, the gradient of the likelihood is
    zero at zero weights, and the likelihood is concave.  So "linearly separable" means "the means differ"; any other
    difference between layers can only be detected by a nonlinear classifier such as the tree.

    Args:
        raw: fits on unchanged vectors.
        removed: fits on the same vectors without their layers' means, in the same splits.
        seeds: of the splits.
        layers: names.
        resamples: of the bootstrap.
        seed: of the resamples.

    Returns:
        Rows like those of `classifier_rows`, metric ``mean_shift_share``.
    """
    rows = []
    chance = 1 / len(layers)
    for (name, with_means), (_, without) in zip(
        _seeds_and_all(raw, seeds), _seeds_and_all(removed, seeds), strict=True
    ):
        text = np.concatenate([f.text for f in with_means])
        sums = _sums_by_text(text, *(_above_chance(members, chance) for members in (with_means, without)))
        means = bootstrap_means(sums, resamples=resamples, seed=seed)
        low, high = percentile_interval(1 - means[:, 1] / means[:, 0])
        rows.append(
            {
                "seed": name,
                "n_train": without[0].n_train,
                "n_layers": len(layers),
                "converged": all(f.converged for f in (*with_means, *without)),
                "layer": None,
                "metric": "mean_shift_share",
                "value": 1 - sums[:, 1].sum() / sums[:, 0].sum(),
                "ci_low": low,
                "ci_high": high,
                "n": len(text),
            }
        )
    return pd.DataFrame(rows)


def _above_chance(fits: Sequence[Fit], chance: float) -> np.ndarray:
    correct: np.ndarray = np.concatenate([f.true == f.predicted for f in fits]) - chance
    return correct


def _seeds_and_all(fits: Sequence[Fit], seeds: Sequence[int]) -> list[tuple[str, list[Fit]]]:
    return [*((str(s), [f]) for s, f in zip(seeds, fits, strict=True)), ("all", list(fits))]


def confusion(fits: Sequence[Fit], seeds: Sequence[int], layers: Sequence[str]) -> pd.DataFrame:
    """Confusion matrix: how often a vector of one layer was classified as another, for each seed."""
    frames = []
    for one, seed in zip(fits, seeds, strict=True):
        counts = np.bincount(one.true * len(layers) + one.predicted, minlength=len(layers) ** 2)
        names = pd.MultiIndex.from_product([layers, layers], names=["true_layer", "predicted_layer"])
        frames.append(pd.DataFrame({"count": counts}, index=names).reset_index().assign(seed=seed))
    return pd.concat(frames, ignore_index=True)


def curves(fits: Sequence[Fit], seeds: Sequence[int]) -> pd.DataFrame:
    """Loss and accuracy of each epoch and seed; empty for classifiers without epochs."""
    frames = [
        one.fitted.curves.assign(seed=seed)
        for one, seed in zip(fits, seeds, strict=True)
        if one.fitted.curves is not None
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def texts_of(states: HiddenStates, used: np.ndarray) -> int:
    """How many texts the used vectors come from."""
    return len(np.unique(states.text[used]))


def concat_rows(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Concatenate tables of rows under the given columns; missing columns are empty, and counts stay integers."""
    filled = [frame for frame in frames if len(frame)]
    return (pd.concat(filled) if filled else pd.DataFrame()).reindex(columns=list(columns)).convert_dtypes()


def _metric_rows(fits: Sequence[Fit], layers: Sequence[str], *, resamples: int, seed: int) -> Iterator[dict[str, Any]]:
    true, predicted, confidence, log_loss, text = (
        np.concatenate([getattr(f, part) for f in fits])
        for part in ("true", "predicted", "confidence", "log_loss", "text")
    )
    chance = 1 / len(layers)
    correct = (true == predicted).astype(float)
    error = np.abs(true - predicted).astype(float)
    ones = np.ones(len(true))
    yield _row(None, "chance", chance, chance, chance, len(true))
    # All metrics are functions of sums over texts, so one bootstrap serves for all.
    means_of = {
        "accuracy": correct,
        "chance_corrected_accuracy": (correct - chance) / (1 - chance),
        "mean_absolute_layer_error": error,
        "within_one_accuracy": (error <= 1).astype(float),
        "log_loss": log_loss,
    }
    bins = np.clip(np.ceil(np.nan_to_num(confidence) * CALIBRATION_BINS).astype(int) - 1, 0, CALIBRATION_BINS - 1)
    gaps = [(confidence - correct) * (bins == i) for i in range(CALIBRATION_BINS)]
    of_layer = [(true == i).astype(float) for i in range(len(layers))]
    sums = _sums_by_text(text, ones, *means_of.values(), *gaps, *of_layer, *(correct * here for here in of_layer))
    means = bootstrap_means(sums, resamples=resamples, seed=seed)

    def values(sums: np.ndarray) -> np.ndarray:
        """Metrics from sums ``[..., columns]``, in the order of the rows."""
        total, rest = sums[..., :1], sums[..., 1:]
        plain, rest = rest[..., : len(means_of)], rest[..., len(means_of) :]
        calibration = np.abs(rest[..., :CALIBRATION_BINS]).sum(axis=-1, keepdims=True)
        of_layers, right = np.split(rest[..., CALIBRATION_BINS:], 2, axis=-1)
        return np.concatenate([plain / total, calibration / total, right / of_layers], axis=-1)

    with np.errstate(invalid="ignore"):  # recall is NaN for a layer without test vectors
        found, resampled = values(sums.sum(axis=0)), values(means)
    # The calibration error sums absolute values, so noise biases it upwards, and resamples are noisier than the sample.
    # Its interval therefore has the width of the resamples, centred on the value.
    resampled[:, len(means_of)] += found[len(means_of)] - resampled[:, len(means_of)].mean()
    low, high = percentile_interval(resampled)
    names: list[tuple[str | None, str]] = [(None, metric) for metric in (*means_of, "expected_calibration_error")]
    names += [(layer, "recall") for layer in layers]
    counts = [len(true)] * (len(means_of) + 1) + [int(here.sum()) for here in of_layer]
    for i, (layer, metric) in enumerate(names):
        yield _row(layer, metric, found[i], low[i], high[i], counts[i])


def _row(layer: str | None, metric: str, value: float, low: float, high: float, n: int) -> dict[str, Any]:
    return {"layer": layer, "metric": metric, "value": value, "ci_low": low, "ci_high": high, "n": n}


def _sums_by_text(text: np.ndarray, *columns: np.ndarray) -> np.ndarray:
    """Sums over each text's vectors, ``[texts, columns]``."""
    _, group = np.unique(text, return_inverse=True)
    return np.stack([np.bincount(group, weights=column) for column in columns], axis=1)


def interval_rows(
    text: np.ndarray, per_vector: Mapping[str, np.ndarray], *, resamples: int, seed: int
) -> list[dict[str, Any]]:
    """Means over vectors with intervals over texts: ratios of resampled sums, since texts differ in vectors.

    Args:
        text: of each vector.
        per_vector: metric -> ``[vectors]``.
        resamples: of the bootstrap.
        seed: of the resamples.
    """
    sums = _sums_by_text(text, np.ones(len(text)), *per_vector.values())
    means = bootstrap_means(sums, resamples=resamples, seed=seed)
    low, high = percentile_interval(means[:, 1:] / means[:, :1])
    return [
        {"metric": metric, "value": values.mean(), "ci_low": low[i], "ci_high": high[i], "n": len(values)}
        for i, (metric, values) in enumerate(per_vector.items())
    ]
