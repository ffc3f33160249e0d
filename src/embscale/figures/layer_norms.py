"""Length of hidden states by layer (Huang et al., inset of Fig. 2)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = (
    "model", "width", "positions", "layer", "layer_index", "after_final_norm", "min", "mean", "max", "growth",
    "growth_low", "growth_high",
)  # fmt: skip

# Vectors of the first position are long in many models, whatever the token: they get a line of their own.
FIRST_LEFT_OUT = "after_first"


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each model with the range of its vectors; the final norm's output stands apart."""
    first, rows = rows[rows["positions"] != FIRST_LEFT_OUT], rows[rows["positions"] == FIRST_LEFT_OUT]
    models = rows[["model", "width"]].drop_duplicates()
    figure = theme.figure(height=4.4)
    axes = figure.subplots()
    labels = []
    for colour, (model, width) in zip(theme.ordered_colours(len(models)), models.itertuples(index=False), strict=True):
        of_model = rows[rows["model"] == model].sort_values("layer_index")
        normed = of_model["after_final_norm"].astype(bool)
        line, after = of_model[~normed], of_model[normed]
        axes.fill_between(line["layer_index"], line["min"], line["max"], color=colour, alpha=0.12, linewidth=0)
        axes.plot(line["layer_index"], line["mean"], color=colour, marker="o")
        longest = first[(first["model"] == model) & ~first["after_final_norm"].astype(bool)].sort_values("layer_index")
        axes.plot(longest["layer_index"], longest["max"], color=colour, linestyle=":", linewidth=1.2)
        end = line.iloc[-1]
        x = float(end["layer_index"])
        if not after.empty:  # some models have no final norm
            end = after.iloc[0]
            x = float(end["layer_index"]) + 0.5
            spread = [[end["mean"] - end["min"]], [end["max"] - end["mean"]]]
            axes.errorbar([x], [end["mean"]], spread, color=colour, marker="D")
        labels.append((x, float(end["mean"]), f"width {width}", colour))
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")
    places = layers["layer_index"] + 0.5 * layers["after_final_norm"].astype(bool)
    axes.set_yscale("log")
    axes.set_xticks(places, layers["layer"].str.replace("final norm", "after the\nfinal norm").tolist())
    axes.set_xlim(-0.3, float(places.max()) + 1.1)
    if layers["after_final_norm"].any():
        axes.axvline(float(places.max()) - 0.75, color=theme.FAINT, linewidth=6, zorder=0)
    axes.set_ylabel("length of the vector (dotted: longest,\nfirst position included)", fontsize=10)
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean length at the table and after the last block, and growth per block."""
    parts = []
    for model, group in rows[rows["positions"] == FIRST_LEFT_OUT].groupby("model", sort=False):
        line = group[~group["after_final_norm"].astype(bool)].sort_values("layer_index")
        first, last = line["mean"].iloc[0], line["mean"].iloc[-1]
        growth, low, high = line[["growth", "growth_low", "growth_high"]].iloc[0]
        parts.append(
            f"{model} from {first:.2f} to {last:.2f}, a factor of {growth:.2f} [{low:.2f}, {high:.2f}] per block"
        )
    return (
        "Lines of the mean length of hidden states by layer on a logarithmic axis, with bands from the shortest to the "
        f"longest vector, and the state after the final norm set apart. Before the final norm: {'; '.join(parts)}."
    )
