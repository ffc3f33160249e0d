"""How much of a layer's weights its largest dimensions hold together (Huang et al., Fig. 8)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = ("model", "experiment", "weights", "choice", "k", "layer", "seed", "metric", "value")
TITLES = {"raw": "vectors as they are", "standardised": "standardised dimensions"}


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each kind of weights, a line for each layer; dashed, what random weights would give."""
    kept = rows[(rows["experiment"] == "cumulative") & (rows["metric"] == "percent") & (rows["seed"] == "all")]
    layers = kept["layer"].drop_duplicates().tolist()
    colours = dict(zip(layers, theme.ordered_colours(len(layers)), strict=True))
    figure = theme.figure(height=4.0)
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        for layer in layers:
            line = kept[(kept["weights"] == kind) & (kept["layer"] == layer)].sort_values("k")
            axes.plot(line["k"], line["value"], color=colours[layer], label=layer)
        random = kept[kept["choice"] == "random"].groupby("k")["value"].mean()
        axes.plot(random.index, random, color=theme.MUTED, linestyle="--", linewidth=1.2, label="random weights")
        for share in (50, 90):
            axes.axhline(share, color=theme.FAINT, linewidth=2, zorder=0)
        axes.set_title(title)
        axes.set_xlabel("largest dimensions")
        axes.set_ylim(0, 103)
    panels[0].set_ylabel("share of the summed weights, %")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the range over layers of the dimensions needed for half and for nine tenths."""
    kept = rows[(rows["experiment"] == "cumulative") & (rows["seed"] == "all")]
    parts = []
    for share in (50, 90):
        needed = kept[kept["metric"] == f"dimensions_for_{share}_percent"]
        words = []
        for kind, title in TITLES.items():
            values = needed.loc[needed["weights"] == kind, "value"]
            words.append(f"{values.min():.0f} to {values.max():.0f} ({title})")
        random = needed.loc[needed["choice"] == "random", "value"].mean()
        parts.append(f"{share} % takes {', '.join(words)}, {random:.0f} if weights were random")
    return (
        "Curves of the share of a layer's summed absolute weights that its largest dimensions hold. "
        f"{'; '.join(parts)}."
    )
