"""Texts to run through a model: read from lines of JSON, optionally cleaned, chosen by a hash of their ids."""

from __future__ import annotations

import functools
import hashlib
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embscale.errors import EmbscaleError
from embscale.texts import beir
from embscale.texts.tokens import TokenisedTexts

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Sample:
    """The chosen texts, in the order of choice.

    Attributes:
        text_ids: ids of the texts.
        tokens: their first tokens.
        too_short: number of texts skipped because they have too few tokens.
    """

    text_ids: tuple[str, ...]
    tokens: TokenisedTexts
    too_short: int


def read_texts(path: Path, *, split: str | None) -> dict[str, str]:
    """Texts by their id, only those whose ``metadata.split`` is `split` if one is given.

    The id of a row is its ``_id``; of a row without one it is the number of the line, the first being 1.

    Raises:
        EmbscaleError: a row has no text, an id occurs twice, or no row is of the split.
    """
    texts: dict[str, str] = {}
    for number, row in enumerate(beir.read_jsonl(path), 1):
        name = str(row.get("_id", number))
        if not isinstance(row.get("text"), str) or name in texts:
            raise EmbscaleError(f"{path}:{number}: expected an object with a text, and no _id that another row has")
        if split is None or beir.split_of(row, f"{path}:{number}") == split:
            texts[name] = row["text"]
    if not texts:
        raise EmbscaleError(f"{path}: no texts{f' whose metadata.split is {split!r}' if split else ''}")
    return texts


def choose(
    texts: Mapping[str, str],
    tokenizer: Tokenizer,
    *,
    count: int,
    min_tokens: int,
    tokens: int,
    strip_html: bool,
    strip_punctuation: bool,
    seed: int,
) -> Sample:
    """Choose texts of `min_tokens` or more by seed and ids only, and keep their first `tokens` tokens.

    Whether a text is chosen does not depend on the other texts, as far as `count` allows; but of identical texts the
    first counts alone, as another could come to stand on the other side of a split.  If the two numbers are equal, all
    texts have the same length.

    Args:
        texts: by their ids.
        tokenizer: used without special tokens.
        count: texts to choose.
        min_tokens: texts with fewer are skipped, and counted.
        tokens: where longer texts are cut.
        strip_html: see `without_html`; before punctuation is taken out.
        strip_punctuation: see `without_punctuation`.
        seed: of the order.

    Raises:
        EmbscaleError: fewer than `count` texts are long enough, or no length fits.
    """
    if not 1 <= min_tokens <= tokens:
        raise EmbscaleError(f"texts of {min_tokens} tokens or more cannot be cut to {tokens}; ask for at least as many")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    chosen: dict[str, list[int]] = {}
    met: set[str] = set()
    too_short = 0
    for name in sorted(texts, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest()):
        text = without_html(texts[name]) if strip_html else texts[name]
        text = without_punctuation(text) if strip_punctuation else text
        if text in met:
            continue
        met.add(text)
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) < min_tokens:
            too_short += 1
            continue
        chosen[name] = ids[:tokens]
        if len(chosen) == count:
            offsets = np.cumsum([0, *map(len, chosen.values())], dtype=np.int64)
            together = np.concatenate([np.array(ids, np.int32) for ids in chosen.values()])
            return Sample(tuple(chosen), TokenisedTexts(together, offsets), too_short)
    raise EmbscaleError(
        f"{len(chosen)} of {len(texts)} texts have {min_tokens} tokens or more, but {count} are wanted; "
        "ask for fewer or shorter texts; identical ones count once"
    )


def without_html(text: str) -> str:
    """A text with a space for each tag and comment, and characters for entities, as `html.parser` reads them."""
    parser = _Characters()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)


class _Characters(HTMLParser):
    """Collects the text between tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(" ")

    def handle_comment(self, data: str) -> None:
        self.parts.append(" ")


def without_punctuation(text: str) -> str:
    """A text without punctuation, the seven Unicode categories P (so ``$``, ``+`` and ``<`` stay, being symbols).

    It is removed without a space: a word with an apostrophe remains one word.
    """
    return text.translate(_punctuation())


@functools.cache
def _punctuation() -> dict[int, None]:
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("P")}
