"""Markdown helpers: escaping, tables, and the details block with the provenance of a figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

DIGEST_LENGTH = 12  # hexadecimal digits shown of a digest

# Punctuation means something to Markdown, but for these four within a word, as in gpt-neox-20b.
PUNCTUATION = re.compile(
    r"(?P<harmless>(?<=[A-Za-z0-9])[-./,](?=[A-Za-z0-9]))"
    # What the check of the sources takes for markup that went wrong; a comment behind it breaks the pattern.
    r"|(?P<suspect>:(?=::)|\{(?=[#.])|\[(?=\^)|(?<=http):|(?<=https):)"
    r"|[!-/:-@\[-`{-~]"
)


def escape(text: str) -> str:
    """Escape text so that Markdown shows it literally, on one line: no markup, HTML, shortcode or table cell."""
    return PUNCTUATION.sub(_escaped, " ".join(text.split()))


def _escaped(match: re.Match[str]) -> str:
    return match["harmless"] or f"\\{match[0]}" + ("<!-- -->" if match["suspect"] else "")


def source_fold(
    *, of: str, rule: str, command: str, module: str, digests: Mapping[str, str], where: Sequence[str], data: str
) -> str:
    """A details block that says how something was made and links the rows behind it.

    The page that shows it sets ``commit`` and ``data``, the address of the folder with the rows, as metadata.

    Args:
        of: what was made, such as ``this figure``.
        rule: of the workflow.
        command: of embscale, with its arguments.
        module: that makes it.
        digests: SHA-256 of each file read, by its path.
        where: the conditions that chose rows, ``COLUMN=VALUE``.
        data: name of the file with the chosen rows.
    """
    files = "; ".join(f"{_code(path)} (SHA-256 {_code(digest[:DIGEST_LENGTH])})" for path, digest in digests.items())
    chosen = f", the rows with {' and '.join(map(_code, where))}" if where else ", all rows"
    return f"""
<details class="source">
<summary>Source of {of}</summary>

- Made by rule {_code(rule)} with {_code(f"embscale {command}")}; its code is {_code(module)}.
- State of the repository: commit {{{{< meta commit >}}}}.
- Made from {files}{chosen}.
- [The rows behind it]({{{{< meta data >}}}}/{data}), as CSV.

</details>
"""


def _code(text: str) -> str:
    """Words in the typeface of code; unlike a code span it may hold anything."""
    return f"<code>{escape(text)}</code>"


FEWEST_DASHES, MOST_DASHES = 6, 36  # of a column of a table

# How a cell with a number begins; a name may begin with a digit, too, but not with nothing behind it.
NUMERIC = re.compile(r"[-−+]?[\d,.]+( |$|%)|not run$")


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """A pipe table; the first line is its head, columns of numbers are set to the right.

    Where a line is too long for the page, the page shares out its width by the dashes below the head, so that they are
    as many as the column has use for.
    """
    head, *body = lines
    columns = list(zip(*body, strict=True)) or [()] * len(head)
    rule = []
    for name, cells in zip(head, columns, strict=True):
        longest = max(map(len, (name, *cells)))
        dashes = "-" * min(max(longest, FEWEST_DASHES), MOST_DASHES)
        numeric = any(cells) and all(NUMERIC.match(cell) for cell in cells if cell)
        rule.append(f"{dashes}:" if numeric else f":{dashes}")
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *body))
