"""Accuracy by number of texts and window, as published and with equally many vectors (Huang et al., Fig. 6)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme
from embscale.figures.layer_accuracy import PERCENT

COLUMNS = (
    "suite", "model", "width", "tokens", "texts_count", "classifier", "design", "seed", "layer", "metric", "value",
    "ci_low", "ci_high", "n_train",
)  # fmt: skip

DESIGNS = {"as_published": "all vectors of the window", "matched": "as many as in the shortest"}
MODELS = 4  # as many as the study has


def _shown(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Accuracies of the converged classifier if it was run, and at most four models from narrow to wide."""
    classifier = "logistic_regression" if "logistic_regression" in set(rows["classifier"]) else "sgd"
    rows = rows[(rows["classifier"] == classifier) & (rows["metric"] == "accuracy") & (rows["seed"] == "all")]
    models = rows.drop_duplicates("model").sort_values("width", kind="stable")["model"].tolist()
    chosen = np.linspace(0, len(models) - 1, min(len(models), MODELS)).round().astype(int)
    return rows, [models[i] for i in chosen]


def draw(rows: pd.DataFrame) -> Figure:
    """A row for each model, a column for each design, a line for each window."""
    rows, models = _shown(rows)
    windows = sorted(rows["tokens"].unique())
    colours = dict(zip(windows, theme.ordered_colours(len(windows)), strict=True))
    figure = theme.figure(height=0.9 + 2.5 * len(models))
    panels = figure.subplots(len(models), len(DESIGNS), squeeze=False, sharex=True, sharey="row")
    for row, model in zip(panels, models, strict=True):
        for axes, (design, title) in zip(row, DESIGNS.items(), strict=True):
            some = rows[(rows["model"] == model) & (rows["design"] == design)]
            for window in windows:
                line = some[some["tokens"] == window].sort_values("texts_count")
                value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
                axes.errorbar(
                    line["texts_count"], value, (value - low, high - value), color=colours[window], marker="o",
                    markersize=5, label=f"{window}",
                )  # fmt: skip
            theme.log2_ticks(axes, rows["texts_count"].tolist())
            if axes in panels[0]:
                axes.set_title(title)
        row[0].set_ylabel(f"width {rows[rows['model'] == model]['width'].iloc[0]}: correct, %")
    for axes in panels[-1]:
        axes.set_xlabel("texts")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, title="first tokens of each text", loc="outside lower center", ncols=min(len(windows), 6)
    )
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: shortest and longest window at the most texts, in both designs."""
    rows, models = _shown(rows)
    most = rows[rows["texts_count"] == rows["texts_count"].max()]
    parts = []
    for model in models:
        for design, title in DESIGNS.items():
            line = most[(most["model"] == model) & (most["design"] == design)].sort_values("tokens")
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{model}, {title}: {first['value'] * PERCENT:.1f} % with {first['tokens']} tokens, "
                f"{last['value'] * PERCENT:.1f} % with {last['tokens']}"
            )
    return (
        "Lines of the share of vectors whose layer is named correctly against the number of texts, one for each window "
        f"of first tokens, in two designs. With {most['texts_count'].max()} texts: {'; '.join(parts)}."
    )
