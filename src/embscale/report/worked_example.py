"""The worked example for readers: what each ranking finds for one query, the tokens of each match marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from embscale.rows.markdown import escape

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from embscale.scoring.worked_example import Followed, Match
    from embscale.texts.tokens import TokenisedTexts

AROUND = 4  # tokens shown on each side of a marked one
MOST = 36  # tokens shown of a document
LEFT_OUT = " … "

COLUMNS = ["query", "method", "metric", "query_value", "mean_value", "rank", "document", "relevant", "score"]


def rows(query: str, metric: str, followed: Sequence[Followed], tokenizer: Tokenizer) -> pd.DataFrame:
    """A row for each hit: columns `COLUMNS`, then ``token_1``, its ``part_1`` of the score and so on."""
    lines = []
    for one in followed:
        for match in one.matches:
            values = [query, one.method, metric, one.value, one.mean]
            line = dict(zip(COLUMNS, [*values, match.rank, match.document, match.relevant, match.score], strict=True))
            for place, (token, part) in enumerate(match.parts.items(), 1):
                line |= {f"token_{place}": _decoded(tokenizer, [token]), f"part_{place}": part}
            lines.append(line)
    return pd.DataFrame(lines)


def example(
    query: str, text: str, metric: str, followed: Sequence[Followed], documents: TokenisedTexts, tokenizer: Tokenizer
) -> str:
    """Markdown: the query, then for each ranking its first documents, each with the tokens that brought it there.

    Args:
        query: its id.
        text: of the query.
        metric: as readers know it.
        followed: from `embscale.scoring.worked_example.follow`.
        documents: those that were ranked.
        tokenizer: that made their tokens.
    """
    parts = [f"Query: “{escape(text)}” ({escape(query)})."]
    for one in followed:
        score = f"{metric} of this query {100 * one.value:.2f}, mean of all {100 * one.mean:.2f}"
        parts.append(f"**{escape(one.method)}.** {score}.")
        parts.append("\n".join(_hit(match, documents[match.place], tokenizer) for match in one.matches))
    return "::: {.worked}\n\n" + "\n\n".join(parts) + "\n\n:::\n"


def _hit(match: Match, ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """One document as an item of a list."""
    relevant = "relevant" if match.relevant else "not relevant"
    found = f"{match.rank}. **{escape(match.document)}**, {relevant}, {match.score:.2f}: "
    return found + snippet(ids, set(match.parts), tokenizer)


def snippet(ids: np.ndarray, marked: set[int], tokenizer: Tokenizer) -> str:
    """Markdown of the parts of a text around its marked tokens, at most `MOST` tokens."""
    places = np.flatnonzero(np.isin(ids, list(marked)))
    shown = np.unique((places[:, None] + np.arange(-AROUND, AROUND + 1)).ravel())
    shown = shown[(shown >= 0) & (shown < len(ids))][:MOST]
    text, last = "", -1
    for start, stop, is_marked in _runs(shown, np.isin(ids, list(marked))):
        if start != last + 1:
            text += LEFT_OUT
        words = _decoded(tokenizer, ids[start : stop + 1].tolist())
        inner = escape(words)
        before, after = (" " if words[place : place + 1 or None].isspace() else "" for place in (0, -1))
        text += f"{before}[{inner}]{{.mark}}{after}" if is_marked and inner else f"{before}{inner}{after}"
        last = stop
    return " ".join((text + (LEFT_OUT if last + 1 < len(ids) else "")).split())


def _runs(places: np.ndarray, marked: np.ndarray) -> Iterator[tuple[int, int, bool]]:
    """Neighbouring places that are all marked or all not: the first, the last, and which of the two."""
    run: list[int] = []
    for place in places.tolist():
        if run and (place != run[-1] + 1 or marked[place] != marked[run[-1]]):
            yield run[0], run[-1], bool(marked[run[0]])
            run = []
        run.append(place)
    if run:
        yield run[0], run[-1], bool(marked[run[0]])


def _decoded(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))
