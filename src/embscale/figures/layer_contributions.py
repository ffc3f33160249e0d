"""The eight dimensions with the largest weights for each layer, with signs (Huang et al., Fig. 7)."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("model", "width", "experiment", "weights", "k", "dimension", "layer", "seed", "metric", "value")

SCALES = {"raw": "weights as they are (the study's)", "standardised": "weights of standardised dimensions"}
COLOURS = ("#0072B2", "#ffffff", "#D55E00")  # negative, nothing, positive


def _shown(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The narrowest model's top dimensions over all seeds, and its width."""
    rows = rows[(rows["experiment"] == "contribution") & (rows["seed"] == "all")]
    rows = rows[rows["width"] == rows["width"].min()]
    return rows, int(rows["width"].iloc[0])


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each scale of the weights: a row for each layer, its top dimensions from left to right."""
    rows, _ = _shown(rows)
    layers = list(dict.fromkeys(rows["layer"]))
    limit = rows["value"].abs().max()
    shades = matplotlib.colors.LinearSegmentedColormap.from_list("signs", COLOURS)
    figure = theme.figure(height=1.3 + 0.36 * len(layers) * len(SCALES))
    panels = figure.subplots(len(SCALES), 1)
    for axes, (scale, title) in zip(panels, SCALES.items(), strict=True):
        of_scale = rows[rows["weights"] == scale]
        table = of_scale.pivot_table(index="layer", columns="k", values="value", sort=False).loc[layers]
        dimensions = of_scale.pivot_table(index="layer", columns="k", values="dimension", sort=False).loc[layers]
        image = axes.imshow(table, cmap=shades, vmin=-limit, vmax=limit, aspect="auto")
        for (row, column), dimension in np.ndenumerate(dimensions.to_numpy()):
            pale = abs(table.iloc[row, column]) < 0.75 * limit
            axes.text(column, row, f"{dimension:.0f}", ha="center", va="center", color=theme.INK if pale else "white")
        axes.set_yticks(range(len(layers)), [layer.replace("embedding", "table") for layer in layers])
        axes.set_xticks(range(table.shape[1]), [f"{k:.0f}" for k in table.columns])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title(title)
    panels[-1].set_xlabel("rank of the dimension, whose number stands in the cell")
    figure.colorbar(image, ax=panels, label="% of the layer's summed weights", shrink=0.7, pad=0.02)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the largest contribution, and how many of the top ones are positive."""
    rows, width = _shown(rows)
    parts = []
    for scale, title in SCALES.items():
        of_scale = rows[rows["weights"] == scale]
        top = of_scale.loc[of_scale["value"].abs().idxmax()]
        positive = of_scale.groupby("layer", sort=False)["value"].apply(lambda values: int((values > 0).sum()))
        signs = ", ".join(f"{layer} {count}" for layer, count in positive.items())
        parts.append(
            f"{title}: the largest is {abs(top['value']):.1f} % (dimension {top['dimension']:.0f}, {top['layer']}; an "
            f"equal share of {width} dimensions is {100 / width:.1f} %); positive among the top eight: {signs}"
        )
    return f"Tables of the eight dimensions with the largest weights for each layer, by sign. {'. '.join(parts)}."
