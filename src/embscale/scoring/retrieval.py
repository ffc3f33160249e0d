"""Score embedding tables on retrieval tasks.

A text's vector is the mean of its tokens' rows; documents are ranked by cosine (Corey, "Methodology").  All of it in
float32, but for vectors whose squares would leave its range: their scores are computed in float64, so that a cosine
does not depend on a table's scale.

A table is processed in blocks of columns.  Inner products are sums over columns, so the first k columns are scored on
the way to all of them, padding columns shared by several tables are pooled once, and a table that does not fit into
memory needs no special treatment.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import torch

from embscale.checkpoints import dtypes
from embscale.devices import choose_device
from embscale.errors import EmbscaleError
from embscale.parameters.scores import Pooling
from embscale.scoring.metrics import Judgements, depth_of
from embscale.tables import table_files
from embscale.texts.beir import RetrievalData
from embscale.texts.tokens import TokenisedTexts

# Default depth of rankings.
DEPTH = 100

# Maximum bytes of one block of a table, of its pooled documents, or of a block of cosines.
BLOCK_BYTES = 128 * 2**20

# Columns pooled at a time; small enough that this part of the table stays in the processor's cache.
POOLED_COLUMNS = 128

# Cosines ranked at a time: they stay in the processor's cache.
CACHED_BYTES = 4 * 2**20

# A vector whose largest component is smaller or larger is squared and multiplied in float64.
SMALLEST, LARGEST = 2.0**-60, 2.0**60

# Maximum bytes kept of a table that has to be generated from its first row to its last.
KEPT_BYTES = 2 * 2**30


class Table(Protocol):
    """An embedding table ``[rows, dims]`` that can be read in parts."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def columns(self, rows: np.ndarray, start: int, stop: int) -> torch.Tensor:
        """Columns `start` to `stop` of some rows (ascending), as float32 ``[len(rows), stop - start]``."""


class ArrayTable:
    """A table in memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.table = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, dims = self.table.shape
        return rows, dims

    def columns(self, rows: np.ndarray, start: int, stop: int) -> torch.Tensor:
        """Some rows of some columns."""
        return self.table[:, start:stop].index_select(0, torch.from_numpy(rows))


class StoredTable:
    """A table on disk; only requested rows are read and converted to float32.

    Args:
        path: the file.
        bfloat16: round the values as in Corey 2024, which stores every table in bfloat16.

    Raises:
        EmbscaleError: the file is missing, truncated or contains no table.
    """

    def __init__(self, path: Path, *, bfloat16: bool = False) -> None:
        self.file, self.bfloat16 = table_files.Stored.open(path), bfloat16

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, dims = self.file.shape
        return rows, dims

    def columns(self, rows: np.ndarray, start: int, stop: int) -> torch.Tensor:
        """Some rows of some columns."""
        word = np.dtype(dtypes.STORED[self.file.dtype])
        all_rows, dims = self.shape
        with self.file.path.open("rb") as file:
            if all_rows * dims * word.itemsize <= BLOCK_BYTES:
                file.seek(self.file.offset)
                stored = np.fromfile(file, word, all_rows * dims).reshape(self.shape)[rows, start:stop]
            else:
                # A memory map would keep pages, including those around each row, in this process.
                stored = np.empty((len(rows), stop - start), word)
                for place, row in zip(stored, rows.tolist(), strict=True):
                    os.preadv(file.fileno(), [place.data], self.file.offset + (row * dims + start) * word.itemsize)
        # By torch, which allocates nothing but the result.
        raw = torch.from_numpy(stored)
        values = (raw.view(torch.bfloat16) if self.file.dtype == "BF16" else raw).float()
        return values.bfloat16().float() if self.bfloat16 and self.file.dtype != "BF16" else values


class StreamedTable:
    """A table generated in blocks of rows; the rows that texts use are cached.

    Args:
        shape: rows and columns.
        rows: those that any text uses, ascending.
        blocks: a function from first and last column to these columns of `rows`, from top to bottom.
        dtype: one that represents the values exactly.
        kept_bytes: maximum size of the cache.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        rows: np.ndarray,
        blocks: Callable[[int, int], Iterable[np.ndarray]],
        dtype: torch.dtype = torch.float32,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.shape, self.rows, self.blocks, self.dtype, self.kept_bytes = shape, rows, blocks, dtype, kept_bytes
        self.first, self.kept = 0, torch.empty(len(rows), 0, dtype=dtype)

    def columns(self, rows: np.ndarray, start: int, stop: int) -> torch.Tensor:
        """Some of the rows and columns; as many of the following columns as memory allows are cached."""
        if start < self.first or stop > self.first + self.kept.shape[1]:
            self.kept = torch.empty(0)  # before the next ones are made
            # Generating all columns takes about as long as generating a few.
            fits = self.kept_bytes // (self.dtype.itemsize * max(1, len(self.rows)))
            last = min(self.shape[1], max(stop, start + fits))
            self.first, self.kept = start, torch.empty((len(self.rows), last - start), dtype=self.dtype)
            top = 0
            for block in self.blocks(start, last):
                self.kept[top : top + len(block)] = torch.from_numpy(block)
                top += len(block)
        values = self.kept[:, start - self.first : stop - self.first]
        if len(rows) < len(self.rows):
            values = values[torch.from_numpy(np.searchsorted(self.rows, rows))]
        return values.float()


