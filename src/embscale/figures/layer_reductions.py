"""Hidden states in two dimensions by PCA, t-SNE and UMAP (Huang et al., Fig. 2 to 4)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = (
    "model", "width", "reduction", "scaling", "layers", "layer", "layer_index", "x", "y", "explained1", "explained2"
)  # fmt: skip
REDUCTIONS = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
SCALINGS = {"raw": "as they are", "unit": "at length 1", "outliers_removed": "without outlying dimensions"}


def _panels(rows: pd.DataFrame) -> dict[tuple[str, str], list[tuple[str, pd.DataFrame]]]:
    """For each model and scaling, the pictures of all layers; of PCA without outlying dimensions none."""
    kept = rows[(rows["layers"] == "all") & rows["scaling"].isin(["raw", "unit"])]
    models = kept.drop_duplicates("model").sort_values("width")["model"]
    found = {}
    for model in models:
        for scaling in ("raw", "unit"):
            of_panel = kept[(kept["model"] == model) & (kept["scaling"] == scaling)]
            found[model, scaling] = [
                (name, of_panel[of_panel["reduction"] == name])
                for name in REDUCTIONS
                if name in set(of_panel["reduction"])
            ]
    return found


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for each model and scaling, one for each reduction, a colour for each layer."""
    panels = _panels(rows)
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")["layer"].tolist()
    colours = dict(zip(layers, theme.ordered_colours(len(layers)), strict=True))
    columns = max(len(pictures) for pictures in panels.values())
    figure = theme.figure(height=0.8 + 2.5 * len(panels))
    grid = figure.subplots(len(panels), columns, squeeze=False)
    for row, ((model, scaling), pictures) in zip(grid, panels.items(), strict=True):
        for axes, (name, points) in zip(row, pictures, strict=False):
            for layer in layers:
                of_layer = points[points["layer"] == layer]
                axes.scatter(
                    of_layer["x"], of_layer["y"], s=4, color=colours[layer], alpha=0.6, linewidth=0, rasterized=True
                )
            share = points[["explained1", "explained2"]].iloc[0].sum() * 100
            axes.set_title(f"{REDUCTIONS[name]}, {share:.0f} %" if name == "pca" else REDUCTIONS[name])
            axes.set_xticks([])
            axes.set_yticks([])
        for axes in row[len(pictures) :]:
            axes.set_axis_off()
        row[0].set_ylabel(f"{model}\n{SCALINGS[scaling]}")
    shown = layers if len(layers) <= 10 else layers[:: len(layers) // 8]
    handles = [grid[0, 0].scatter([], [], s=50, color=colours[layer], label=layer) for layer in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(shown), 5), handletextpad=0.1)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the share of variance that the principal components explain."""
    parts = []
    for (model, scaling), pictures in _panels(rows).items():
        for name, points in pictures:
            if name == "pca":
                share = points[["explained1", "explained2"]].iloc[0].sum() * 100
                parts.append(f"{model} {SCALINGS[scaling]}, {share:.0f} % of the variance")
    kinds = ", ".join(REDUCTIONS[name] for name in REDUCTIONS if name in set(rows["reduction"]))
    held = "; ".join(parts)
    return f"Scatter plots of hidden states coloured by layer, by {kinds}. Two principal components hold: {held}."
