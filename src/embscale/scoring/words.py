"""Word probes of a table: analogies, degrees, relation neighbours, and human similarity judgements.

A probe uses only words that are a single token, either at the start of a text (``plain``) or after a space (``space``);
in most language models these are different rows.  Every result reports how many of a set's entries remain.  A word with
a zero row has no direction and counts as missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from scipy import stats

from embscale import resources
from embscale.errors import EmbscaleError
from embscale.statistics import shared_units
from embscale.statistics.resampling import seed_band
from embscale.statistics.vectors import rescaled
from embscale.tables import random_tables

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMS = ("plain", "space")
# The word set included in this package.
OWN = "own"
OWN_FILE = Path(resources.__file__).with_name("words.yaml")
# The set of pairs of forms of the same word, by frequency of the rarer form.
BOTH = "both"
TWO_FORMS = "two forms"
BANDS = ("rare", "middle", "frequent")

# Number of nearest neighbours to consider.
NEAREST = 10

# Questions per batch: bounds memory at 256 x words x 4 bytes.
QUESTIONS = 256

# Spearman's correlation of two pairs is 1 or -1 whatever the table.
FEWEST_PAIRS = 3

# Lowest and highest possible value: of shares, and of cosines and correlations.
SHARE, COSINE = (0.0, 1.0), (-1.0, 1.0)

COLUMNS = (
    "probe", "set", "section", "form", "metric", "value", "ci_low", "ci_high", "n", "units", "unit", "coverage",
    "total", "random_mean", "random_low", "random_high", "chance", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class WordVectors:
    """Words with a row each.

    Attributes:
        places: word to row; words may share one.
        vectors: ``[rows, dims]``, none of them zero.
    """

    places: dict[str, int]
    vectors: np.ndarray

    def find(self, entries: Sequence[Sequence[str]]) -> np.ndarray:
        """Indices of the words of entries whose words are all present and distinct, ``[entries, words]``."""
        if not len(entries):
            return np.empty((0, 0), np.int64)
        width = len(entries[0])
        known = [[self.places[word] for word in entry] for entry in entries if self.places.keys() >= set(entry)]
        found = [entry for entry in known if len(set(entry)) == width]
        return np.array(found, np.int64).reshape(-1, width)

    def unit(self) -> np.ndarray:
        """The rows scaled to norm 1."""
        vectors = rescaled(self.vectors, axis=1)  # so that no square leaves the range of float32
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@dataclass(frozen=True)
class Outcome:
    """One probe of one table.

    Attributes:
        probe: ``analogy``, ``degree``, ``relation`` or ``similarity``.
        section: of the set, or ``all``.
        metric: what was measured.
        total: entries of the section.
        chance: expected value if vectors carry no information about words; NaN if no formula is known.
        scores: of each usable entry, ``[entries]``; or the two variables to correlate, ``[entries, 2]``.
        units: what is independent of each other, one or two for each entry, ``[entries, 1 or 2]``.
        unit: what these are, in words.
        limits: lowest and highest possible value.
        fewest: minimum number of entries for a result.
    """

    probe: str
    section: str
    metric: str
    total: int
    chance: float
    scores: np.ndarray
    units: np.ndarray
    unit: str
    limits: tuple[float, float] = SHARE
    fewest: int = 1

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of an outcome within a set."""
        return self.probe, self.section, self.metric

    @property
    def value(self) -> float:
        """The mean of the entries, or Spearman's correlation of the two columns; NaN if they are too few."""
        return _statistic(self.scores) if len(self.scores) >= self.fewest else math.nan

    def interval(self) -> tuple[float, float, str]:
        """95 % interval over the units, cut at the limits; or NaN twice, and why there is none."""
        if len(self.scores) < self.fewest:
            return math.nan, math.nan, ""
        low, high, reason = shared_units.interval(_statistic, self.scores, self.units, unit=self.unit)
        low, high = np.clip([low, high], *self.limits).tolist()
        return low, high, reason


