"""Length of hidden states by layer, with and without the first position (Huang et al., inset of Fig. 2)."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from embscale.plotting import theme
from embscale.plotting.layers import name_layers

COLUMNS = (
    "model", "width", "positions", "layer", "layer_index", "after_final_norm", "min", "mean", "max", "growth",
    "growth_low", "growth_high",
)  # fmt: skip
TITLES = {"after_first": "without the first position", "all": "with the first position"}


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each model with the range of its vectors; the final norm's output stands apart."""
    sets = [name for name in TITLES if name in set(rows["positions"])]
    figure = theme.figure(height=4.3 * len(sets))
    for axes, positions in zip(figure.subplots(len(sets), 1, squeeze=False, sharey=True)[:, 0], sets, strict=True):
        _panel(axes, rows[rows["positions"] == positions])
        axes.set_title(f"{TITLES[positions]} (×: growth per block)")
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    models = rows[["model", "width"]].drop_duplicates()
    layers = rows.drop_duplicates("layer_index").sort_values("layer_index")
    last = float(layers["layer_index"].max())
    gap = max(0.5, 0.04 * last)
    labels = []
    for colour, (model, width) in zip(theme.ordered_colours(len(models)), models.itertuples(index=False), strict=True):
        of_model = rows[rows["model"] == model].sort_values("layer_index")
        normed = of_model["after_final_norm"].astype(bool)
        line, after = of_model[~normed], of_model[normed]
        axes.fill_between(line["layer_index"], line["min"], line["max"], color=colour, alpha=0.12, linewidth=0)
        axes.plot(line["layer_index"], line["mean"], color=colour, marker="o")
        end = line.iloc[-1]
        x = float(end["layer_index"])
        if not after.empty:  # some models have no final norm
            end = after.iloc[0]
            x = float(end["layer_index"]) + gap
            spread = [[end["mean"] - end["min"]], [end["max"] - end["mean"]]]
            axes.errorbar([x], [end["mean"]], spread, color=colour, marker="D")
        factor = "" if pd.isna(end["growth"]) else f", × {end['growth']:.2f}"
        labels.append((x, float(end["mean"]), f"width {width}{factor}", colour))
    places = layers["layer_index"] + gap * layers["after_final_norm"].astype(bool)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False))
    name_layers(axes, places.to_numpy(), layers["layer"].tolist())
    axes.set_xlim(-0.3, float(places.max()) + 0.36 * max(last, 3))
    if layers["after_final_norm"].any():
        axes.axvline(float(places.max()) - (1 + gap) / 2, color=theme.FAINT, linewidth=6, zorder=0)
    axes.set_ylabel("length of the vector")
    theme.end_labels(axes, labels)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: mean length at the table and after the last block, and growth per block."""
    parts = []
    for (positions, model), group in rows.groupby(["positions", "model"], sort=False):
        line = group[~group["after_final_norm"].astype(bool)].sort_values("layer_index")
        first, last = line["mean"].iloc[0], line["mean"].iloc[-1]
        low, growth, high = (line[name].iloc[0] for name in ("growth_low", "growth", "growth_high"))
        factor = "" if pd.isna(growth) else f", a factor of {growth:.3f} [{low:.3f}, {high:.3f}] per block"
        parts.append(f"{model} {TITLES[positions]} from {first:.2f} to {last:.2f}{factor}")
    return (
        "Lines of the mean length of hidden states by layer on a logarithmic axis, with bands from the shortest to the "
        "longest vector, the state after the final norm set apart, and the factor by which the length grows from block "
        f"to block. Before the final norm: {'; '.join(parts)}."
    )
