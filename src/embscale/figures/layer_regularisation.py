"""Accuracy of a layer classifier by strength of the regularisation."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "choice", "inverse_regularisation", "seed", "metric", "value", "ci_low", "ci_high",
)  # fmt: skip


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The narrowest model's rows."""
    return rows[(rows["experiment"] == "regularisation") & (rows["width"] == rows["width"].min())]


def _accuracies(rows: pd.DataFrame, choice: str) -> pd.DataFrame:
    line = rows[(rows["choice"] == choice) & (rows["metric"] == "accuracy") & (rows["seed"] == "all")]
    return line.sort_values("inverse_regularisation")


def draw(rows: pd.DataFrame) -> Figure:
    """A line over C; across it, the accuracy where each training set chose its own."""
    rows = _shown(rows)
    line, crossed = _accuracies(rows, "given"), _accuracies(rows, "cross_validated").iloc[0]
    figure = theme.figure(height=3.6)
    axes = figure.subplots()
    value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
    colour, other = theme.category_colours(["given", "chosen"]).values()
    axes.errorbar(
        line["inverse_regularisation"], value, np.maximum(0, (value - low, high - value)), color=colour, marker="o",
        label="C as given",
    )  # fmt: skip
    axes.axhline(crossed["value"] * PERCENT, color=other, linestyle="--", label="C chosen inside each training set")
    axes.axhspan(crossed["ci_low"] * PERCENT, crossed["ci_high"] * PERCENT, color=other, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.set_xticks(line["inverse_regularisation"], [f"{c:g}" for c in line["inverse_regularisation"]])
    axes.minorticks_off()
    axes.set_xlabel("C, the inverse of the penalty's strength")
    axes.set_ylabel("accuracy, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: accuracy at each C, what was chosen, and where a fit did not converge."""
    rows = _shown(rows)
    accuracies = [
        f"{row['value'] * PERCENT:.1f} % at {row['inverse_regularisation']:g}"
        for _, row in _accuracies(rows, "given").iterrows()
    ]
    crossed = _accuracies(rows, "cross_validated").iloc[0]
    chosen = rows[rows["metric"] == "inverse_regularisation"]["value"].sort_values().unique()
    unfinished = rows[(rows["metric"] == "converged") & (rows["value"] < 1)]["inverse_regularisation"].tolist()
    warning = f" Some fits at {', '.join(f'{c:g}' for c in unfinished)} did not converge." if unfinished else ""
    return (
        f"A line of accuracy against C: {', '.join(accuracies)}. Chosen inside each training set "
        f"({', '.join(f'{c:g}' for c in chosen)}): {crossed['value'] * PERCENT:.1f} %.{warning}"
    )
