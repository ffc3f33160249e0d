"""Logit lens: what the final norm and the output table make of each layer's states (nostalgebraist 2020; S1-02)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow, theme

COLUMNS = ("model", "width", "layer", "layer_index", "metric", "value", "ci_low", "ci_high")
PANELS = {"agreement": "same first guess as the model, %", "kl_divergence": "divergence from its prediction, nats"}


def draw(rows: pd.DataFrame) -> Figure:
    """Left, agreement with the model's own first guess; right, divergence; a line for each model."""
    if rows.dropna(subset=["value"]).empty:
        raise NothingToShow("No model of this study has an output table to look through; **not run**.")
    models = rows.drop_duplicates("model").sort_values("width")["model"].tolist()
    figure = theme.figure(height=4.0)
    panels = figure.subplots(1, 2)
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")
    step = max(1, len(layers) // 8)
    names = (
        layers["layer"].str.replace("embedding", "table").str.replace("block ", "").str.replace("final norm", "norm")
    )
    for axes, (metric, title) in zip(panels, PANELS.items(), strict=True):
        scale = 100 if metric == "agreement" else 1
        labels = []
        for colour, model in zip(theme.ordered_colours(len(models)), models, strict=True):
            line = rows[(rows["model"] == model) & (rows["metric"] == metric)].sort_values("layer_index")
            axes.plot(line["layer_index"], line["value"] * scale, color=colour, marker="o")
            labels.append((float(line["layer_index"].iloc[0]), float(line["value"].iloc[0] * scale), model, colour))
        axes.set_xticks(layers["layer_index"].tolist()[::step], names.tolist()[::step])
        axes.set_ylim(bottom=0)
        axes.set_title(title)
    colours = theme.ordered_colours(len(models))
    handles = [panels[0].plot([], [], color=c, marker="o", label=m)[0] for c, m in zip(colours, models, strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(models), 5))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: agreement at the first layer and after the last block."""
    parts = []
    for model, group in rows[rows["metric"] == "agreement"].groupby("model", sort=False):
        line = group.sort_values("layer_index")
        parts.append(f"{model} from {line['value'].iloc[0] * 100:.0f} % to {line['value'].iloc[-1] * 100:.0f} %")
    return (
        f"Lines by layer: how often final norm and output table give the model's own first guess. {'; '.join(parts)}."
    )
