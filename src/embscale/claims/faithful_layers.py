"""Repeat the layer classifiers of Huang et al. 2024, run by run, by their protocol and by this study's own.

``faithful``: vectors of all positions, split at random (80 to 20); a linear softmax fitted by stochastic gradient
descent on raw vectors.  On IMDB the input of block 1 is a class of its own; on the Pile it is left out, and all
values together are standardised by one mean and one deviation, in training and in testing each by its own.
``corrected``: texts split, a logistic regression fitted to convergence on standardised columns, the input of block 1
always a class, the first position left out.

Each published run has one split.  Texts are those of the states, as the study drew its own without a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from embscale.layers import probes
from embscale.layers.classifiers import (
    LOGISTIC_REGRESSION,
    SGD,
    SGD_TEST_FRACTION,
    Fitted,
    Settings,
    fit,
    predict,
    select_features,
)
from embscale.layers.examples import NO_CONTROL, RAW, Examples, Prepare, control, prepared, train_test_split
from embscale.layers.hidden_states import HiddenStates

FAITHFUL, CORRECTED = "faithful", "corrected"
FITTED = ["trained_on", "tokens", "texts_count", "n_layers", "input", "control"]  # that runs of one classifier share
COLUMNS = [
    "suite", "model", "step", "width", "way", "trained_on", "texts", "tokens", "texts_count", "n_layers", "input",
    "control", "masked", "value", "ci_low", "ci_high", "n", "n_train", "converged",
]  # fmt: skip

AUTHORS_SEED = 0  # of their split
# Texts of which their code standardises all values by one mean and one deviation.
SCALED = ("pile", "pile_ascii")
INPUT_OF = {"raw": RAW, "normalized": "unit"}


@dataclass(frozen=True)
class Way:
    """How a published run is repeated.

    Attributes:
        name: ``faithful`` or ``corrected``.
        settings: of the fits.
        seed: of the split.
        first_position: earlier vectors are left out.
    """

    name: str
    settings: Settings
    seed: int
    first_position: int

    @classmethod
    def both(cls, settings: Settings, *, seed: int, first_position: int) -> tuple[Way, Way]:
        """The authors' way, and this study's with its own seed and first position."""
        return cls(FAITHFUL, settings, AUTHORS_SEED, 0), cls(CORRECTED, settings, seed, first_position)

    @property
    def faithful(self) -> bool:
        """Whether it is the authors' own."""
        return self.name == FAITHFUL

    def split(self, states: HiddenStates, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Training and test vectors, both bool ``[classes, vectors]``."""
        kind, fraction = ("vector", SGD_TEST_FRACTION) if self.faithful else ("text", self.settings.test_fraction)
        return train_test_split(states, used, split=kind, test_fraction=fraction, seed=self.seed)

    def classes(self, states: HiddenStates, n_layers: int) -> HiddenStates:
        """The states of as many layers as the run distinguished, the last ones; the corrected way always has all."""
        if not self.faithful or n_layers == len(states.classes):
            return states
        return replace(states, arrays={layer: states.arrays[layer] for layer in states.classes[-n_layers:]})


def repeatable(printed: pd.DataFrame, model: str, sources: Mapping[str, HiddenStates]) -> pd.DataFrame:
    """The published runs of a model for which there are texts enough, long enough, and as many layers.

    Args:
        printed: from `embscale.claims.published_scores.huang`.
        model: as in ``workflow/suites.yaml``.
        sources: hidden states by the name of the texts.
    """
    rows = printed[printed["model"] == model]

    def there(row: pd.Series) -> bool:
        return all(
            name in sources
            and row["texts_count"] <= len(np.unique(sources[name].text))
            and row["tokens"] <= int(sources[name].position.max()) + 1
            and 0 <= len(sources[name].classes) - row["n_layers"] <= 1  # all classes, or the blocks alone
            for name in (row["trained_on"], row["texts"])
        )

    return rows[[there(row) for _, row in rows.iterrows()]]


def rows(
    printed: pd.DataFrame,
    sources: Mapping[str, HiddenStates],
    ways: tuple[Way, ...],
    *,
    resamples: int,
    seed: int,
    report: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Repeat published runs, one classifier for all that differ in the tested texts or masked dimensions alone.

    Args:
        printed: from `repeatable`.
        sources: hidden states by the name of the texts.
        ways: from `Way.both`.
        resamples: bootstrap resamples of the texts.
        seed: of the resamples.
        report: told what has been fitted.

    Returns:
        Rows with the columns of `COLUMNS` from ``way`` on.
    """
    for keys, runs in printed.groupby(FITTED, sort=False):
        shared = dict(zip(FITTED, keys, strict=True))
        for way in ways:
            test, model, n_train = _fitted(way, sources[str(shared["trained_on"])], shared)
            for run in runs.to_dict("records"):
                tested = test if run["texts"] == run["trained_on"] else _elsewhere(way, sources[run["texts"]], run)
                tested = _masked(tested, run["masked"])
                correct = np.nonzero(tested.part)[0] == predict(model.model, tested)["predicted"]
                text = tested.of_each(tested.states.text)
                (found,) = probes.interval_rows(text, {"accuracy": correct}, resamples=resamples, seed=seed)
                described = {name: run[name] for name in (*FITTED, "texts", "masked")}
                measured = {name: found[name] for name in ("value", "ci_low", "ci_high", "n")}
                yield described | measured | {"way": way.name, "n_train": n_train, "converged": model.converged}
            report(f"{way.name}: {shared['tokens']} tokens of {shared['texts_count']} texts, {shared['input']}")


def _fitted(way: Way, source: HiddenStates, run: Mapping[str, Any]) -> tuple[Examples, Fitted, int]:
    """The test examples, the classifier, and how many vectors it was fitted on."""
    states, used = way.classes(source, run["n_layers"]), _used(way, source, run)
    if run["control"] != NO_CONTROL:
        states = control(states, used, run["control"], seed=way.seed, chunk=way.settings.chunk)
    parts = way.split(states, used)
    train, test = (Examples(states, part, way.settings.chunk) for part in parts)
    classifier = SGD if way.faithful else LOGISTIC_REGRESSION
    shape = _shapes(way, run, train)
    train, test = (select_features(classifier, replace(part, prepare=shape(part))) for part in (train, test))
    return test, fit(classifier, train, test, way.settings, seed=way.seed), len(train)


def _used(way: Way, states: HiddenStates, run: Mapping[str, Any]) -> np.ndarray:
    """Vectors of the first tokens of the first texts, bool ``[vectors]``."""
    texts = np.unique(states.text)[: run["texts_count"]]
    window = (states.position >= way.first_position) & (states.position < run["tokens"])
    used: np.ndarray = np.isin(states.text, texts) & window
    return used


def _shapes(way: Way, run: Mapping[str, Any], train: Examples) -> Callable[[Examples], Prepare]:
    """How vectors are prepared, given the examples that they are part of."""
    if way.faithful and run["input"] == RAW and run["trained_on"] in SCALED:
        return standardised_by_one_number
    prepare = prepared(INPUT_OF[run["input"]], train)
    return lambda examples: prepare


def standardised_by_one_number(examples: Examples) -> Prepare:
    """All values less their mean, by their deviation, whatever their column; of these examples alone."""
    count, total, squares = 0, 0.0, 0.0
    for features, _, _ in examples.chunks():
        count += features.size
        total += float(features.sum(dtype=np.float64))
        squares += float(np.square(features, dtype=np.float64).sum())
    mean = total / count
    deviation = np.sqrt(squares / count - mean**2)
    return lambda features, labels, vectors: ((features - mean) / deviation).astype(np.float32)


def _elsewhere(way: Way, source: HiddenStates, run: Mapping[str, Any]) -> Examples:
    """Test examples of other texts: the share that the authors tested on, or all."""
    states, used = way.classes(source, run["n_layers"]), _used(way, source, run)
    part = way.split(states, used)[1] if way.faithful else np.broadcast_to(used, (len(states.classes), len(used)))
    return Examples(states, part, way.settings.chunk)


def _masked(examples: Examples, dimensions: str) -> Examples:
    """The examples with some dimensions, as in ``591 690``, set to zero."""
    if not dimensions:
        return examples
    columns, prepare = [int(word) for word in dimensions.split()], examples.prepare

    def masked(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        kept = prepare(features, labels, vectors).copy()
        kept[:, columns] = 0.0
        return kept

    return replace(examples, prepare=masked)
