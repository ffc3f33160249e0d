"""Hidden states on two principal components, raw and at unit length (Huang et al., Fig. 2 to 4)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = ("model", "width", "scaling", "layer", "layer_index", "pc1", "pc2", "explained1", "explained2")
TITLES = {"raw": "as they are", "unit": "at unit length"}


def shown_models(rows: pd.DataFrame) -> list[str]:
    """The narrowest and the widest model: the ends of the axis that the study is about."""
    models = rows[["model", "width"]].drop_duplicates().sort_values("width")["model"].tolist()
    return list(dict.fromkeys([models[0], models[-1]]))


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for each model shown, a colour for each layer."""
    models = shown_models(rows)
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")["layer"].tolist()
    colours = dict(zip(layers, theme.ordered_colours(len(layers)), strict=True))
    figure = theme.figure(height=0.6 + 3.3 * len(models))
    panels = figure.subplots(len(models), len(TITLES), squeeze=False)
    for row, model in zip(panels, models, strict=True):
        for axes, (scaling, title) in zip(row, TITLES.items(), strict=True):
            points = rows[(rows["model"] == model) & (rows["scaling"] == scaling)]
            for layer in layers:
                of_layer = points[points["layer"] == layer]
                axes.scatter(of_layer["pc1"], of_layer["pc2"], s=7, color=colours[layer], alpha=0.55, linewidth=0)
            first, second = points[["explained1", "explained2"]].iloc[0] * 100
            axes.set_xlabel(f"first component, {first:.0f} %")
            axes.set_ylabel(f"second, {second:.0f} %")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(f"width {points['width'].iloc[0]}, {title}")
    handles = [figure.axes[0].scatter([], [], s=50, color=colours[layer], label=layer) for layer in layers]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(layers), 5), handletextpad=0.1)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the share of variance that the components explain in each panel."""
    parts = []
    for model in shown_models(rows):
        for scaling, title in TITLES.items():
            panel = rows[(rows["model"] == model) & (rows["scaling"] == scaling)].iloc[0]
            share = (panel["explained1"] + panel["explained2"]) * 100
            parts.append(f"{model} {title}, {share:.0f} % of the variance")
    panels = "; ".join(parts)
    return f"Scatter plots of hidden states on their first two principal components, coloured by layer: {panels}."
