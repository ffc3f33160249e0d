"""Ways to change an embedding table, each a pure function from table to table.

A variant reads a table from top to bottom, as often as needed, and yields the changed table in blocks of rows.  It
keeps only a few blocks in memory and, for principal components, one or two float64 matrices ``[dims, dims]``.  Sums
over rows are in float64; returned values are float32.

All rows have equal weight, as in the papers, including those of rare tokens and of padding at the end of a vocabulary.

A text's vector is the mean of its tokens' rows, so scaling rows weights tokens in that mean (``idf``, ``sif``,
``unit``), and dividing by the sum of the weights would change no cosine.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ParamSpec, Protocol, cast

import numpy as np
from scipy.linalg import blas, eigh

from embscale.checkpoints.dtypes import round_to_bfloat16
from embscale.errors import EmbscaleError
from embscale.tables import random_tables
from embscale.tables.random_tables import Generator, RandomTable
from embscale.tables.table_files import BLOCK_ROWS, chosen, join
from embscale.texts.tokens import TokenisedTexts


class Rows(Protocol):
    """A table ``[rows, dims]`` that returns float32 rows by slice: an array, or a table on disk (`tables.Stored`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and dims."""

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        """Rows one after the other."""


Arguments = ParamSpec("Arguments")

# Sources of variants: an existing table, or one that is drawn again each time it is read.
Source = Rows | RandomTable


@dataclass(frozen=True)
class Context:
    """Token frequencies in the documents of a task.

    Attributes:
        document_frequency: number of documents with the token, ``[rows]``.
        frequency: occurrences in all documents, ``[rows]``.
        documents: number of documents.
    """

    document_frequency: np.ndarray
    frequency: np.ndarray
    documents: int

    @classmethod
    def of(cls, documents: TokenisedTexts, rows: int) -> Context:
        """Count tokenised documents, for a table with the given number of rows.

        Raises:
            EmbscaleError: a document contains a token beyond these rows.
        """
        highest = int(documents.ids.max(initial=-1))
        if highest >= rows:
            raise EmbscaleError(f"the texts hold token {highest}, but the table has {rows} rows")
        ids, _, _ = documents.counts()
        return cls(np.bincount(ids, minlength=rows), np.bincount(documents.ids, minlength=rows), len(documents))


# The fields after the first word of each variant, in order.
FORMS: dict[str, tuple[str, ...]] = {
    "full": (),
    "crop": ("dims",),
    "crop_random": ("dims", "seed"),
    "crop_pca": ("dims",),
    "crop_projection": ("dims", "seed"),
    "pad": ("dims", "seed"),
    "pad_faithful": ("dims", "seed", "generator"),
    "pad_rms": ("dims", "seed"),
    "pad_ratio": ("ratio", "seed"),
    "unit": (),
    "centred": (),
    "all_but_top": ("removed",),
    "whitened": (),
    "sif": ("a",),
    "idf": (),
    "bf16": (),
}

# The pattern of each field, and its description in error messages.
NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
FIELDS = {
    "dims": (r"0*[1-9]\d{0,8}", "a whole number from 1"),
    "seed": (r"\d{1,9}", "a whole number of up to 9 digits"),
    "generator": ("legacy|current", "legacy or current"),
    "ratio": (f"{NUMBER}|inf", "a number from 0 to inf"),
    "removed": (r"\d{1,9}", "a whole number"),
    "a": (NUMBER, "a number above 0"),
}
STRENGTHS = ("ratio", "removed", "a")


@dataclass(frozen=True)
class Variant:
    """A named way to change a table.

    ============================================  =====================================================
    ``full``                                      the table
    ``crop:DIMS``                                 its first columns
    ``crop_random:DIMS:SEED``                     columns chosen at random ``crop_pca:DIMS``
    its first principal components ``crop_projection:DIMS:SEED``                 a random projection ``pad:DIMS:SEED``
    random columns appended, at the scale of Corey 2024 ``pad_faithful:DIMS:SEED[:legacy|:current]``  those that Corey's
    code appends, bit for bit ``pad_rms:DIMS:SEED``                         random columns at the table's own scale
    ``pad_ratio:RATIO:SEED``                      as many random columns, RATIO times as large ``unit`` rows of norm 1
    ``centred``                                   rows less their mean ``all_but_top:REMOVED`` less the first principal
    components too ``whitened``                                  principal components, all of the same variance
    ``sif:A``, ``idf``                            rows weighted by how rare their tokens are ``bf16`` values rounded to
    bfloat16 ============================================ =====================================================

    Attributes:
        kind: the first word, as it stands in the column ``variant``.
        dims: DIMS.
        seed: SEED.
        strength: RATIO, REMOVED or A.
        generator: which of torch's generators ``pad_faithful`` uses.
    """

    kind: str
    dims: int | None = None
    seed: int | None = None
    strength: float | None = None
    generator: Generator | None = None

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Parse one of the specifications above.

        Raises:
            EmbscaleError: the text has another form.
        """
        kind, *words = text.split(":")
        if kind not in FORMS:
            raise EmbscaleError(f"variant {text!r}: expected one of {', '.join(FORMS)}")
        form = FORMS[kind]
        if kind == "pad_faithful" and len(words) == 2:
            words.append("legacy")  # what the published numbers were made with
        right = len(words) == len(form) and all(
            re.fullmatch(FIELDS[name][0], word, re.ASCII) for name, word in zip(form, words, strict=True)
        )
        values = dict(zip(form, words, strict=True)) if right else {}
        strength = next((float(values[name]) for name in STRENGTHS if name in values), None)
        if not right or ("a" in values and strength in (0, np.inf)):
            raise EmbscaleError(
                f"variant {text!r}: expected {':'.join([kind, *map(str.upper, form)])}"
                + "".join(f", {name.upper()} {FIELDS[name][1]}" for name in form)
            )
        return cls(
            kind,
            dims=int(values["dims"]) if "dims" in values else None,
            seed=int(values["seed"]) if "seed" in values else None,
            strength=strength,
            generator=cast("Generator | None", values.get("generator")),
        )

    @property
    def text(self) -> str:
        """The specification above; the inverse of `parse`."""
        strength = None if self.strength is None else str(self.strength).removesuffix(".0")
        parts = [self.kind, self.dims, strength, self.seed, self.generator]
        return ":".join(str(part) for part in parts if part is not None)

    def apply(self, table: Source, context: Context | None = None) -> np.ndarray:
        """The changed table, float32 ``[rows, dims]``.

        Args:
            table: ``[rows, dims]``; not modified, and returned itself for ``full``.
            context: the counts that ``sif`` and ``idf`` need.

        Raises:
            EmbscaleError: the variant cannot be computed for this table, or the counts are missing or of another number
                of rows.
        """
        if self.kind == "full" and isinstance(table, np.ndarray):
            return table.astype(np.float32, copy=False)
        return join(self.blocks(table, context), table.shape[0])

    def blocks(self, table: Source, context: Context | None = None) -> Again:
        """The same from top to bottom, float32 ``[up to BLOCK_ROWS, dims]`` at a time, not to be written to.

        The blocks can be iterated repeatedly; principal components are computed only once.
        """
        match self:
            case Variant("full"):
                return read(table)
            case Variant("crop", int(dims)):
                return crop(table, dims)
            case Variant("crop_random", int(dims), int(seed)):
                return crop_random(table, dims, seed=seed)
            case Variant("crop_pca", int(dims)):
                return crop_pca(table, dims)
            case Variant("crop_projection", int(dims), int(seed)):
                return crop_projection(table, dims, seed=seed)
            case Variant("pad" | "pad_rms", int(dims), int(seed)):
                return pad(table, dims, seed=seed, matched=self.kind == "pad_rms")
            case Variant("pad_faithful", int(dims), int(seed), generator=str(generator)):
                return pad_faithful(table, dims, seed=seed, generator=generator)
            case Variant("pad_ratio", seed=int(seed), strength=float(ratio)):
                return pad_ratio(table, ratio, seed=seed)
            case Variant("unit"):
                return unit(table)
            case Variant("centred"):
                return centred(table)
            case Variant("all_but_top", strength=float(removed)):
                return all_but_top(table, int(removed))
            case Variant("whitened"):
                return whitened(table)
            case Variant("sif", strength=float(a)):
                return weighted(table, sif_weights(self._counts(table, context), a))
            case Variant("idf"):
                return weighted(table, idf_weights(self._counts(table, context)))
            case Variant("bf16"):
                return rounded(table)
        raise ValueError(f"{self}: make variants by Variant.parse")

    def _counts(self, table: Source, context: Context | None) -> Context:
        if context is None:
            raise EmbscaleError(f"variant {self.text!r}: needs the texts of a task, whose tokens it counts")
        if {len(context.frequency), len(context.document_frequency)} != {table.shape[0]}:
            raise EmbscaleError(
                f"variant {self.text!r}: counts of {len(context.frequency)} tokens for a table of {table.shape[0]} rows"
            )
        return context


class Again:
    """A repeatable iterable: calls a generator function anew for each iteration."""

    def __init__(self, make: Callable[[], Iterator[np.ndarray]]) -> None:
        self.make = make

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.make()

    def some(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Select rows (ascending) from the blocks."""
        return chosen(self, rows)


class Changed(Again):
    """A table in which each row is changed independently."""

    def __init__(self, table: Source, change: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(lambda: map(change, read(table)))
        self.table, self.change = table, change

    def some(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """The same without changing the other rows."""
        return map(self.change, chosen(read(self.table), rows))


def repeatable(function: Callable[Arguments, Iterator[np.ndarray]]) -> Callable[Arguments, Again]:
    """Make a generator function return a repeatable iterable."""

    @functools.wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Again:
        return Again(functools.partial(function, *args, **kwargs))

    return wrapped


@repeatable
def read(table: Source) -> Iterator[np.ndarray]:
    """The table itself, float32."""
    if isinstance(table, RandomTable):
        yield from table.blocks()
        return
    for start in range(0, table.shape[0], BLOCK_ROWS):
        yield np.asarray(table[start : start + BLOCK_ROWS], dtype=np.float32)


# Fewer columns


def crop(table: Source, dims: int) -> Again:
    """The first `dims` columns; all of them if there are no more (Corey, "crop")."""
    return Changed(table, lambda block: block[:, :dims])


def crop_random(table: Source, dims: int, *, seed: int) -> Again:
    """`dims` columns drawn without replacement, in their original order; all of them if there are no more.

    The control for ``crop``: it shows whether the first columns are special.
    """
    columns = table.shape[1]
    places = np.sort(np.random.default_rng(seed).permutation(columns)[:dims])
    return Changed(table, lambda block: block[:, places])


def crop_projection(table: Source, dims: int, *, seed: int) -> Again:
    """Projections on `dims` random directions; the table itself if it does not have more columns.

    The directions have independent normal components of variance ``1 / dims``, so that squared norms and distances are
    preserved in expectation, with a relative deviation of ``sqrt(2 / dims)`` (Dasgupta and Gupta 2003, "An elementary
    proof of a theorem of Johnson and Lindenstrauss").
    """
    columns = table.shape[1]
    if dims >= columns:
        return read(table)
    directions = np.random.default_rng(seed).standard_normal((columns, dims), dtype=np.float32)
    directions /= np.float32(np.sqrt(dims))
    return Changed(table, lambda block: block @ directions)


def crop_pca(table: Source, dims: int) -> Again:
    """The centred rows in the coordinates of the first `dims` principal components, the largest first.

    Of all projections of the centred table to this many dimensions, it preserves the most variance (Pearson 1901).  If
    `dims` is at least the number of columns, it only rotates the centred table and changes no cosine.
    """
    centre = mean(table)
    _, directions = components(table, centre, dims)
    return Changed(table, lambda block: ((block - centre) @ directions)[:, ::-1].astype(np.float32))


# More columns


def pad(table: Source, dims: int, *, seed: int, matched: bool) -> Again:
    """Random columns appended up to `dims` in all; the table itself if it has as many (Corey, "pad").

    Args:
        table: ``[rows, d]``.
        dims: columns of the result.
        seed: seed of the random columns.
        matched: give the random columns the table's root mean square, so that trained and random columns have equal
            weight on average.  Otherwise their standard deviation is that of Corey 2024, ``sqrt(2 / (rows + dims))``
            (xavier normal), whatever the table's scale.
    """
    rows, trained = table.shape
    if dims <= trained:
        return read(table)
    scale = root_mean_square(table) if matched else random_tables.deviation(rows, dims)
    return _beside(read(table), _noise(rows, dims - trained, seed, scale))


def pad_faithful(table: Source, dims: int, *, seed: int, generator: Generator) -> Again:
    """Columns appended as in Corey's code; the table itself if it has as many.

    Corey's code fills a bfloat16 table of `dims` columns (`random_tables.faithful`), so each `dims` is another draw,
    and replaces its first columns by the trained ones.  It also rounds the trained columns to bfloat16 (``bf16``); here
    they are not rounded.
    """
    rows, trained = table.shape
    if dims <= trained:
        return read(table)
    drawn = Again(lambda: random_tables.blocks(rows, dims, seed, generator, dims, first=trained))
    return _beside(read(table), drawn)


def pad_ratio(table: Source, ratio: float, *, seed: int) -> Again:
    """As many random columns as the table has, appended; their root mean square is `ratio` times the table's.

    The inner product of two texts is then that of the table plus, from the random columns, a measure of token overlap
    weighted by the square of the ratio.  At 0 the appended columns are zeros, so the scores are those of the table.  At
    infinity the table's own columns are zeros, which leaves the random table of this shape and seed
    (`random_tables.independent`), every other ratio uses the same random table, scaled.
    """
    rows, columns = table.shape
    if ratio == np.inf:
        return _beside(Changed(table, np.zeros_like), Again(lambda: random_tables.blocks(rows, columns, seed)))
    return _beside(read(table), _noise(rows, columns, seed, ratio * root_mean_square(table)))


@repeatable
def _noise(rows: int, columns: int, seed: int, scale: float) -> Iterator[np.ndarray]:
    """Independent normal values of this standard deviation."""
    generator = np.random.default_rng(seed)
    for start in range(0, rows, BLOCK_ROWS):
        block = generator.standard_normal((min(BLOCK_ROWS, rows - start), columns), dtype=np.float32)
        block *= np.float32(scale)
        yield block


@repeatable
def _beside(left: Iterable[np.ndarray], right: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    return (np.concatenate(pair, axis=1) for pair in zip(left, right, strict=True))


# The same columns, another geometry


def unit(table: Source) -> Again:
    """Rows of norm 1, so that each token has equal weight in a text; zero rows are kept."""

    def scaled(block: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(block.astype(np.float64), axis=1, keepdims=True)
        return (block / np.where(lengths > 0, lengths, 1)).astype(np.float32)

    return Changed(table, scaled)


def centred(table: Source) -> Again:
    """Rows minus their mean, the component common to all rows (Mu and Viswanath 2018, section 2)."""
    centre = mean(table)
    return Changed(table, lambda block: (block - centre).astype(np.float32))


def all_but_top(table: Source, removed: int) -> Again:
    """Centred rows minus their first `removed` principal components (Mu and Viswanath 2018, algorithm 1).

    The paper proposes about one component for each hundred columns.  It subtracts the components of the uncentred rows,
    which leaves all rows with a common offset along the removed directions; here those of the centred rows are
    subtracted, which leaves nothing.  With 0, the centred table.

    Raises:
        EmbscaleError: no column would be left.
    """
    columns = table.shape[1]
    if removed >= columns:
        raise EmbscaleError(f"variant 'all_but_top:{removed}': the table has {columns} columns, so nothing is left")
    if removed == 0:
        return centred(table)
    centre = mean(table)
    _, directions = components(table, centre, removed)

    def without(block: np.ndarray) -> np.ndarray:
        rows = block - centre
        return (rows - (rows @ directions) @ directions.T).astype(np.float32)

    return Changed(table, without)


def whitened(table: Source) -> Again:
    """Centred rows in the coordinates of the principal components, each divided by its deviation (Su et al. 2021).

    The covariance of the result, divided by rows, is the identity.  Directions whose variance is within rounding error,
    of the values (float32) or of the covariance (float64), are dropped.

    Raises:
        EmbscaleError: all rows are the same.
    """
    centre = mean(table)
    variances, directions = components(table, centre, table.shape[1])
    largest, precision = variances[-1], np.finfo(np.float64).eps * len(variances)
    if largest <= 1e-24 * np.square(centre).max():  # rounding error of the mean when there is no variance
        raise EmbscaleError("variant 'whitened': all rows of the table are the same, so there is no variance")
    first = int(np.argmax(variances > largest * max(precision, np.finfo(np.float32).eps ** 2)))  # in ascending order
    directions = directions[:, first:]
    directions /= np.sqrt(variances[first:])
    return Changed(table, lambda block: ((block - centre) @ directions)[:, ::-1].astype(np.float32))


def rounded(table: Source) -> Again:
    """Values rounded to bfloat16."""
    return Changed(table, round_to_bfloat16)


# Weights of tokens


@repeatable
def weighted(table: Source, weights: np.ndarray) -> Iterator[np.ndarray]:
    """Each row times its token's weight ``[rows]``, so that a text's vector is a weighted mean of its tokens."""
    for start, block in zip(range(0, table.shape[0], BLOCK_ROWS), read(table), strict=True):
        yield (block * weights[start : start + BLOCK_ROWS, None]).astype(np.float32)


def idf_weights(context: Context) -> np.ndarray:
    """``log((1 + documents) / (1 + document frequency))``, float64 ``[rows]``.

    Inverse document frequency: how informative it is that a document contains a token (Spärck Jones 1972, Robertson
    2004).  One additional document with every token keeps the weights of tokens that occur only in queries finite.  A
    token in every document has weight 0, since it distinguishes none of them.
    """
    return np.log((1 + context.documents) / (1 + context.document_frequency.astype(np.float64)))


def sif_weights(context: Context, a: float) -> np.ndarray:
    """``a / (a + p(token))``, float64 ``[rows]``, p being the token's share of all tokens of the documents.

    Smooth inverse frequency (Arora, Liang and Ma 2017, algorithm 1, which also removes the first principal component
    of the texts' vectors; that is not done here).  The paper takes a between 0.0001 and 0.001.

    Raises:
        EmbscaleError: the documents have no tokens.
    """
    total = context.frequency.sum(dtype=np.float64)
    if not total:
        raise EmbscaleError(f"variant 'sif:{a}': the documents of the task hold no token")
    return a / (a + context.frequency / total)


# Moments


def root_mean_square(table: Source) -> float:
    """Root mean square of all values."""
    total = sum(float(np.square(block, dtype=np.float64).sum()) for block in read(table))
    return float(np.sqrt(total / (table.shape[0] * table.shape[1])))


def mean(table: Source) -> np.ndarray:
    """Mean of the rows, float64 ``[dims]``."""
    total = np.zeros(table.shape[1])
    for block in read(table):
        total += block.sum(axis=0, dtype=np.float64)
    return total / table.shape[0]


def components(table: Source, centre: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` principal components of largest variance, the largest last.

    They come from the covariance and not from a decomposition of the table, which has far more rows than columns: this
    needs only one block at a time, and float64 compensates for squaring.

    Args:
        table: ``[rows, dims]``.
        centre: the mean of its rows.
        count: how many; no more than there are columns.

    Returns:
        Variances ``[count]``, ascending, sums being divided by the number of rows, and directions ``[dims, count]`` of
        norm 1, whose largest component is positive.  Both float64.
    """
    rows, columns = table.shape
    covariance = np.zeros((columns, columns), order="F")
    for block in read(table):
        # The upper triangle alone, added in place: half the work, and no second matrix of this size.
        covariance = blas.dsyrk(1 / rows, (block - centre).T, beta=1, c=covariance, overwrite_c=1)
    variances, directions = eigh(
        covariance,
        lower=False,
        overwrite_a=True,
        check_finite=False,
        subset_by_index=[max(columns - count, 0), columns - 1],
    )
    for direction in directions.T:
        direction *= np.sign(direction[np.abs(direction).argmax()])
    return np.maximum(variances, 0), directions
