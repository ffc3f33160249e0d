"""How alike the layers are: kinship of their vectors, shared neighbours, and how far they spread (I-45, S1-18)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = ("model", "width", "quantity", "scaling", "positions", "layer_a", "layer_b", "value", "ci_low", "ci_high")
PAIRS = {
    "linear_cka_debiased": ("raw", "linear CKA"),
    "neighbour_retention": ("unit", "neighbours kept"),
}


def _widest(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["width"] == rows["width"].max()]


def _layers(rows: pd.DataFrame) -> list[str]:
    ranks = rows[(rows["quantity"] == "effective_rank") & (rows["scaling"] == "raw")]
    return [layer for layer in ranks["layer_a"].drop_duplicates() if layer != "final norm"]


def matrix(rows: pd.DataFrame, quantity: str, scaling: str, layers: list[str]) -> np.ndarray:
    """A symmetric table of a quantity of two layers, its diagonal empty."""
    pairs = rows[(rows["quantity"] == quantity) & (rows["scaling"] == scaling)]
    values = {frozenset((row.layer_a, row.layer_b)): row.value for row in pairs.itertuples()}
    return np.array([[values.get(frozenset((a, b)), np.nan) if a != b else np.nan for b in layers] for a in layers])


def draw(rows: pd.DataFrame) -> Figure:
    """Above, two tables of layer pairs of the widest model; below, effective rank by layer of every model."""
    widest, layers = _widest(rows), _layers(rows)
    short = [layer.replace("embedding", "table").replace("block input", "in").replace("block ", "") for layer in layers]
    figure = theme.figure(height=6.8)
    grid = figure.add_gridspec(2, 2, height_ratios=[1.15, 1])
    step = max(1, len(layers) // 12)
    for place, (quantity, (scaling, title)) in enumerate(PAIRS.items()):
        axes = figure.add_subplot(grid[0, place])
        values = matrix(widest, quantity, scaling, layers)
        axes.imshow(values, cmap="Blues", vmin=0, vmax=1)
        if len(layers) <= 8:
            for row, column in np.ndindex(values.shape):
                if np.isfinite(values[row, column]):
                    ink = "white" if values[row, column] > 0.55 else theme.INK
                    text = f"{values[row, column]:.2f}"
                    axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)
        axes.set_xticks(range(0, len(layers), step), short[::step])
        axes.set_yticks(range(0, len(layers), step), short[::step])
        axes.grid(False)
        axes.set_title(f"{title}, {widest['model'].iloc[0]}")
    axes = figure.add_subplot(grid[1, :])
    models = rows.drop_duplicates("model").sort_values("width")
    labels = []
    for colour, model in zip(theme.ordered_colours(len(models)), models["model"], strict=True):
        line = rows[(rows["model"] == model) & (rows["quantity"] == "effective_rank") & (rows["scaling"] == "raw")]
        line = line[line["layer_a"] != "final norm"].reset_index(drop=True)
        share = line["value"] / float(rows.loc[rows["model"] == model, "width"].iloc[0])
        axes.plot(line.index, share, color=colour, marker="o")
        labels.append((float(line.index[-1]), float(share.iloc[-1]), model, colour))
    axes.set_xticks(range(0, len(layers), step), layers[::step])
    axes.set_ylim(0, 1.02)
    axes.margins(x=0.12)
    axes.set_ylabel("effective rank / width")
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: kinship of neighbours and of the ends, and the range of effective ranks."""
    widest, layers = _widest(rows), _layers(rows)
    parts = []
    for quantity, (scaling, title) in PAIRS.items():
        values = matrix(widest, quantity, scaling, layers)
        near = np.nanmean(np.diag(values, 1))
        parts.append(
            f"{title} is {near:.2f} between neighbours on average and {values[0, -1]:.2f} between first and last"
        )
    ranks = widest[(widest["quantity"] == "effective_rank") & (widest["scaling"] == "raw")].set_index("layer_a")[
        "value"
    ]
    parts.append(f"effective rank goes from {ranks[layers[0]]:.0f} to {ranks[layers[-1]]:.0f}")
    model = widest["model"].iloc[0]
    return f"Tables of layer pairs and lines of effective rank over width. In {model}, {'; '.join(parts)}."
