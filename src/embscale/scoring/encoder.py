"""An embedding table as MTEB's encoder protocol, for every type of task that suits a static table.

A text's vector is the mean, sum or maximum of its tokens' rows, in float32 and not normalised; no prompt is added.
Tokenisation does not depend on the table, so each task's texts are tokenised once and shared.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.similarity_functions import cos_sim, pairwise_cos_sim
from mteb.types import PromptType

from embscale.errors import EmbscaleError
from embscale.parameters.scores import Pooling
from embscale.tables.table_files import chosen
from embscale.tables.variants import Context
from embscale.texts.tokens import TokenisedTexts, tokenise

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from tokenizers import Tokenizer
    from torch.utils.data import DataLoader

# MTEB takes a vector for zero that is shorter than 1e-12, and float32 cannot hold squares of large values.
SMALLEST, LARGEST = 2.0**-30, 2.0**60

POOLINGS: tuple[str, ...] = get_args(Pooling)


@dataclass(frozen=True)
class Bags:
    """A set of texts as bags of distinct tokens.

    Attributes:
        rows: distinct token ids of the whole set, ascending, ``[distinct]``.
        places: index into `rows` of each distinct token of each text, ``[entries]``.
        counts: how often the token occurs in its text, float32 ``[entries]``.
        offsets: text i has the entries from ``offsets[i]`` up to ``offsets[i + 1]``, ``[texts + 1]``.
    """

    rows: np.ndarray
    places: torch.Tensor
    counts: torch.Tensor
    offsets: torch.Tensor

    @classmethod
    def of(cls, texts: TokenisedTexts) -> Bags:
        """Count the tokens of each text."""
        ids, counts, offsets = texts.counts()
        rows, places = np.unique(ids, return_inverse=True)
        return cls(
            rows, torch.from_numpy(places), torch.from_numpy(counts.astype(np.float32)), torch.from_numpy(offsets)
        )

    def pool(self, rows: torch.Tensor, pooling: Pooling) -> torch.Tensor:
        """Vectors ``[texts, dims]`` from the table's rows ``[distinct, dims]``; zeros for a text without tokens."""
        if pooling == "max":
            return torch.nn.functional.embedding_bag(
                self.places, rows, self.offsets, mode="max", include_last_offset=True
            )
        weights = self.counts
        if pooling == "mean":
            entries = self.offsets.diff()
            lengths = torch.segment_reduce(weights, "sum", offsets=self.offsets)
            weights = weights / lengths.repeat_interleave(entries)
        return torch.nn.functional.embedding_bag(
            self.places, rows, self.offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        )


