"""Set the explorer's data beside its script and the plotting library, in one file that loads nothing."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from embscale.errors import EmbscaleError
from embscale.report import offline
from embscale.report.design import STYLE

HERE = Path(__file__).parent
DESIGN = [STYLE, *(HERE / name for name in ("explorer.html", "explorer.css", "explorer.js"))]

LARGEST_PAGE = 8_000_000  # bytes that a reader is asked to load


# Caption, head and lines of a table.
PlainTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]


def build(
    payload: Mapping[str, Any],
    *,
    title: str,
    links: Sequence[tuple[str, str]] = (),
    plain: Sequence[PlainTable] = (),
) -> str:
    """The page as one HTML text.

    Args:
        payload: what the script reads; its words may come from anywhere and are never markup.
        title: of the page.
        links: title and address of the site's other pages.
        plain: tables for readers who switched scripts off.

    Raises:
        EmbscaleError: the page is too large, or would load something.
    """
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    style, template, own_style, script = (file.read_text("utf-8") for file in DESIGN)
    page = Template(template).substitute(
        title=html.escape(title),
        links=navigation(links),
        plain=without_scripts(plain),
        style=style + own_style,
        payload=embedded_json(payload),
        script=script,
        library=packed(get_plotlyjs()),
    )
    if (size := len(page.encode())) > LARGEST_PAGE:
        raise EmbscaleError(
            f"the explorer would have {size / 1e6:.1f} MB, at most {LARGEST_PAGE / 1e6:.0f} are allowed; "
            "leave rows out with --where, or fewer points"
        )
    if loaded := offline.loads(page):
        raise EmbscaleError(f"the explorer would load {', '.join(loaded)}; embed it")
    return page


def navigation(links: Sequence[tuple[str, str]]) -> str:
    """Links to the site's other pages; without any there is no list of them."""
    anchors = [f'<a href="{html.escape(address)}">{html.escape(name)}</a>' for name, address in links]
    return f'<nav class="pages" aria-label="Other pages">{"".join(anchors)}</nav>' if anchors else ""


def without_scripts(tables: Sequence[PlainTable]) -> str:
    """What the page shows instead of its plots where scripts are switched off."""
    parts = [
        "<p>The plots are made by a script in this page, and scripts are switched off here. These are their rows.</p>"
    ]
    for caption, head, lines in tables:
        names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
        rows = f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody>"
        box = f'<div class="table-box" role="region" tabindex="0" aria-label="{html.escape(caption)}">'
        parts.append(f"{box}<table><caption>{html.escape(caption)}</caption>{rows}</table></div>")
    return f"<noscript>{''.join(parts)}</noscript>"


def library_version() -> str:
    """The version of the plotting library's script."""
    from plotly.offline import get_plotlyjs_version

    return str(get_plotlyjs_version())


def embedded_json(payload: Mapping[str, Any]) -> str:
    """JSON that cannot end or change the script element around it, whatever its words are."""
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def packed(text: str) -> str:
    """A text as gzip in base64, which the browser unpacks itself: less than half the bytes to load and to scan."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