class PooledTexts:
    """Texts as weighted bags of distinct tokens, ready to be pooled over any table."""

    def __init__(self, texts: TokenisedTexts) -> None:
        ids, counts, offsets = texts.counts()
        lengths = np.maximum(np.diff(texts.offsets), 1)
        weights = counts / np.repeat(lengths, np.diff(offsets))
        word = np.int32 if len(ids) < 2**31 else np.int64  # pooling with the shorter one is faster
        self.ids = torch.from_numpy(ids.astype(word))
        self.offsets = torch.from_numpy(offsets.astype(word))
        self.weights = torch.from_numpy(weights.astype(np.float32))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def renumbered(self, rows: np.ndarray) -> Self:
        """The same texts for a table that has only the given rows (ascending)."""
        return self._with(ids=torch.from_numpy(np.searchsorted(rows, self.ids.numpy())).to(self.ids.dtype))

    def to(self, device: torch.device) -> Self:
        """The same texts on a device."""
        return self._with(**{name: value.to(device) for name, value in vars(self).items()})

    def _with(self, **changes: torch.Tensor) -> Self:
        changed = copy.copy(self)
        vars(changed).update(changes)
        return changed

    def pool(self, table: torch.Tensor, pooling: Pooling = "mean") -> torch.Tensor:
        """Vectors ``[texts, dims]``: the mean, sum or largest value of each text's rows.

        The sum has the mean's direction and so its cosines; it is computed as the mean.  A text without tokens gets the
        zero vector, whose cosine with anything is 0.
        """
        how: dict[str, Any] = {"mode": "max"}
        if pooling != "max":
            how = {"mode": "sum", "per_sample_weights": self.weights.to(table.dtype)}
        pooled = torch.empty(len(self), table.shape[1], dtype=table.dtype, device=table.device)
        for some, place in zip(table.split(POOLED_COLUMNS, 1), pooled.split(POOLED_COLUMNS, 1), strict=True):
            place.copy_(
                torch.nn.functional.embedding_bag(
                    self.ids, some.contiguous(), self.offsets, include_last_offset=True, **how
                )
            )
        return pooled


