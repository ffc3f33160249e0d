"""How many dimensions make up the weights of each layer (Huang et al., Fig. 8)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = (
    "model", "width", "experiment", "weights", "choice", "k", "layer", "seed", "metric", "value", "ci_low", "ci_high"
)  # fmt: skip

COUNTS = {50: "dimensions_for_50_percent", 90: "dimensions_for_90_percent"}


def _shown(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The narrowest model's weights as they are, and normal random ones."""
    rows = rows[(rows["experiment"] == "cumulative") & (rows["seed"] == "all")]
    rows = rows[rows["width"] == rows["width"].min()]
    return rows[rows["weights"] == "raw"], rows[rows["choice"] == "random"]


def draw(rows: pd.DataFrame) -> Figure:
    """Left, the cumulative share of each layer; right, dimensions for 50 % and for 90 %.  Dashed: random weights."""
    found, random = _shown(rows)
    layers = list(dict.fromkeys(found["layer"]))
    colours = dict(zip(layers, theme.ordered_colours(len(layers)), strict=True))
    figure = theme.figure(height=4.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    for layer in layers:
        line = found[(found["metric"] == "percent") & (found["layer"] == layer)].sort_values("k")
        left.plot(line["k"], line["value"], color=colours[layer], label=layer, linewidth=1.6)
    expected = random[random["metric"] == "percent"].groupby("k")["value"].mean()
    left.plot(expected.index, expected, color=theme.INK, linestyle="--", linewidth=1.2, label="random")
    for share in COUNTS:
        left.axhline(share, color=theme.MUTED, linewidth=0.8)
    left.set_xlabel("largest weights")
    left.set_title("share of their sum, %")
    left.set_ylim(0, 103)
    left.set_xlim(left=0)
    for share, metric in COUNTS.items():
        of_metric = found[found["metric"] == metric].set_index("layer").loc[layers]
        errors = (
            (of_metric["value"] - of_metric["ci_low"]).fillna(0),
            (of_metric["ci_high"] - of_metric["value"]).fillna(0),
        )
        right.errorbar(range(len(layers)), of_metric["value"], errors, color=theme.INK, marker="o", linestyle="")
        level = random[random["metric"] == metric]["value"].mean()
        right.axhline(level, color=theme.INK, linestyle="--", linewidth=1.2)
        right.annotate(f"for {share} %", (0, level), (0, -12), textcoords="offset points", va="top", color=theme.MUTED)
    right.set_xticks(
        range(len(layers)), [layer.replace("embedding", "table").replace("block ", "") for layer in layers]
    )
    right.set_ylim(0, float(found["width"].iloc[0]))
    right.set_xlim(-0.4, len(layers) - 0.6)
    right.set_xlabel("layer (output of block)")
    right.set_title("dimensions needed")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the range of counts over the layers, and that of random weights."""
    found, random = _shown(rows)
    parts = []
    for share, metric in COUNTS.items():
        values = found[found["metric"] == metric]["value"]
        expected = random[random["metric"] == metric]["value"].mean()
        parts.append(f"{share} %: {values.min():.0f} to {values.max():.0f} (normal random weights {expected:.0f})")
    return (
        "Curves of the share of the summed weights that the largest make up, one for each layer, almost the curve of "
        f"random weights where they overlap. Of {int(found['width'].iloc[0])} dimensions those needed for "
        f"{', for '.join(parts)}."
    )
