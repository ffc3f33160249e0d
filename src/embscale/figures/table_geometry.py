"""Scores of tables with corrected geometry, compared with token overlap alone."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.rows.selection import ladder_tables

COLUMNS = ("suite", "model", "step", "variant", "seed", "dim", "metric", "value", "ci_low", "ci_high")

# Variants that change the geometry of a table, by what is done to it.
NAMES = {
    "full": "as trained",
    "unit": "rows of unit length",
    "centred": "mean taken off",
    "all_but_top": "top components taken off",
    "whitened": "whitened",
    "sif": "weighted by rarity (SIF)",
    "idf": "weighted by rarity (idf)",
}
REFERENCES = {"overlap": "token overlap", "overlap_idf": "token overlap, idf", "bm25": "BM25"}
MARKERS = "os^Dv*P"


def _lines(rows: pd.DataFrame) -> pd.DataFrame:
    final = ladder_tables(rows)
    of_variants = final[final["variant"].isin(list(NAMES))].sort_values("width")
    if set(of_variants["variant"]) <= {"full"}:
        raise NothingToShow("No variant of this kind is among `scores.variants` of this study: **not run**.")
    return of_variants


def _references(rows: pd.DataFrame) -> pd.DataFrame:
    references = rows[rows["variant"].isin(list(REFERENCES))]
    return (
        references.drop_duplicates("variant")
        .set_index("variant")
        .reindex([k for k in REFERENCES if k in set(references["variant"])])
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Left, a line for each variant against width; right, what needs no table, as marks on the same axis."""
    shown, references = _lines(rows), _references(rows)
    figure = theme.figure(height=5.2)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
    kinds = [kind for kind in NAMES if kind in set(shown["variant"])]
    colours = theme.category_colours(kinds)
    for kind, marker in zip(kinds, MARKERS, strict=False):
        line = shown[shown["variant"] == kind]
        value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
        left.errorbar(
            line["width"], value, (value - low, high - value), color=colours[kind], marker=marker, label=NAMES[kind]
        )
    theme.log2_ticks(left, shown["width"].tolist())
    left.set_xlabel("width of the model")
    left.set_ylabel(metric_label(rows))
    left.set_title("tables")
    value, low, high = (references[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
    places = range(len(references))
    right.errorbar(places, value, (value - low, high - value), color=theme.INK, marker="D", linestyle="none")
    right.set_xticks(
        places, [REFERENCES[kind].replace(", ", ",\n") for kind in references.index], rotation=40, ha="right"
    )
    left.set_ylim(bottom=0)  # of both panels, so after both are drawn
    right.set_xlim(-0.6, max(len(references) - 0.4, 0.6))
    right.set_title("no table")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each variant at the widest model, and the references."""
    shown, references = _lines(rows), _references(rows)
    widest = shown[shown["width"] == shown["width"].max()].set_index("variant")["value"] * PERCENT
    tables = ", ".join(f"{NAMES[kind]} {widest[kind]:.2f}" for kind in NAMES if kind in widest)
    others = ", ".join(f"{REFERENCES[kind]} {row['value'] * PERCENT:.2f}" for kind, row in references.iterrows())
    return (
        f"Left, lines of {metric_label(rows)} against width, one for each treatment of the table; at width "
        f"{shown['width'].max():.0f}: {tables}. Right, without any table: {others or 'not run'}."
    )
