"""The dimensions with the largest share in each layer's weights, and their sign (Huang et al., Fig. 7)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme

COLUMNS = ("model", "experiment", "weights", "k", "dimension", "layer", "seed", "metric", "value")
POSITIVE, NEGATIVE = theme.CATEGORIES[1], theme.CATEGORIES[0]
TITLES = {"raw": "weights of the vectors as they are", "standardised": "weights of standardised dimensions"}


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    kept = rows[(rows["experiment"] == "contribution") & (rows["metric"] == "percent") & (rows["seed"] == "all")]
    return kept.astype({"k": int, "dimension": int})


def draw(rows: pd.DataFrame) -> Figure:
    """A column of eight bars for each layer, longest first, each with the number of its dimension."""
    shares = _shares(rows)
    layers = shares["layer"].drop_duplicates().tolist()
    kinds = [kind for kind in TITLES if kind in set(shares["weights"])]
    figure = theme.figure(height=0.5 + 3.5 * len(kinds))
    panels = figure.subplots(len(kinds), 1, squeeze=False)[:, 0]
    for axes, kind in zip(panels, kinds, strict=True):
        of_kind = shares[shares["weights"] == kind]
        most = int(of_kind["k"].max())
        for place, layer in enumerate(layers):
            for bar in of_kind[of_kind["layer"] == layer].itertuples():
                x = place + (bar.k - (most + 1) / 2) * 0.85 / most
                colour = POSITIVE if bar.value > 0 else NEGATIVE
                axes.bar(x, bar.value, 0.75 / most, color=colour)
                if len(layers) <= 8:
                    side = 1 if bar.value > 0 else -1
                    axes.annotate(
                        str(bar.dimension),
                        (x, bar.value),
                        (0, 3 * side),
                        textcoords="offset points",
                        ha="center",
                        va="bottom" if side > 0 else "top",
                        rotation=90,
                        fontsize=8,
                    )
        axes.axhline(0, color=theme.MUTED, linewidth=0.8)
        axes.set_xticks(range(len(layers)), layers)
        axes.margins(y=0.22)
        axes.set_ylabel("share of the layer's weights, %")
        axes.set_title(TITLES[kind])
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the largest share, and how many of those shown are positive by layer."""
    parts = []
    for kind, group in _shares(rows).groupby("weights", sort=False):
        largest = group.loc[group["value"].abs().idxmax()]
        positive = group.groupby("layer", sort=False)["value"].agg(lambda values: int((values > 0).sum()))
        signs = ", ".join(f"{layer} {count}" for layer, count in positive.items())
        parts.append(
            f"{TITLES[kind]}: the largest share is {abs(largest['value']):.1f} % (dimension {largest['dimension']}, "
            f"{largest['layer']}); positive among those shown: {signs}"
        )
    return (
        "Bars for each layer's largest dimensions, orange upwards if positive, blue downwards if negative. "
        f"{'; '.join(parts)}."
    )
