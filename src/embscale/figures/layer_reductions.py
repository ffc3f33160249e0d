"""Hidden states in two dimensions, by PCA, t-SNE and UMAP, raw and at unit length (Huang et al., Fig. 2 to 4)."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.plotting import theme, views
from embscale.plotting.layers import layer_name
from embscale.plotting.views import View

COLUMNS = (
    "suite", "model", "step", "width", "reduction", "scaling", "layers", "layer", "layer_index", "x", "y",
    "explained1", "explained2", "trustworthiness",
)  # fmt: skip
SCALINGS = {"raw": "as they are", "unit": "at unit length"}
NAMES = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
Picture = tuple[str, str, str]  # model, reduction, layers


def pictures(rows: pd.DataFrame) -> list[Picture]:
    """What is shown: PCA of the narrowest model; all of the widest, and its PCA without the first layer."""
    models = rows[["model", "width"]].drop_duplicates().sort_values("width")["model"].tolist()
    wanted = [(models[0], "pca", "all"), (models[-1], "pca", "all"), (models[-1], "pca", "blocks")]
    wanted += [(models[-1], name, "all") for name in ("tsne", "umap")]
    there = set(rows[["model", "reduction", "layers"]].itertuples(index=False, name=None))
    return [picture for picture in dict.fromkeys(wanted) if picture in there]


def _panel(rows: pd.DataFrame, picture: Picture, scaling: str) -> pd.DataFrame:
    model, reduction, layers = picture
    chosen = (rows["model"] == model) & (rows["reduction"] == reduction) & (rows["layers"] == layers)
    return rows[chosen & (rows["scaling"] == scaling)]


def _heading(rows: pd.DataFrame, picture: Picture) -> str:
    model, reduction, layers = picture
    width = rows.loc[rows["model"] == model, "width"].iloc[0]
    return f"{NAMES[reduction]}, width {width}{'' if layers == 'all' else ', blocks alone'}"


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for each picture, a colour for each layer."""
    shown = pictures(rows)
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")["layer"].tolist()
    colours = dict(zip(layers, theme.ordered_colours(len(layers)), strict=True))
    figure = theme.figure(height=0.7 + 3.1 * len(shown))
    panels = figure.subplots(len(shown), len(SCALINGS), squeeze=False)
    for row, picture in zip(panels, shown, strict=True):
        for axes, (scaling, title) in zip(row, SCALINGS.items(), strict=True):
            points = _panel(rows, picture, scaling)
            # In an order that belongs to no layer, or the last would hide the others.
            points = points.sample(frac=1, random_state=0)
            axes.scatter(
                points["x"], points["y"], s=7, c=points["layer"].map(colours), alpha=0.6, linewidth=0, rasterized=True
            )
            _name_axes(axes, points)
            axes.set_xticks([])
            axes.set_yticks([])
            heading = _heading(rows, picture) if scaling == "raw" else ""
            axes.set_title(f"{heading}\n{title}" if picture == shown[0] else heading)
    # So many layers fit in a legend; of more, every second, third ... is named.
    named = layers[:: -(-len(layers) // 10)]
    handles = [
        figure.axes[0].scatter([], [], s=50, color=colours[layer], label=layer_name(layer, long=True))
        for layer in named
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(named), 5), handletextpad=0.1)
    return figure


def _name_axes(axes: Axes, points: pd.DataFrame) -> None:
    """Shares of variance for PCA; else, since the axes mean nothing, how far the picture can be trusted."""
    first, second, trust = points[["explained1", "explained2", "trustworthiness"]].iloc[0]
    if pd.isna(first):
        axes.set_xlabel(f"trustworthiness {trust:.2f}")
    else:
        axes.set_xlabel(f"first component, {first * 100:.0f} %")
        axes.set_ylabel(f"second, {second * 100:.0f} %")


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: shares of variance and trustworthiness of each panel."""
    parts = []
    for picture in pictures(rows):
        for scaling, title in SCALINGS.items():
            panel = _panel(rows, picture, scaling).iloc[0]
            variance = (panel["explained1"] + panel["explained2"]) * 100
            explained = "" if pd.isna(variance) else f"{variance:.0f} % of the variance, "
            trusted = f"trustworthiness {panel['trustworthiness']:.2f}"
            parts.append(f"{_heading(rows, picture)}, {title}: {explained}{trusted}")
    return f"Scatter plots of hidden states in two dimensions, coloured by layer. {'; '.join(parts)}."


def explorer(rows: pd.DataFrame) -> View:
    """The same in the explorer."""
    return views.reductions(_panel(rows, pictures(rows)[-1], "raw"))