class TaskTexts:
    """The sets of texts of one task, each tokenised on first use; shared by all encoders of the task."""

    def __init__(self, tokenizer: Tokenizer, *, max_length: int, special_tokens: bool) -> None:
        """Padding is switched off in the tokenizer: it would be pooled like words."""
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.special_tokens = special_tokens
        self._bags: dict[str, Bags] = {}
        self._documents: set[str] = set()

    def bags(self, texts: Sequence[str], *, are_queries: bool) -> Bags:
        """The texts as bags of tokens."""
        digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
        if digest not in self._bags:
            self._bags[digest] = Bags.of(
                tokenise(texts, self.tokenizer, max_length=self.max_length, special_tokens=self.special_tokens)
            )
        if not are_queries:
            self._documents.add(digest)
        return self._bags[digest]

    @property
    def sha256(self) -> str:
        """Digest of all texts encoded so far."""
        return hashlib.sha256("".join(sorted(self._bags)).encode()).hexdigest()

    @property
    def rows(self) -> np.ndarray:
        """Ids of all tokens seen so far, ascending."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *(bags.rows for bags in self._bags.values())]))

    def context(self, rows: int) -> Context:
        """Token counts in the documents (not the queries) seen so far, for a table with this many rows.

        Raises:
            EmbscaleError: a text has a token beyond these rows.
        """
        check_rows(self.rows, rows)
        holding, occurrences, documents = np.zeros(rows, np.int64), np.zeros(rows, np.int64), 0
        for bags in (self._bags[digest] for digest in self._documents):
            ids = bags.rows[bags.places.numpy()]
            holding += np.bincount(ids, minlength=rows)
            occurrences += np.bincount(ids, bags.counts.numpy(), minlength=rows).astype(np.int64)
            documents += len(bags.offsets) - 1
        return Context(holding, occurrences, documents)


class Gathered:
    """The rows of a table that a set of texts uses.

    Attributes:
        shape: of the whole table.
        values: the rows that are kept, ``[kept, dims]``.
    """

    def __init__(self, blocks: Iterable[np.ndarray], rows: int, ids: np.ndarray) -> None:
        """Read a table from top to bottom and keep the given rows.

        Args:
            blocks: the table as consecutive blocks of rows, float32 ``[rows of the block, dims]``.
            rows: of the table.
            ids: which to keep, ascending.

        Raises:
            EmbscaleError: an id is beyond the table.
        """
        check_rows(ids, rows)
        self._ids, self.values = ids, np.concatenate(list(chosen(blocks, ids)))
        self.shape = (rows, self.values.shape[1])

    def __getitem__(self, ids: np.ndarray) -> np.ndarray:
        """The rows of tokens, ``[tokens, dims]``."""
        return self.values[np.searchsorted(self._ids, ids)]


class TableEncoder:
    """An embedding table as an MTEB encoder (``mteb.models.EncoderProtocol``).

    Attributes:
        mteb_model_meta: metadata that MTEB requires: the model's name, and that vectors are compared by cosine.
    """

    def __init__(self, table: np.ndarray | Gathered, texts: TaskTexts, *, pooling: Pooling, name: str) -> None:
        """Take a table.

        Args:
            table: float32 ``[rows, dims]``, or the rows that the task's texts use.
            texts: tokenises texts and caches the result.
            pooling: how the rows of a text become its vector.
            name: of the model, for MTEB.
        """
        self.table = table
        self.texts = texts
        largest = float(np.abs(table.values if isinstance(table, Gathered) else table).max(initial=0))
        # A table whose squares would leave the range of float32 is encoded at another scale; a power of two is exact.
        self._exponent = 0 if largest == 0 or SMALLEST < largest < LARGEST else -math.frexp(largest)[1]
        self.pooling = pooling
        rows, dims = table.shape
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": f"embscale/{name}",
                "revision": "in-memory",
                "n_parameters": rows * dims,
                "n_embedding_parameters": rows * dims,
                "embed_dim": dims,
                "similarity_fn_name": ScoringFunction.COSINE,
                "use_instructions": False,
                "modalities": ["text"],
            }
        )

    def encode(
        self,
        inputs: DataLoader[Any],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> np.ndarray:
        """Vectors ``[texts, dims]`` of the column ``text`` of all batches.

        Raises:
            EmbscaleError: a text has a token beyond the table's rows.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        bags = self.texts.bags(texts, are_queries=prompt_type is PromptType.query)
        check_rows(bags.rows, self.table.shape[0])
        rows = self.table[bags.rows]
        if self._exponent:
            rows = np.ldexp(rows, self._exponent)
        return bags.pool(torch.from_numpy(rows), self.pooling).numpy()

    def similarity(self, embeddings1: Any, embeddings2: Any) -> torch.Tensor:  # noqa: ANN401
        """Cosines of all pairs of vectors from the two sets, ``[n, m]``."""
        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:  # noqa: ANN401
        """Cosines of corresponding vectors of the two sets, ``[n]``."""
        return pairwise_cos_sim(embeddings1, embeddings2)


def check_rows(ids: np.ndarray, rows: int) -> None:
    """Reject tokens that have no row in the table.

    Raises:
        EmbscaleError: there is one.
    """
    highest = int(ids.max(initial=-1))
    if highest >= rows:
        raise EmbscaleError(
            f"the texts hold token {highest}, but the table has {rows} rows: it belongs to another tokenizer"
        )