def _statistic(scores: np.ndarray) -> float:
    """The mean, or Spearman's correlation of two columns; 0 if one of them is constant."""
    if scores.ndim == 1:
        return float(scores.mean())
    x, y = (ranks - ranks.mean() for ranks in (stats.rankdata(column) for column in scores.T))
    spread = math.sqrt((x @ x) * (y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


# Which words are one token


def single_tokens(words: Iterable[str], tokenizer: Tokenizer, form: str) -> dict[str, int]:
    """The words that are a single token of the tokenizer, with their ids.

    Args:
        words: without spaces.
        tokenizer: of the table; its case folding and the like apply.
        form: ``plain``, as at the start of a text, or ``space``, as after another word.  Tokenizers that mark the
            starts of words give both the same token.
    """
    words = list(dict.fromkeys(words))
    before = "the" if form == "space" else ""
    prefix = tokenizer.encode(before, add_special_tokens=False).ids
    texts = [f"{before} {word}" if before else word for word in words]
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    found = {}
    for word, encoding in zip(words, encodings, strict=True):
        ids = encoding.ids
        if len(ids) != len(prefix) + 1 or ids[:-1] != prefix:
            continue
        # An unknown word is also one token, but not its own.
        if tokenizer.decode(ids[-1:]).strip().casefold() == word.casefold():
            found[word] = ids[-1]
    return found


def vocabulary(tokenizer: Tokenizer, form: str, *, asked: Iterable[str]) -> dict[str, int]:
    """Single-token words with their ids: all alphabetic ones of the tokenizer, and the requested ones.

    If the tokenizer folds case, several words share a token.
    """
    tokens = range(tokenizer.get_vocab_size())
    words = (text for text in (tokenizer.decode([token]).strip() for token in tokens) if text.isalpha())
    return single_tokens([*words, *sorted(asked)], tokenizer, form)


def two_forms(
    vocabularies: Mapping[str, Mapping[str, int]], counts: np.ndarray | None
) -> tuple[dict[str, int], WordSet]:
    """Words that are single tokens in both forms, as pairs: related words that need no word list.

    Only the training texts reveal that the two forms are related, so the probe works for rare tokens as well as for
    frequent ones (Mikolov et al. 2013a state that skip-gram represents rare words better).

    Args:
        vocabularies: of `vocabulary`, by form.
        counts: how often each token occurs in the texts, ``[tokens]``; None if that is not known.

    Returns:
        All words of both forms, prefixed with the form, with their tokens; and the pairs: ``all`` and, if there are
        counts, three groups of equal size ordered by the rarer form's count (`BANDS`).
    """
    names = {f"{form} {word}": token for form, words in vocabularies.items() for word, token in words.items()}
    plain, space = (vocabularies[form] for form in FORMS)
    shared = [word for word in plain if word in space and plain[word] != space[word]]
    sections = {"all": shared}
    if counts is not None and shared:
        rarer = counts[np.array([(plain[word], space[word]) for word in shared])].min(axis=1)
        parts = np.array_split(np.argsort(rarer, kind="stable"), len(BANDS))
        sections |= {band: [shared[i] for i in part] for band, part in zip(BANDS, parts, strict=True)}
    pairs = {
        section: [(f"{FORMS[0]} {word}", f"{FORMS[1]} {word}") for word in some] for section, some in sections.items()
    }
    return names, WordSet(TWO_FORMS, {}, [], pairs, [])


def word_vectors(blocks: Iterable[np.ndarray], words: Mapping[str, int]) -> WordVectors:
    """Collect the rows of words, each row once, from a table that is read in blocks.

    Args:
        blocks: the table from top to bottom, ``[rows of a block, dims]``.
        words: with the row of each.

    Raises:
        EmbscaleError: the table ends before a word's row.
    """
    ids = np.unique(np.fromiter(words.values(), np.int64, len(words)))
    start, kept = 0, []
    for block in blocks:
        kept.append(block[ids[(ids >= start) & (ids < start + len(block))] - start])
        start += len(block)
    if len(ids) and ids[-1] >= start:
        raise EmbscaleError(
            f"the tokenizer has the token {ids[-1]}, but the table has {start} rows; "
            "give the tokenizer that belongs to the table"
        )
    vectors = np.concatenate(kept)
    nonzero = vectors.any(axis=1)
    place = {token: place for place, token in enumerate(ids[nonzero].tolist())}
    return WordVectors({word: place[token] for word, token in words.items() if token in place}, vectors[nonzero])


# Sets of questions


@dataclass(frozen=True)
class WordSet:
    """A set of probe entries.

    Attributes:
        name: of the set.
        analogies: section to questions ``(a, b, c, d)``: a is to b as c is to d.
        degrees: positive, comparative, superlative.
        relations: kind of relation to pairs.
        similarities: pairs with a human rating.
    """

    name: str
    analogies: dict[str, list[tuple[str, str, str, str]]]
    degrees: list[tuple[str, str, str]]
    relations: dict[str, list[tuple[str, str]]]
    similarities: list[tuple[str, str, float]]

    def words(self) -> set[str]:
        """All words of the set."""
        entries = (self.degrees, (pair[:2] for pair in self.similarities), *self.analogies.values())
        return {word for some in (*entries, *self.relations.values()) for entry in some for word in entry}


def own_set() -> WordSet:
    """The set included in this package; every ordered pair of pairs of an analogy section is a question."""
    entries = yaml.safe_load(OWN_FILE.read_text("utf-8"))
    analogies = {
        section: [(*one, *other) for one in pairs for other in pairs if other is not one]
        for section, pairs in entries["analogies"].items()
    }
    relations = {kind: [tuple(pair) for pair in pairs] for kind, pairs in entries["relations"].items()}
    return WordSet(OWN, analogies, [tuple(triple) for triple in entries["degrees"]], relations, [])


def read_analogies(path: Path) -> WordSet:
    """Read a file in the format of Mikolov et al. 2013a: four words per line, sections after a colon.

    Raises:
        EmbscaleError: a line has another format, or there is no question.
    """
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    section = "all questions"
    for number, line in _lines(path):
        words = line.split()
        if words[0].startswith(":"):
            section = line[1:].strip()
            sections[section] = []
        elif len(words) == 4:
            sections.setdefault(section, []).append((words[0], words[1], words[2], words[3]))
        else:
            raise EmbscaleError(f"{path}:{number}: expected four words or ': SECTION', found {line[:60]!r}")
    if not any(sections.values()):
        raise EmbscaleError(f"{path}: no questions; expected lines of four words under lines ': SECTION'")
    return WordSet(path.stem, sections, [], {}, [])


def read_similarities(path: Path) -> WordSet:
    """Read a file of rated word pairs, as in WordSim-353 and SimLex-999.

    Two words, then among other things the number, separated by tabs, semicolons or commas; the first line may name
    the columns, and lines that start with # are ignored.

    Raises:
        EmbscaleError: a line has another format, or there is no pair.
    """
    pairs = []
    for number, line in _lines(path):
        if line.startswith("#"):
            continue
        separator = next((mark for mark in "\t;," if mark in line), None)
        fields = [field.strip() for field in line.split(separator)]
        given = next((float(field) for field in fields[2:] if _is_number(field)), None)
        if given is not None:
            pairs.append((fields[0], fields[1], given))
        elif pairs or number > 1:
            raise EmbscaleError(f"{path}:{number}: expected two words and a number, found {line[:60]!r}")
    if not pairs:
        raise EmbscaleError(f"{path}: no pairs; expected lines of two words and a number")
    return WordSet(path.stem, {}, [], {}, pairs)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise EmbscaleError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    return ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


# Probes


def probe(vectors: WordVectors, words: WordSet) -> list[Outcome]:
    """Run every probe for which a set has entries."""
    return [
        *analogies(vectors, words.analogies),
        *degrees(vectors, words.degrees),
        *relations(vectors, words.relations),
        *similarities(vectors, words.similarities),
    ]


def analogies(vectors: WordVectors, sections: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[Outcome]:
    """Which word, except the three given ones, is nearest to ``b - a + c`` (3CosAdd, unit vectors)?

    Levy and Goldberg 2014, "Linguistic regularities in sparse and explicit word representations", eq. 1 and 3.
    ``accuracy``: the expected word is nearest.  ``reciprocal_rank`` and ``percentile`` (the share of the other words
    that are farther away) also credit near misses.  A word at the same distance as the expected one counts half.
    """
    unit = vectors.unit()
    candidates = max(len(unit) - 3, 1)  # the expected word among them
    chance = {
        "accuracy": 1 / candidates,
        "reciprocal_rank": float(np.sum(1 / np.arange(1, candidates + 1))) / candidates,
        "percentile": 0.5,
    }
    everything = {section: list(questions) for section, questions in sections.items()}
    if len(sections) > 1:
        everything["all"] = [question for questions in sections.values() for question in questions]
    for section, questions in everything.items():
        found = vectors.find(questions).reshape(-1, 4)
        ranks = np.concatenate([np.empty(0), *(_ranks(unit, some) for some in _some(found))])
        # A question is made from two pairs, and pairs with a common word count as one.
        pairs = shared_units.linked(found.reshape(-1, 2))[found[:, [0, 2]]]
        scores = {
            "accuracy": (ranks == 1).astype(float),
            "reciprocal_rank": 1 / ranks,
            "percentile": 1 - (ranks - 1) / max(candidates - 1, 1),
        }
        for metric, values in scores.items():
            yield Outcome("analogy", section, metric, len(questions), chance[metric], values, pairs, "pairs")


def _some(entries: np.ndarray) -> Iterator[np.ndarray]:
    return (entries[start : start + QUESTIONS] for start in range(0, len(entries), QUESTIONS))


def _ranks(unit: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Rank of the expected word from 1, ``[questions]``."""
    a, b, c, d = questions.T
    cosines = (unit[b] - unit[a] + unit[c]) @ unit.T
    expected = np.take_along_axis(cosines, d[:, None], axis=1)
    np.put_along_axis(cosines, questions[:, :3], -np.inf, axis=1)
    return (cosines > expected).sum(axis=1) + ((cosines == expected).sum(axis=1) + 1) / 2


def degrees(vectors: WordVectors, triples: Sequence[Sequence[str]]) -> Iterator[Outcome]:
    """Do a word and its two degrees lie on a line, in order, and does a factor lead from each to the next?

    ``collinearity``: the cosine of the two steps; for independent vectors it is -1/2, because both involve the
    comparative.
    ``in_order``: the comparative is the middle one of the three, none of the distances being longer than that between
    the ends.  ``projected_between``: its projection on their line lies between them, which also holds for nearly all
    independent vectors.  ``lengths_rise``: norms increase, as with a factor above 1.
    ``same_direction``: the mean cosine of neighbours, 1 if each is a multiple of the one before.  ``addition_gain`` and
    ``multiplication_gain``: increase in the cosine with the comparative when the positive is shifted by an offset, or
    multiplied by a factor per column, fitted to all other triples (least squares).
    """
    total = len(triples)
    if not total:
        return
    found = vectors.find(triples).reshape(-1, 3)
    groups = shared_units.linked(found)[found[:, :1]]
    a, b, c = np.moveaxis(vectors.vectors.astype(np.float64)[found], 1, 0)
    lengths = [np.linalg.norm(x, axis=1) for x in (a, b, c)]
    first, second, ends = b - a, c - b, c - a
    spans = [np.linalg.norm(x, axis=1) for x in (first, second, ends)]
    place = np.divide((first * ends).sum(axis=1), spans[2] ** 2, out=np.full(len(a), 0.5), where=spans[2] > 0)
    scores = {
        "collinearity": (_cosine(first, second), -1 / 2, COSINE),
        "in_order": ((spans[2] > np.maximum(spans[0], spans[1])).astype(float), 1 / 3, SHARE),
        "projected_between": (((place > 0) & (place < 1)).astype(float), math.nan, SHARE),
        "lengths_rise": (((lengths[0] < lengths[1]) & (lengths[1] < lengths[2])).astype(float), 1 / 6, SHARE),
        "same_direction": ((_cosine(a, b) + _cosine(b, c)) / 2, 0.0, COSINE),
    }
    for metric, (values, chance, limits) in scores.items():
        yield Outcome("degree", "all", metric, total, chance, values, groups, "triples", limits)
    others = max(len(a) - 1, 1)
    offset = (first.sum(axis=0) - first) / others
    squares = (a * a).sum(axis=0) - a * a
    factor = np.divide((a * b).sum(axis=0) - a * b, squares, out=np.ones_like(a), where=squares > 0)
    for metric, predicted in (("addition_gain", a + offset), ("multiplication_gain", a * factor)):
        gain = _cosine(predicted, b) - _cosine(a, b)
        yield Outcome("degree", "all", metric, total, 0.0, gain, groups, "triples", (-2.0, 2.0), fewest=2)


def _cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of each pair of rows; 0 if one is zero."""
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    return np.divide((x * y).sum(axis=1), lengths, out=np.zeros(len(x)), where=lengths > 0)


def relations(vectors: WordVectors, kinds: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[Outcome]:
    """Are related words nearer to each other than to other words?

    ``percentile``: the share of all other words that are farther away than the related word, averaged over both
    directions: the area under the ROC curve of related against random words.  ``in_ten_nearest``: how often the related
    word is among the ten nearest of all words.
    """
    unit = vectors.unit()
    others = max(len(unit) - 2, 1)
    for kind, pairs in kinds.items():
        found = vectors.find(pairs).reshape(-1, 2)
        ranks = np.concatenate(
            [np.empty((0, 2)), *(np.stack([_near(unit, *p.T), _near(unit, *p.T[::-1])], 1) for p in _some(found))]
        )
        percentile = 1 - (ranks - 1).mean(axis=1) / others
        nearest = (ranks <= NEAREST).mean(axis=1)
        chance = min(1.0, NEAREST / (others + 1))
        groups = shared_units.linked(found)[found[:, :1]]
        yield Outcome("relation", kind, "percentile", len(pairs), 0.5, percentile, groups, "pairs")
        yield Outcome("relation", kind, "in_ten_nearest", len(pairs), chance, nearest, groups, "pairs")


def _near(unit: np.ndarray, word: np.ndarray, related: np.ndarray) -> np.ndarray:
    """Rank of the related word among the neighbours of a word from 1, ``[pairs]``."""
    cosines = unit[word] @ unit.T
    expected = np.take_along_axis(cosines, related[:, None], axis=1)
    np.put_along_axis(cosines, word[:, None], -np.inf, axis=1)
    return (cosines > expected).sum(axis=1) + ((cosines == expected).sum(axis=1) + 1) / 2


def similarities(vectors: WordVectors, pairs: Sequence[tuple[str, str, float]]) -> Iterator[Outcome]:
    """Spearman's correlation of cosines with human similarity ratings (``spearman``)."""
    if not pairs:
        return
    known = [pair for pair in pairs if len(vectors.find([pair[:2]]))]
    given = np.array([pair[2] for pair in known])
    found = vectors.find([pair[:2] for pair in known] or [("", "")]).reshape(-1, 2)
    first, second = vectors.unit()[found].transpose(1, 0, 2)
    scores = np.stack([(first * second).sum(axis=1).astype(np.float64), given], axis=1)
    # Pairs of a rated set share words, often all of them through others, so the words themselves are the units.
    yield Outcome("similarity", "all", "spearman", len(pairs), 0.0, scores, found, "words", COSINE, FEWEST_PAIRS)


# Rows


def word_set_rows(
    vectors: WordVectors,
    sets: Sequence[WordSet],
    *,
    form: str,
    random_seeds: Sequence[int],
) -> list[dict[str, Any]]:
    """Tidy rows of every probe of every set, with chance levels and a baseline of random vectors.

    Args:
        vectors: all words that are one token in this form.
        sets: the word sets to probe.
        form: recorded in the rows.
        random_seeds: of the random vectors, which have the shape of the table's.

    Returns:
        Rows with `COLUMNS`: ``n`` of ``total`` entries could be used, the ``coverage``; the interval is over their
        ``units``, of which ``unit`` is the name; ``random_low`` and ``random_high`` are the lowest and the highest
        value over seeds; ``reason`` says why there is no value or no interval.
    """
    count, dims = vectors.vectors.shape
    at_random = [
        replace(vectors, vectors=random_tables.independent(count, dims, random_seed) if count else vectors.vectors)
        for random_seed in random_seeds
    ]
    rows = []
    for words in sets:
        baseline = [{outcome.key: outcome.value for outcome in probe(random, words)} for random in at_random]
        for outcome in probe(vectors, words):
            n, total = len(outcome.scores), outcome.total
            low, high, reason = outcome.interval()
            band = seed_band([values[outcome.key] for values in baseline])
            if n < outcome.fewest:
                reason = _reason(n, total, outcome.fewest, form)
            values = (
                outcome.probe, words.name, outcome.section, form, outcome.metric, outcome.value, low, high, n,
                len(np.unique(outcome.units)), outcome.unit, n / total if total else math.nan, total, band.mean,
                band.lowest, band.highest, outcome.chance, reason,
            )  # fmt: skip
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _reason(n: int, total: int, fewest: int, form: str) -> str:
    if not total:
        return "the section is empty"
    where = {"plain": "at the start of a text", "space": "behind a space", BOTH: "in both forms"}[form]
    needed = "" if fewest == 1 else f", {fewest} are needed"
    return f"{n} of {total} entries have words that are one token each {where} with a row of their own{needed}"
