"""What a model would predict if it ended earlier: the logit lens, by layer (nostalgebraist 2020)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import name_layers

COLUMNS = (
    "model", "width", "layer", "layer_index", "metric", "value", "ci_low", "ci_high", "reference",
)  # fmt: skip
PERCENT = 100
PANELS = {
    "agreement": ("same first token, %", PERCENT),
    "kl_divergence": ("distance from the\nmodel's prediction, nats", 1),
}


def draw(rows: pd.DataFrame) -> Figure:
    """Above, agreement; below, divergence; a line for each model, dashed what predictions by frequency would give."""
    models = rows[["model", "width"]].drop_duplicates().sort_values("width")
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")
    figure = theme.figure(height=6.4)
    for axes, (metric, (label, scale)) in zip(figure.subplots(2, 1, sharex=True), PANELS.items(), strict=True):
        for colour, (model, width) in zip(
            theme.ordered_colours(len(models)), models.itertuples(index=False), strict=True
        ):
            line = rows[(rows["model"] == model) & (rows["metric"] == metric)].sort_values("layer_index")
            value, low, high = (line[name].to_numpy() * scale for name in ("value", "ci_low", "ci_high"))
            style = {"color": colour, "marker": "o", "label": f"width {width}"}
            axes.errorbar(line["layer_index"], value, (value - low, high - value), **style)
            axes.plot(line["layer_index"], line["reference"] * scale, color=colour, linestyle="--", linewidth=1)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0, top=105 if scale == PERCENT else None)
        name_layers(axes, layers["layer_index"].to_numpy(), layers["layer"].tolist())
    figure.axes[0].set_xlabel("")
    figure.axes[0].plot([], [], color=theme.MUTED, linestyle="--", linewidth=1, label="by chance")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: agreement of each model at the first layer and before the last block."""
    parts = []
    for model, group in rows[rows["metric"] == "agreement"].groupby("model", sort=False):
        line = group[group["layer"] != "final norm"].sort_values("layer_index")
        first, before = line.iloc[0], line.iloc[-2]
        parts.append(
            f"{model} {first['value'] * PERCENT:.1f} % at {first['layer']} (by chance "
            f"{first['reference'] * PERCENT:.1f} %), {before['value'] * PERCENT:.1f} % at {before['layer']}"
        )
    return (
        "Lines by layer of how a layer's prediction, through the final norm and the output table, agrees with that "
        f"of the model, and of their divergence. The same first token: {'; '.join(parts)}."
    )
