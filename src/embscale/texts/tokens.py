"""Texts as bags of tokens: tokenised once, then shared by every table, variant and seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from embscale.errors import EmbscaleError, words_of
from embscale.parameters.kinds import SpecialTokens
from embscale.provenance.artifacts import file_sha256

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"

# What every file of tokens says of its making, each with a check.
MADE_OF: dict[str, Callable[[Any], bool]] = {
    "data_sha256": lambda value: isinstance(value, str),
    "tokenizer_sha256": lambda value: isinstance(value, str),
    "max_length": lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
    "special_tokens": lambda value: value in get_args(SpecialTokens),
}

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
        raise EmbscaleError(f"{path}: not a tokenizer ({words_of(error)})") from error


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
    """Read what `save` wrote, and check that it is what `save` writes.

    Returns:
        The groups by name, of which asking for one that the file lacks is an error, too, and what they were made of,
        with `MADE_OF` at least.

    Raises:
        EmbscaleError: there is no such file, or another one.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            names = {key.rpartition(".")[0] for key in file.keys()}  # noqa: SIM118 (not a mapping)
            groups = _Groups(path)
            for name in sorted(names):
                groups[name] = TokenisedTexts(file.get_tensor(f"{name}.ids"), file.get_tensor(f"{name}.offsets"))
                _check_group(name, groups[name])
            made_of = json.loads((file.metadata() or {})["embscale"])
        if not isinstance(made_of, dict) or not all(fits(made_of.get(name)) for name, fits in MADE_OF.items()):
            raise ValueError(f"its metadata lacks one of {', '.join(MADE_OF)}, or it is of another kind")
        return groups, made_of
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; make it with embscale tokenize") from None
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise EmbscaleError(f"{path}: not a file of tokens ({words_of(error)}); remove it and make it again") from error


class _Groups(dict[str, TokenisedTexts]):
    """Groups of texts by name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def __missing__(self, name: str) -> TokenisedTexts:
        raise EmbscaleError(f"{self.path}: holds no {name}, but {', '.join(self) or 'nothing'}; make it again")


def _check_group(name: str, texts: TokenisedTexts) -> None:
    """Stop at numbers that are no tokens of texts.

    Raises:
        ValueError: they are of another type or shape, or out of range.
    """
    ids, offsets = texts.ids, texts.offsets
    if (ids.dtype, ids.ndim, offsets.dtype, offsets.ndim) != (np.int32, 1, np.int64, 1):
        raise ValueError(f"{name} holds {ids.dtype} {ids.shape} and {offsets.dtype} {offsets.shape}")
    if ids.min(initial=0) < 0:
        raise ValueError(f"{name} holds the token {ids.min()}")
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise ValueError(f"the offsets of {name} do not divide its {len(ids)} tokens into texts")
