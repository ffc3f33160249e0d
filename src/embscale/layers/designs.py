"""Designs of training and test sets: number of texts, tokens per text, and source of texts.

The grid is Huang et al.'s Fig. 6, plus a second version with matched training sets.  The transfer matrix answers their
second question and adds the experiments that they planned: other sources, texts without punctuation, mixed training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from embscale.errors import EmbscaleError
from embscale.layers.classifiers import LOGISTIC_REGRESSION, SGD, Settings, check_memory
from embscale.layers.examples import NO_CONTROL, RAW, Examples, load_if_fits, mask_from, thinned, train_test_split
from embscale.layers.hidden_states import HiddenStates
from embscale.layers.probes import Condition, Fit, check, fitted, parts, warn

AS_PUBLISHED = "as_published"
MATCHED = "matched"

MIXED = "mixed"
TEXT_PAIR = "text_pair"


class Cell(NamedTuple):
    """One cell of the grid.

    Attributes:
        tokens: first tokens of each text.
        texts_count: how many texts.
        design: ``as_published`` uses all vectors, so longer windows have more training vectors; ``matched`` uses as
            many training vectors per layer as the shortest window has, so that windows differ only in length.
        condition: what was run.
        fits: one per seed.
    """

    tokens: int
    texts_count: int
    design: str
    condition: Condition
    fits: list[Fit]


class Transfer(NamedTuple):
    """One cell of the transfer matrix.

    Attributes:
        trained_on: name of a source of texts, or ``mixed``.
        tested_on: name of a source.
        condition: what was run.
        fits: one per seed.
    """

    trained_on: str
    tested_on: str
    condition: Condition
    fits: list[Fit]


def grid(
    states: HiddenStates,
    used: np.ndarray,
    settings: Settings,
    *,
    classifier: str,
    split: str,
    windows: Sequence[int],
    counts: Sequence[int],
    seeds: Sequence[int],
    name: str,
) -> Iterator[Cell]:
    """Fit classifiers for every window and every number of texts, from one set of states.

    All conditions are checked at once, before the first cell is asked for.

    The states of a shorter window are the first ones of a longer window: exactly so in a causal model, where no
    token sees a later one.  Smaller numbers of texts are prefixes of larger ones.

    Args:
        states: of texts at least as long as the longest window.
        used: vectors that take part, bool ``[vectors]``.
        settings: see there.
        classifier: logistic regression or `sgd`.
        split: how to split; `sgd` always splits by vector.
        windows: first tokens of each text.
        counts: numbers of texts.
        seeds: of the splits and of the choice of vectors in the matched design.
        name: of the model, for warnings.

    Raises:
        EmbscaleError: there are too few texts or tokens, a window contains no vector, or memory is too small.
    """
    texts = np.unique(states.text[used])
    last = int(states.position[used].max()) + 1
    if max(counts) > len(texts):
        raise EmbscaleError(f"{max(counts)} texts are wanted, but the states are of {len(texts)}")
    if max(windows) > last:
        raise EmbscaleError(f"a window of {max(windows)} tokens is wanted, but the states are of {last}")
    if min(windows) <= (first := int(states.position[used].min())):
        raise EmbscaleError(f"a window of {min(windows)} tokens is empty: the vectors used begin at position {first}")
    condition = Condition(classifier, "vector" if classifier == SGD else split, RAW, NO_CONTROL)
    cells = {
        (count, window): used & np.isin(states.text, texts[:count]) & (states.position < window)
        for count in counts
        for window in sorted(windows)
    }
    for here in cells.values():
        check(states, here, [condition], settings, seeds=seeds)
    return _cells(states, cells, condition, settings, seeds=seeds, name=name)


def _cells(
    states: HiddenStates,
    cells: Mapping[tuple[int, int], np.ndarray],
    condition: Condition,
    settings: Settings,
    *,
    seeds: Sequence[int],
    name: str,
) -> Iterator[Cell]:
    """Fit the cells of a grid: vectors by number of texts and window, short windows first."""
    per_layer: dict[tuple[int, int], int] = {}
    for (count, window), here in cells.items():
        made: dict[str, list[Fit]] = {AS_PUBLISHED: [], MATCHED: []}
        for seed in seeds:
            train, test = parts(states, here, condition, settings, seed=seed)
            fewest = per_layer.setdefault((count, seed), int(train.sum(axis=1).min()))
            for design, fits in made.items():
                part = train if design == AS_PUBLISHED else thinned(train, fewest, seed=seed)
                if design == MATCHED and (part == train).all():  # the shortest window
                    fits.append(made[AS_PUBLISHED][-1])
                    continue
                fit = fitted(
                    condition,
                    Examples(states, part, settings.chunk),
                    Examples(states, test, settings.chunk),
                    settings,
                    seed=seed,
                    start=fits[-1].fitted if fits else None,
                )
                warn(fit.fitted, condition, seed=seed, name=f"{name}, {window} tokens of {count} texts, {design}")
                fits.append(fit)
        for design, fits in made.items():
            yield Cell(window, count, design, condition, fits)


def transfer(
    sources: Mapping[str, HiddenStates],
    settings: Settings,
    *,
    first_position: int,
    seeds: Sequence[int],
    name: str,
) -> Iterator[Transfer]:
    """Train on each source of texts and on a mixture of all, and test on held-out texts of each source.

    All training sets have the same number of vectors per layer; the mixture takes an equal share from each source.  A
    text that occurs in several sources (for example with and without punctuation) is in the training set of all of them
    or of none.

    Args:
        sources: states of one model, by the name of the texts.
        settings: see there.
        first_position: earlier vectors are left out.
        seeds: of the train/test splits and of the choice of training vectors.
        name: of the model, for warnings.

    Raises:
        EmbscaleError: the states come from models with different layers or lack the ids of their texts, a source has
            too few texts, or memory is too small.
    """
    states, source = joined(sources)
    states = load_if_fits(states, memory_gb=settings.memory_gb)
    used = mask_from(states, first_position=first_position)
    condition = Condition(LOGISTIC_REGRESSION, TEXT_PAIR, RAW, NO_CONTROL)
    splits = []
    for seed in seeds:
        train, test = train_test_split(states, used, split="text", test_fraction=settings.test_fraction, seed=seed)
        trains, tests = ({name: part & (source == i) for i, name in enumerate(sources)} for part in (train, test))
        for of_source in sources:
            if not (trains[of_source].any() and tests[of_source].any()):
                raise EmbscaleError(
                    f"{of_source}, seed {seed}: no text is left to train or to test on; take more texts"
                )
        per_layer = min(int(part[0].sum()) for part in trains.values())
        share = max(1, per_layer // len(sources))
        trains = {of_source: thinned(part, per_layer, seed=seed) for of_source, part in trains.items()}
        trains[MIXED] = np.logical_or.reduce([thinned(part, share, seed=seed) for part in trains.values()])
        splits.append((trains, test))
    largest = max(int(part.sum()) for trains, _ in splits for part in trains.values())
    check_memory([condition.classifier], largest, states.width, settings)
    return _transfers(states, source, list(sources), splits, settings, condition, seeds=seeds, name=name)


def _transfers(
    states: HiddenStates,
    source: np.ndarray,
    sources: Sequence[str],
    splits: Sequence[tuple[Mapping[str, np.ndarray], np.ndarray]],
    settings: Settings,
    condition: Condition,
    *,
    seeds: Sequence[int],
    name: str,
) -> Iterator[Transfer]:
    """Fit the rows of a transfer matrix: for each seed the training masks by name, and the test mask of all sources."""
    for trained_on in (*sources, MIXED):
        made: dict[str, list[Fit]] = {of_source: [] for of_source in sources}
        before: Fit | None = None
        for seed, (trains, test) in zip(seeds, splits, strict=True):
            tested = Examples(states, test, settings.chunk)
            train = Examples(states, trains[trained_on], settings.chunk)
            # One fit, tested on the texts of all sources at once; predictions are then separated by source.
            fit = fitted(condition, train, tested, settings, seed=seed, start=before.fitted if before else None)
            warn(fit.fitted, condition, seed=seed, name=f"{name}, trained on {trained_on}")
            before = fit
            for i, of_source in enumerate(sources):
                made[of_source].append(_only(fit, tested.of_each(source) == i))
        for of_source, fits in made.items():
            yield Transfer(trained_on, of_source, condition, fits)


def _only(fit: Fit, chosen: np.ndarray) -> Fit:
    """A fit restricted to some of its test vectors."""
    names = ("true", "predicted", "confidence", "log_loss", "text", "position")
    return replace(fit, **{name: getattr(fit, name)[chosen] for name in names})


def joined(sources: Mapping[str, HiddenStates]) -> tuple[HiddenStates, np.ndarray]:
    """States of several sources of texts as one, and the source of each vector as an index.

    Texts with the same id are one text.

    Raises:
        EmbscaleError: the models have different layers, or the states lack the ids of their texts.
    """
    first = next(iter(sources))
    classes, width = sources[first].classes, sources[first].width
    ids: dict[str, int] = {}
    texts = []
    for name, states in sources.items():
        if (states.classes, states.width) != (classes, width):
            raise EmbscaleError(
                f"{name}: {len(states.classes)} layers of width {states.width}, but {first} has {len(classes)} of "
                f"width {width}; give states of one model"
            )
        if "text_ids" not in states.metadata:
            raise EmbscaleError(f"{name}: the states do not tell the ids of their texts; make them again")
        indexes = [ids.setdefault(text, len(ids)) for text in states.metadata["text_ids"]]
        texts.append(np.array(indexes)[states.text])
    together = HiddenStates(
        arrays=cast(
            "Mapping[str, np.ndarray]",
            {layer: Joined([states.arrays[layer] for states in sources.values()]) for layer in classes},
        ),
        text=np.concatenate(texts),
        position=np.concatenate([states.position for states in sources.values()]),
        token=np.concatenate([states.token for states in sources.values()]),
    )
    return together, np.repeat(np.arange(len(sources)), [len(text) for text in texts])


class Joined:
    """Several arrays stacked along the first axis, read in place."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays, self.ends = arrays, np.cumsum([len(array) for array in arrays])
        self.shape = (int(self.ends[-1]), arrays[0].shape[1])

    def __getitem__(self, vectors: np.ndarray) -> np.ndarray:
        """Some rows, float32 ``[len(vectors), width]``."""
        rows = np.empty((len(vectors), self.shape[1]), np.float32)
        of_array = np.searchsorted(self.ends, vectors, side="right")
        for i in np.unique(of_array):
            here = of_array == i
            rows[here] = self.arrays[i][vectors[here] - (self.ends[i] - len(self.arrays[i]))]
        return rows