class Products:
    """Inner products of pooled queries and documents and their squared lengths, summed over columns."""

    def __init__(self, queries: int, documents: int, device: torch.device) -> None:
        self.inner = torch.zeros(queries, documents, device=device)
        self.queries = torch.zeros(queries, 1, dtype=torch.float64, device=device)
        self.documents = torch.zeros(1, documents, dtype=torch.float64, device=device)

    def add(self, queries: torch.Tensor, documents: torch.Tensor) -> None:
        """Add the contribution of more columns.

        Args:
            queries: ``[queries, columns]``; once these are float64, so are all products.
            documents: ``[documents, columns]``.
        """
        if self.inner.dtype != queries.dtype:
            self.inner, queries, documents = (values.double() for values in (self.inner, queries, documents))
        self.inner.addmm_(queries, documents.T)
        self.queries += torch.linalg.vector_norm(queries, dim=1, keepdim=True).double().square()
        self.documents += torch.linalg.vector_norm(documents, dim=1).double().square()

    def __add__(self, other: Products) -> Products:
        """Sum over the columns of both."""
        both = copy.copy(self)
        vars(both).update({name: value + getattr(other, name) for name, value in vars(self).items()})
        return both

    def cosines(self) -> Iterator[torch.Tensor]:
        """Cosines ``[some queries, documents]``: 0 for zero vectors.

        Each block is small enough to stay in the processor's cache until it is ranked.
        """
        queries, documents = (
            squares.sqrt().masked_fill_(squares == 0, 1).to(self.inner.dtype)
            for squares in (self.queries, self.documents)
        )
        at_once = max(1, CACHED_BYTES // (4 * max(1, self.inner.shape[1])))
        for inner, lengths in zip(self.inner.split(at_once), queries.split(at_once), strict=True):
            yield (inner / lengths).div_(documents).float()


@dataclass
class Padding:
    """A wide table whose last columns pad narrower tables.

    Attributes:
        table: the wide table; padded tables have its width.
        known: for each task, the products over the columns from a given one on; see `Scorer.nested`.
    """

    table: Table
    known: dict[Scorer, tuple[int, Products]] = field(default_factory=dict)


@dataclass(frozen=True)
class Ranking:
    """The best documents of every query.

    Attributes:
        queries: query ids ``[queries]``.
        documents: document ids ``[documents]``, those that win ties first.
        scores: ``[queries, depth]``; minus infinity if there is no document.
        places: positions in `documents`, ``[queries, depth]``.
        zero_documents, zero_queries: how many have tokens, and yet a vector of zeros, whose score is always 0.
    """

    queries: list[str]
    documents: np.ndarray
    scores: np.ndarray
    places: np.ndarray
    zero_documents: int = 0
    zero_queries: int = 0


def best(scores: torch.Tensor, places: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The highest scores of each row; among equal scores, those that come first.

    Args:
        scores: ``[rows, columns]``.
        places: index that each column represents, ascending: ``[columns]`` or ``[rows, columns]``.
        depth: how many to keep.

    Returns:
        Scores and places ``[rows, min(depth, columns)]``, the highest score first.
    """
    depth = min(depth, scores.shape[1])
    values, columns = scores.topk(min(depth + 1, scores.shape[1]), dim=1)
    beyond = values[:, depth:]
    values, columns = values[:, :depth].clone(), columns[:, :depth].clone()
    # topk keeps arbitrary documents among those tied for the last place; a stable sort keeps the first.
    cut = (beyond == values[:, -1:]).any(dim=1).nonzero().squeeze(1)
    for row in cut.tolist():
        ordered, order = scores[row].sort(descending=True, stable=True)
        values[row], columns[row] = ordered[:depth], order[:depth]
    columns, order = columns.sort(dim=1)
    values, again = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, places.expand_as(scores).gather(1, columns.gather(1, again))


class Scorer:
    """One retrieval task, tokenised once, against which any number of tables is scored.

    Args:
        data: the task.
        documents: tokens of its documents, in their order.
        queries: tokens of its queries, in their order.
        pooling: how the rows of a text's tokens become its vector.
        length: the first tokens of each document that are pooled; None means all.  Queries are never cut.
        depth: how many documents of a ranking are kept: the largest cut-off of any metric.
        device: where to compute; by default the first GPU if there is one.
        block_bytes: bound on memory per block; see `BLOCK_BYTES`.

    Raises:
        EmbscaleError: the tokens are of other texts.
    """

    def __init__(
        self,
        data: RetrievalData,
        documents: TokenisedTexts,
        queries: TokenisedTexts,
        *,
        pooling: Pooling = "mean",
        length: int | None = None,
        depth: int = DEPTH,
        device: str = "auto",
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        if (len(documents), len(queries)) != (len(data.documents), len(data.queries)):
            raise EmbscaleError(
                f"{data.name}: {len(data.documents)} documents and {len(data.queries)} queries, but tokens of "
                f"{len(documents)} and {len(queries)}; make the tokens again with embscale tokenize"
            )
        if length is not None:
            documents = documents.cut(length)
        self.pooling, self.depth, self.block_bytes = pooling, depth, block_bytes
        self.device = choose_device(device)
        self.highest_id = int(max(documents.ids.max(initial=0), queries.ids.max(initial=0)))

        # trec_eval breaks ties by document id, descending as text: in that order, the first of a tie wins.
        names = np.array(list(data.documents), dtype=object)
        order = np.argsort(names, kind="stable")[::-1]
        self.document_ids, self.query_ids = names[order], list(data.queries)
        places = {name: place for place, name in enumerate(self.document_ids)}
        self.own = torch.tensor([places.get(name, -1) for name in self.query_ids])
        self.judgements = Judgements(data.qrels, self.query_ids, self.document_ids.tolist())

        # Texts with equal tokens are pooled once: a matrix product may round equal columns differently and break a tie.
        self.documents, self.queries = take(documents, order), queries
        kinds: dict[bytes, int] = {}
        distinct = np.unique if pooling == "max" else np.sort
        kind = np.array(
            [kinds.setdefault(distinct(self.documents[i]).tobytes(), len(kinds)) for i in range(len(order))]
        )
        _, first = np.unique(kind, return_index=True)
        # Documents are processed in chunks, so that neither cosines nor pooled texts exceed a block.
        step = max(1, block_bytes // (4 * len(queries)))
        self.chunks = []
        for start in range(0, len(first), step):
            members = np.flatnonzero((kind >= start) & (kind < start + step))
            texts = take(self.documents, first[start : start + step])
            self.chunks.append(_Chunk(texts, queries, members, kind[members] - start))
        self.rows = functools.reduce(np.union1d, (some.rows for some in self.chunks))

    def per_query(self, found: np.ndarray | Table | Ranking, metrics: Sequence[str]) -> pd.DataFrame:
        """MTEB's metrics of a table or ranking: a row per query and a column per metric, from 0 to 1.

        Raises:
            EmbscaleError: the table has fewer rows than the tokenizer has tokens, or there is no such metric.
        """
        if max(map(depth_of, metrics)) > self.depth:
            raise EmbscaleError(f"metrics {list(metrics)}: rankings are kept to the depth of {self.depth}")
        ranking = found if isinstance(found, Ranking) else self.rank(found)
        gains = self.judgements.gains(ranking.places, np.isfinite(ranking.scores))
        return self._frame({metric: self.judgements.per_query(gains, metric) for metric in metrics})

    def chance(self, metrics: Sequence[str]) -> pd.DataFrame:
        """What a ranking in random order is expected to score, as `per_query` gives it."""
        return self._frame({metric: self.judgements.chance(metric) for metric in metrics})

    def _frame(self, columns: dict[str, np.ndarray]) -> pd.DataFrame:
        return pd.DataFrame(columns, index=pd.Index(self.query_ids, name="query"))

    def rank(self, table: np.ndarray | Table) -> Ranking:
        """Rank all documents for every query by the cosine of pooled texts."""
        table = ArrayTable(table) if isinstance(table, np.ndarray) else table
        ((_, ranking),) = self.nested(table, [table.shape[1]])
        return ranking

    def nested(
        self, table: Table, widths: Sequence[int], padding: Padding | None = None
    ) -> Iterator[tuple[int, Ranking]]:
        """Rankings by the first columns of a table, for several widths at little more than the cost of the largest.

        Args:
            table: the table.
            widths: ascending numbers of columns, at most the table's; with a padding, the last is the table's.
            padding: columns to append to the table for one more ranking.  The products of its columns are cached: if
                tables are passed widest first, each only adds the columns that were not yet padding for the one before.

        Yields:
            Pairs of a number of columns and the ranking by them.

        Raises:
            EmbscaleError: a table has fewer rows than the texts need, or a value that is not finite.
        """
        rows = min(some.shape[0] for some in (table, padding.table if padding else table))
        if self.highest_id >= rows:
            raise EmbscaleError(
                f"the texts hold token {self.highest_id}, but the table has {rows} rows; "
                "give the tokenizer that belongs to the table"
            )
        if len(self.chunks) == 1:
            # Only the best documents so far need to be kept.
            for width, products in self._products(self.chunks[0], table, widths, padding):
                zeros = self.chunks[0].zeros(products)
                yield width, self._merged([self._best_of(products, self.chunks[0])], zeros)
            return
        found: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        zeros_of: dict[int, tuple[int, int]] = {}
        for chunk in self.chunks:
            for width, products in self._products(chunk, table, widths, padding):
                found.setdefault(width, []).append(self._best_of(products, chunk))
                documents, queries = chunk.zeros(products)
                zeros_of[width] = documents + zeros_of.get(width, (0, 0))[0], queries
        for width in list(found):
            yield width, self._merged(found.pop(width), zeros_of[width])

    def ranked(self, scores: Iterable[torch.Tensor]) -> Ranking:
        """A ranking by arbitrary scores, which are overwritten.

        Args:
            scores: consecutive blocks ``[queries, documents]`` in the order of `document_ids`.
        """
        start, parts = 0, []
        for block in scores:
            parts.append(self._best(block, torch.arange(start, start + block.shape[1]), self.own))
            start += block.shape[1]
        return self._merged(parts)

    def _best_of(self, products: Products, chunk: _Chunk) -> tuple[torch.Tensor, torch.Tensor]:
        """The best documents of a chunk for all queries."""
        text = None if chunk.text is None else chunk.text.to(self.device)
        parts, start = [], 0
        for cosines in products.cosines():
            own = self.own[start : start + len(cosines)]
            parts.append(self._best(cosines if text is None else cosines[:, text], chunk.places, own))
            start += len(cosines)
        values, places = (torch.cat(blocks) for blocks in zip(*parts, strict=True))
        return values, places

    def _best(self, scores: torch.Tensor, places: torch.Tensor, own: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The best documents of a block, excluding the one with the query's own id (as in BEIR)."""
        at = torch.searchsorted(places, own).clamp_(max=len(places) - 1)
        itself = (places[at] == own).nonzero().squeeze(1)
        scores[itself.to(scores.device), at[itself].to(scores.device)] = -torch.inf
        values, found = best(scores, places.to(scores.device), self.depth)
        return values.cpu(), found.cpu()

    def _merged(self, found: list[tuple[torch.Tensor, torch.Tensor]], zeros: tuple[int, int] = (0, 0)) -> Ranking:
        values, places = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        if len(found) > 1:
            places, order = places.sort(dim=1)
            values, places = best(values.gather(1, order), places, self.depth)
        return Ranking(self.query_ids, self.document_ids, values.numpy(), places.numpy(), *zeros)

    def _products(
        self, chunk: _Chunk, table: Table, widths: Sequence[int], padding: Padding | None
    ) -> Iterator[tuple[int, Products]]:
        """Products of all queries with some documents, for `nested`."""
        products = self._no_products(chunk)
        for width in self._met(chunk, table, [0, *widths], products):
            yield width, products
        if padding:
            yield padding.table.shape[1], products + self._behind(chunk, padding, table.shape[1])

    def _no_products(self, chunk: _Chunk) -> Products:
        return Products(chunk.queries, len(chunk.texts) - chunk.queries, self.device)

    def _met(self, chunk: _Chunk, table: Table, edges: Sequence[int], products: Products) -> Iterator[int]:
        """Add the columns of a table from the first edge to the last; yields each edge when it is reached."""
        for start, stop in self._blocks(chunk, edges):
            whole = (start, stop) == (0, table.shape[1]) and self.device.type == "cpu"
            if whole and isinstance(table, ArrayTable):
                block, texts = table.table, chunk.texts  # no copy of rows that are in memory
            else:
                block, texts = table.columns(chunk.rows, start, stop).to(self.device), chunk.renumbered(self.device)
            pooled = texts.pool(block, self.pooling)
            if not _fits(pooled):
                pooled = texts.pool(block.double(), self.pooling)
            products.add(pooled[: chunk.queries], pooled[chunk.queries :])
            if not torch.isfinite(products.queries).all() or not torch.isfinite(products.documents).all():
                _check_finite(block, start, stop)
            if stop in edges:
                yield stop

    def _behind(self, chunk: _Chunk, padding: Padding, first: int) -> Products:
        """Products over the columns of a padding from `first` on."""
        last = padding.table.shape[1]
        known = padding.known.pop(self, None)
        stop, products = known if known and first <= known[0] else (last, self._no_products(chunk))
        for _ in self._met(chunk, padding.table, [first, stop], products):
            pass
        if len(self.chunks) == 1:  # several would exceed a block
            padding.known[self] = first, products
        return products

    def _blocks(self, chunk: _Chunk, edges: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Ranges of columns that fit into a block; every edge ends a range."""
        fits = max(1, self.block_bytes // (4 * max(len(chunk.rows), len(chunk.texts), 1)))
        for start, stop in pairwise(edges):
            yield from ((first, min(first + fits, stop)) for first in range(start, stop, fits))


def take(texts: TokenisedTexts, order: np.ndarray) -> TokenisedTexts:
    """A selection of texts, in the given order."""
    lengths = texts.lengths[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(texts.offsets[order] - offsets[:-1], lengths)
    return TokenisedTexts(texts.ids[places], offsets)


class _Chunk:
    """A chunk of a task's documents, with all its queries.

    Args:
        documents: distinct texts.
        queries: all queries.
        places: indices of the documents with these texts, ascending.
        text: index of each document's text.

    Attributes:
        texts: the queries, then the distinct documents.
    """

    def __init__(
        self, documents: TokenisedTexts, queries: TokenisedTexts, places: np.ndarray, text: np.ndarray
    ) -> None:
        self.queries = len(queries)
        joined = np.concatenate([queries.ids, documents.ids])
        offsets = np.concatenate([queries.offsets, queries.offsets[-1] + documents.offsets[1:]])
        self.texts = PooledTexts(TokenisedTexts(joined, offsets))
        self.places = torch.from_numpy(places)
        self.text = torch.from_numpy(text) if len(documents) < len(places) else None
        self.rows = np.unique(joined).astype(np.int64)
        self._renumbered: PooledTexts | None = None

    def renumbered(self, device: torch.device) -> PooledTexts:
        """The texts renumbered to the used rows only."""
        if self._renumbered is None:
            self._renumbered = self.texts.renumbered(self.rows).to(device)
        return self._renumbered

    def zeros(self, products: Products) -> tuple[int, int]:
        """How many of these documents, and of all queries, have tokens and a vector of zeros."""
        squares = torch.cat([products.queries.flatten(), products.documents.flatten()]).cpu()
        zero = (squares == 0) & (self.texts.offsets.diff() > 0)
        documents = zero[self.queries :]
        return int((documents if self.text is None else documents[self.text]).sum()), int(zero[: self.queries].sum())


def _fits(vectors: torch.Tensor) -> bool:
    """Whether float32 holds the inner products of all vectors with each other, but for those of zeros."""
    largest = torch.linalg.vector_norm(vectors, ord=torch.inf, dim=1)
    return bool(((largest == 0) | ((largest >= SMALLEST) & (largest <= LARGEST))).all())


def _check_finite(block: torch.Tensor, start: int, stop: int) -> None:
    broken = int((~torch.isfinite(block)).any(dim=1).sum())
    if broken:
        raise EmbscaleError(
            f"the table holds values that are not finite numbers in {broken} rows that the texts use "
            f"(columns {start} to {stop}); make it again with embscale extract"
        )
