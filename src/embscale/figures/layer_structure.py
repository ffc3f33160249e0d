"""Similarity of layers by three measures, and the effective dimensions of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import layer_name, name_layers

COLUMNS = ("model", "width", "quantity", "scaling", "layer_a", "layer_b", "value", "reference", "n")
MEASURES = {
    "linear_cka_debiased": "similarity (CKA)",
    "subspace_overlap": "overlap of subspaces",
    "neighbour_retention": "neighbours kept",
}
SCALING = "unit"
ANNOTATED = 8  # so many layers leave room for numbers


def _widest(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["model"] == rows.loc[rows["width"].idxmax(), "model"]]


def _layers(rows: pd.DataFrame) -> list[str]:
    """In the order of the model, which is that of the layers' own rows."""
    return rows.loc[rows["quantity"] == "effective_rank", "layer_a"].drop_duplicates().tolist()


def matrix(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """A measure of every two layers; on the diagonal what two halves of a layer's texts give, or 1."""
    layers = _layers(rows)
    of_quantity = rows[(rows["quantity"] == quantity) & (rows["scaling"] == SCALING)]
    values = of_quantity.pivot(index="layer_a", columns="layer_b", values="value").reindex(index=layers, columns=layers)
    whole = values.fillna(values.T)
    diagonal = np.eye(len(layers), dtype=bool) & whole.isna().to_numpy()
    return whole.mask(diagonal, 1.0)


def draw(rows: pd.DataFrame) -> Figure:
    """Heat maps of the widest model, and lines of the effective rank of all models."""
    widest = _widest(rows)
    figure = theme.figure(height=8.0)
    panels = figure.subplots(2, 2).flat
    image: Any = None
    for axes, (quantity, title) in zip(panels, MEASURES.items(), strict=False):
        image = _heat_map(axes, matrix(widest, quantity))
        axes.set_title(title)
    _ranks(figure.axes[3], rows)
    bar = figure.colorbar(image, ax=figure.axes, location="bottom", shrink=0.6, aspect=40)
    bar.set_label("of the heat maps; 1: the same")
    return figure


def _heat_map(axes: Axes, values: pd.DataFrame) -> Any:  # noqa: ANN401 (matplotlib's image)
    image = axes.imshow(values.to_numpy(), vmin=0, vmax=1, cmap=theme.HEAT)
    axes.grid(visible=False)
    layers = values.columns.tolist()
    name_layers(axes, np.arange(len(layers)), layers)
    axes.set_xlabel("")
    axes.set_yticks(axes.get_xticks(), [layer_name(layers[int(i)]) for i in axes.get_xticks()])
    if len(layers) <= ANNOTATED:
        for (i, j), value in np.ndenumerate(values.to_numpy()):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color=theme.ON_HEAT, fontsize=8)
    return image


def _ranks(axes: Axes, rows: pd.DataFrame) -> None:
    chosen = rows[(rows["quantity"] == "effective_rank") & (rows["scaling"] == SCALING)]
    models = chosen[["model", "width"]].drop_duplicates().sort_values("width")
    labels = []
    for colour, (model, width) in zip(theme.ordered_colours(len(models)), models.itertuples(index=False), strict=True):
        line = chosen[chosen["model"] == model]
        share = line["value"].to_numpy() / width
        axes.plot(np.arange(len(line)), share, color=colour, marker="o")
        labels.append((float(len(line) - 1), float(share[-1]), f"{width}", colour))
    layers = _layers(_widest(rows))
    name_layers(axes, np.arange(len(layers)), layers)
    axes.set_xlabel("")
    axes.set_xlim(-0.3, (len(layers) - 1) * 1.25)
    axes.set_ylim(0, 1.05)
    axes.set_box_aspect(1)
    axes.set_title("effective rank / width")
    theme.end_labels(axes, labels)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each measure of neighbouring layers and of the ends, and the effective ranks."""
    widest = _widest(rows)
    parts = []
    for quantity, title in MEASURES.items():
        values = matrix(widest, quantity).to_numpy()
        near = np.diag(values, 1)
        chance = widest.loc[widest["quantity"] == quantity, "reference"].mean()
        parts.append(
            f"{title}: neighbouring layers {near.min():.2f} to {near.max():.2f}, first and last {values[0, -1]:.2f}, "
            f"by chance {chance:.2f}"
        )
    ranks = []
    chosen = rows[(rows["quantity"] == "effective_rank") & (rows["scaling"] == SCALING)]
    for (model, width), line in chosen.groupby(["model", "width"], sort=False):
        shares = line["value"] / width
        ranks.append(f"{model} {shares.iloc[0]:.2f} at the first layer, {shares.iloc[-1]:.2f} at the last")
    return (
        f"Three heat maps of how alike the layers of {widest['model'].iloc[0]} are, vectors at unit length. "
        f"{'; '.join(parts)}. Fourth panel, effective rank over width by layer: {'; '.join(ranks)}."
    )
