"""What distinguishes orders of the same tokens: nothing, a causal mask, positions."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("mask", "positions", "layers", "vector", "value", "n")
CASES = {
    ("none", "none"): "no mask,\nno positions",
    ("causal", "none"): "causal mask,\nno positions",
    ("none", "sinusoidal"): "no mask,\npositions",
    ("causal", "sinusoidal"): "causal mask,\npositions",
}
VECTORS = {"pooled": "mean over tokens", "last": "last token"}


def draw(rows: pd.DataFrame) -> Figure:
    """Panels for the two vectors, groups of bars for the cases, a bar for each depth; exact zeros are marked."""
    depths = sorted(rows["layers"].unique())
    figure = theme.figure(height=5.4)
    panels = figure.subplots(len(VECTORS), 1, sharex=True, sharey=True)
    colours = theme.ordered_colours(len(depths))
    value = rows.set_index(["mask", "positions", "vector", "layers"])["value"]
    places = np.arange(len(CASES))
    for axes, (vector, title) in zip(panels, VECTORS.items(), strict=True):
        for i, (depth, colour) in enumerate(zip(depths, colours, strict=True)):
            heights = np.array([value[(*case, vector, depth)] for case in CASES])
            at = places + (i - (len(depths) - 1) / 2) * 0.27
            axes.bar(at, heights, 0.25, color=colour, label=f"{depth} layers" if depth != 1 else "1 layer")
            zeros = heights == 0
            axes.scatter(at[zeros], heights[zeros], marker="_", s=40, color=colour, clip_on=False)
        axes.set_xticks(places, list(CASES.values()))
        axes.set_title(title)
        axes.grid(visible=False, axis="x")
        axes.set_ylabel("relative difference")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(depths))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: where the difference is zero, and the others."""
    parts = []
    for (mask, positions, vector), group in rows.groupby(["mask", "positions", "vector"], sort=False):
        values = ", ".join(f"{value:.3g}" for value in group.sort_values("layers")["value"])
        case = CASES[str(mask), str(positions)].replace("\n", " ")
        parts.append(f"{case}, {VECTORS[str(vector)]}: {values}")
    return (
        "Bars of the largest relative difference between texts of the same tokens in different orders, with "
        f"{', '.join(map(str, sorted(rows['layers'].unique())))} layers of attention. {'; '.join(parts)}."
    )
