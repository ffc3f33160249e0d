"""Accuracy by number of texts and window, as published and with equally many vectors (Huang et al., Fig. 6).

Of models that the study ran too, hollow markers are the accuracies that it published, by its own protocol.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.claims import published_scores
from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = (
    "suite", "model", "width", "tokens", "texts_count", "classifier", "design", "seed", "layer", "metric", "value",
    "ci_low", "ci_high", "n_train",
)  # fmt: skip

# Classifier and design -> the title of a column.
WAYS = {
    ("sgd", "as_published"): "study's own,\nall vectors",
    ("sgd", "matched"): "study's own,\nequally many",
    ("logistic_regression", "as_published"): "to the end,\nall vectors",
    ("logistic_regression", "matched"): "to the end,\nequally many",
}
OF_STUDY = ("sgd", "as_published")
MODELS = 4  # as many as the study has
TICKS = 3  # numbers of texts that are named
APART = 0.08  # of the windows' points, in doublings of the texts, so that their intervals do not hide each other


def _shown(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Accuracies over all seeds, and at most four models from narrow to wide."""
    rows = rows[(rows["metric"] == "accuracy") & (rows["seed"] == "all")]
    models = rows.drop_duplicates("model").sort_values("width", kind="stable")["model"].tolist()
    chosen = np.linspace(0, len(models) - 1, min(len(models), MODELS)).round().astype(int)
    return rows, [models[i] for i in chosen]


def _of(rows: pd.DataFrame, model: str, way: tuple[str, str]) -> pd.DataFrame:
    classifier, design = way
    return rows[(rows["model"] == model) & (rows["classifier"] == classifier) & (rows["design"] == design)]


def _ways(rows: pd.DataFrame) -> list[tuple[str, str]]:
    there = set(rows[["classifier", "design"]].itertuples(index=False, name=None))
    return [way for way in WAYS if way in there]


def _published(models: list[str]) -> pd.DataFrame:
    """What the study published of these models' grids."""
    theirs = published_scores.huang()
    return theirs[theirs["model"].isin(models) & (theirs["source"] == "grid")]


def draw(rows: pd.DataFrame) -> Figure:
    """A row for each model, a column for each classifier and design, a line for each window."""
    rows, models = _shown(rows)
    ways, theirs = _ways(rows), _published(models)
    windows = sorted({*rows["tokens"], *theirs["tokens"]})
    counts = sorted({*rows["texts_count"], *theirs["texts_count"]})
    colours = dict(zip(windows, theme.ordered_colours(len(windows)), strict=True))
    figure = theme.figure(height=1.3 + 2.5 * len(models))
    panels = figure.subplots(len(models), len(ways), squeeze=False, sharex=True, sharey="row")
    for row, model in zip(panels, models, strict=True):
        for axes, way in zip(row, ways, strict=True):
            cells = _of(rows, model, way)
            for number, window in enumerate(windows):
                line = cells[cells["tokens"] == window].sort_values("texts_count")
                value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
                shift = 2 ** (APART * (number - (len(windows) - 1) / 2))
                x, errors = line["texts_count"] * shift, (value - low, high - value)
                axes.errorbar(x, value, errors, color=colours[window], marker="o", markersize=5)
            if way == OF_STUDY:
                for window, line in theirs[theirs["model"] == model].groupby("tokens"):
                    style = {"markeredgecolor": colours[window], "markerfacecolor": "white", "markersize": 5}
                    axes.plot(line["texts_count"], line["value"] * PERCENT, marker="o", linestyle="", **style)
            named = np.linspace(0, len(counts) - 1, min(len(counts), TICKS)).round().astype(int)
            theme.log2_ticks(axes, [counts[i] for i in named])
            axes.set_xlim(counts[0] / 2**0.35, counts[-1] * 2**0.35)
            if model == models[0]:
                axes.set_title(WAYS[way])
        row[0].set_ylabel(f"width {rows[rows['model'] == model]['width'].iloc[0]}: correct, %")
    for axes in panels[-1]:
        axes.set_xlabel("texts")
    handles = [panels[0, 0].plot([], [], color=colours[window], marker="o")[0] for window in windows]
    labels = [f"{window}" for window in windows]
    if len(theirs):
        hollow = {"color": theme.MUTED, "markerfacecolor": "white", "marker": "o", "linestyle": ""}
        handles.append(panels[0, 0].plot([], [], **hollow)[0])
        labels.append("published")
    figure.legend(
        handles, labels, title="first tokens of each text", loc="outside lower center", ncols=min(len(handles), 6)
    )
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: shortest and longest window at the most texts, in every way."""
    rows, models = _shown(rows)
    most = rows[rows["texts_count"] == rows["texts_count"].max()]
    parts = []
    for model in models:
        for way in _ways(rows):
            line = _of(most, model, way).sort_values("tokens")
            if line.empty:
                continue
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{model}, {' '.join(WAYS[way].split())}: {first['value'] * PERCENT:.1f} % with {first['tokens']} "
                f"tokens, {last['value'] * PERCENT:.1f} % with {last['tokens']}"
            )
    for model, line in _published(models).groupby("model", sort=False):
        ends = line["value"] * PERCENT
        parts.append(f"{model}, published: {ends.min():.1f} to {ends.max():.1f} %")
    return (
        "Lines of the share of vectors whose layer is named correctly against the number of texts, one for each window "
        "of first tokens, by the study's own protocol and by a classifier fitted to the end and tested on other texts, "
        f"each with all vectors and with equally many. With {most['texts_count'].max()} texts: {'; '.join(parts)}."
    )
