"""Make the explorer: one page on which a reader chooses what is plotted and sees the rows behind it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli import _pairs
from embscale.cli._note import write_with_provenance
from embscale.cli._rows import add_where
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256
from embscale.rows import tidy

if TYPE_CHECKING:
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--title", required=True, help="of the page")
    parser.add_argument("--scores", type=Path, required=True, nargs="+", metavar="CSV", help="from embscale gather")
    parser.add_argument(
        "--estimates", type=Path, required=True, nargs="+", metavar="CSV", help="means, from embscale estimates"
    )
    parser.add_argument(
        "--differences", type=Path, nargs="*", default=[], metavar="CSV", help="from embscale estimates"
    )
    parser.add_argument(
        "--curves",
        type=Path,
        nargs="*",
        default=[],
        metavar="CSV",
        help="tokens of steps, from embscale ladder-answers",
    )
    add_where(parser)
    parser.add_argument("--metric", required=True, help="the one shown first")
    parser.add_argument("--length", required=True, help="of documents: first tokens that count, or all")
    parser.add_argument(
        "--facts", type=Path, nargs="*", default=[], metavar="CSV", help="rows, dims and parameters of the models"
    )
    parser.add_argument(
        "--queries", type=Path, nargs="*", default=[], metavar="CSV", help="from embscale query-changes"
    )
    parser.add_argument("--points", type=Path, nargs="*", default=[], metavar="CSV", help="hidden states on a plane")
    parser.add_argument("--confusion", type=Path, nargs="*", default=[], metavar="CSV", help="from embscale probe")
    parser.add_argument("--layers", type=Path, nargs="*", default=[], metavar="CSV", help="from embscale probe")
    parser.add_argument(
        "--tokenizer",
        action="append",
        default=[],
        metavar="SUITE=FOLDER",
        help="decodes the tokens of a suite's points; repeatable",
    )
    _pairs.add_links(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html")


def run(args: argparse.Namespace) -> None:
    """Read the rows, make the page and its note."""
    from embscale.explorer import page, payload
    from embscale.texts import tokens

    folders = {suite: Path(folder) for suite, folder in _pairs.pairs("--tokenizer", args.tokenizer, "SUITE=FOLDER")}
    links = _pairs.links(args.links)
    tables = [*args.scores, *args.estimates, *args.differences, *args.curves]
    tables += [*args.facts, *args.queries, *args.points, *args.confusion, *args.layers]
    # The note's source digests cover only Python; the page also depends on its design files.
    inputs = [*tables, *(tokens.tokenizer_file(folder) for folder in folders.values()), *page.DESIGN]
    facts = {"plotly.js": page.library_version()}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as [output]:
        spellers = {suite: _speller(folder) for suite, folder in folders.items()}
        means = payload.means(
            tidy.read(args.estimates, payload.MEAN_COLUMNS, where=args.where),
            _rows(args.differences, payload.DIFFERENCE_COLUMNS, args.where),
            _rows(args.curves, payload.CURVE_COLUMNS),
            length=args.length,
        )
        scores = payload.scores(
            tidy.read(args.scores, payload.SCORE_COLUMNS, where=args.where),
            first_metric=args.metric,
            length=args.length,
        )
        layers = {
            "points": _rows(args.points, payload.POINT_COLUMNS),
            "confusion": _rows(args.confusion, payload.CONFUSION_COLUMNS),
            "accuracies": _rows(args.layers, payload.LAYER_COLUMNS),
        }
        payloads = {
            "scores": scores,
            "means": payload.described_means(means),
            "facts": payload.facts(_facts(args.facts)),
            "queries": payload.query_changes(_rows(args.queries, payload.QUERY_COLUMNS)),
            "layers": payload.described_layers(layers, spellers),
            "models": payload.models([means, *(rows for rows in layers.values() if rows is not None)]),
            "made_from": [{"file": p.name, "sha256": file_sha256(p)[: payload.DIGEST_LENGTH]} for p in tables],
        }
        plain = payload.plain_tables(means, layers["accuracies"], metric=args.metric)
        output.write_text(page.build(payloads, title=args.title, links=links, plain=plain), "utf-8")


def _rows(paths: list[Path], columns: tuple[str, ...], where: Sequence[str] = ()) -> pd.DataFrame | None:
    return tidy.read(paths, columns, where=list(where)) if paths else None


def _facts(paths: list[Path]) -> pd.DataFrame:
    """Facts of models; a study without published suites has an inventory without rows."""
    import pandas as pd

    from embscale.explorer.payload import FACT_COLUMNS

    frames = [pd.DataFrame(columns=list(FACT_COLUMNS)), *(tidy.load(path) for path in paths)]
    for path, frame in zip(paths, frames[1:], strict=True):
        if missing := set(FACT_COLUMNS) - set(frame):
            raise EmbscaleError(f"{path}: no column {min(missing)!r}; it has {', '.join(map(str, frame))}")
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def _speller(folder: Path) -> Callable[[int], str]:
    """A function from token ids to text; parts of a character are shown as the tokenizer spells them."""
    from embscale.texts import tokens

    tokenizer = tokens.load_tokenizer(folder)

    def spell(token: int) -> str:
        text = tokenizer.decode([token], skip_special_tokens=False)
        return text if text and "\ufffd" not in text else tokenizer.id_to_token(token) or f"token {token}"

    return spell
