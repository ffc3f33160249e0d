"""Texts as bags of tokens: tokenised once, then shared by every table, variant and seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"

# Texts per batch of tokenisation: a tokenizer keeps some hundred bytes per token until a batch is done.
TEXTS_AT_ONCE = 512


@dataclass(frozen=True)
class TokenisedTexts:
    """Token ids of several texts, one after the other.

    Attributes:
        ids: token ids, int32 ``[tokens]``.
        offsets: text i is ``ids[offsets[i]:offsets[i + 1]]``, int64 ``[texts + 1]``.
    """

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, text: int) -> np.ndarray:
        return self.ids[self.offsets[text] : self.offsets[text + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each text."""
        return np.diff(self.offsets)

    def cut(self, length: int) -> TokenisedTexts:
        """The first tokens of each text, at most `length` of them."""
        lengths = np.minimum(self.lengths, length)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1] - offsets[:-1], lengths)
        return TokenisedTexts(self.ids[places], offsets)

    def counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distinct tokens of each text with their counts.

        Returns:
            ``ids`` and ``counts`` of equal length, ordered by text and id, and ``offsets`` as above.
        """
        texts = np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)
        keys, counts = np.unique((texts << 32) | self.ids, return_counts=True)
        offsets = np.searchsorted(keys >> 32, np.arange(len(self) + 1))
        return (keys & 0xFFFFFFFF).astype(np.int64), counts, offsets


def tokenise(texts: Sequence[str], tokenizer: Tokenizer, *, max_length: int, special_tokens: bool) -> TokenisedTexts:
    """Token ids of texts, cut at `max_length` tokens, special ones counted."""
    tokenizer.enable_truncation(max_length)
    tokenizer.no_padding()  # some tokenizers' files switch it on
    ids = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = list(texts[start : start + TEXTS_AT_ONCE])
        encodings = tokenizer.encode_batch_fast(some, add_special_tokens=special_tokens)
        ids += [np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings]
    offsets = np.concatenate([[0], np.cumsum([len(i) for i in ids], dtype=np.int64)])
    return TokenisedTexts(np.concatenate([*ids, np.empty(0, np.int32)]), offsets)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The fast tokenizer of a folder in the Hugging Face layout.

    Raises:
        EmbscaleError: there is no readable ``tokenizer.json``.
    """
    from tokenizers import Tokenizer

    path = tokenizer_file(folder)
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for a broken file
        raise EmbscaleError(f"{path}: not a tokenizer ({error})") from error


def tokenizer_file(folder: Path) -> Path:
    """The file whose digest identifies a tokenizer."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise EmbscaleError(f"{path}: no such file; expected a tokenizer folder in the Hugging Face layout")
    return path


def tokenizer_sha256(folder: Path) -> str:
    """Digest of a tokenizer, carried by every score row."""
    return file_sha256(tokenizer_file(folder))


def save(path: Path, texts: Mapping[str, TokenisedTexts], metadata: Mapping[str, Any]) -> None:
    """Write named groups of tokenised texts and what they were made of."""
    arrays = {f"{name}.{part}": getattr(group, part) for name, group in texts.items() for part in ("ids", "offsets")}
    save_file(arrays, path, {"embscale": json.dumps(dict(metadata), sort_keys=True)})


def load(path: Path) -> tuple[dict[str, TokenisedTexts], dict[str, Any]]:
    """Read what `save` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            names = {key.rpartition(".")[0] for key in file.keys()}  # noqa: SIM118 (not a mapping)
            groups = {
                name: TokenisedTexts(file.get_tensor(f"{name}.ids"), file.get_tensor(f"{name}.offsets"))
                for name in sorted(names)
            }
            return groups, json.loads((file.metadata() or {})["embscale"])
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale tokenize") from None
    except (SafetensorError, KeyError, ValueError) as error:
        raise EmbscaleError(f"{path}: not a file of tokens ({error}); remove it and make it again") from error
