"""Rotary positions: the product of a query and a key depends on their distance alone (Su et al. 2021)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("scheme", "statistic", "first_place", "distance", "value", "x", "y")
TITLES = {"rotary": "turned by place", "added": "positions added"}


def draw(rows: pd.DataFrame) -> Figure:
    """Left, one pair of columns as arrows at several places; then the products by distance for two schemes."""
    first_places = sorted(rows["first_place"].unique())
    colours = dict(zip(first_places, theme.ordered_colours(len(first_places)), strict=True))
    figure = theme.figure(height=3.4)
    arrows, *lines = figure.subplots(1, 3)
    pairs = rows[rows["statistic"] != "product"]
    for row in pairs.itertuples():
        arrows.annotate(
            "",
            (row.x, row.y),
            (0, 0),
            arrowprops={
                "arrowstyle": "-|>",
                "color": colours[row.first_place],
                "linestyle": "-" if row.statistic == "query" else (0, (3, 2)),
                "linewidth": 1.8,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    reach = 1.1 * float(np.hypot(pairs["x"], pairs["y"]).max())
    arrows.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[0], yticks=[0])
    arrows.set_xticklabels([])
    arrows.set_yticklabels([])
    arrows.set_title("one pair of columns")
    arrows.set_xlabel("dashed: key")
    products = rows[rows["statistic"] == "product"]
    for axes, (scheme, title) in zip(lines, TITLES.items(), strict=True):
        for i, place in enumerate(first_places):
            line = products[(products["scheme"] == scheme) & (products["first_place"] == place)].sort_values("distance")
            # Lines that coincide show through each other's gaps.
            dashes = (3 * i, (3, 3 * (len(first_places) - 1))) if scheme == "rotary" and len(first_places) > 1 else "-"
            axes.plot(line["distance"], line["value"], color=colours[place], linestyle=dashes, label=str(place))
        axes.set_title(title)
        axes.set_xlabel("distance of the key")
    lines[1].sharey(lines[0])
    lines[0].set_ylabel("query · key")
    handles = [lines[1].plot([], [], color=colours[place], label=str(place))[0] for place in first_places]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(first_places), title="place of the query")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: how much the lines of either scheme differ from place to place."""
    products = rows[rows["statistic"] == "product"]
    lines = products.pivot_table(index=["scheme", "distance"], columns="first_place", values="value")
    spread = (lines.max(axis=1) - lines.min(axis=1)).groupby("scheme").max()
    places = ", ".join(str(place) for place in sorted(rows["first_place"].unique()))
    return (
        f"Left, arrows of one pair of columns of a query and of a key two places further on, for queries at the places "
        f"{places}: the angle between the two is the same each time. Right, their product against distance. Turned by "
        f"place, the lines of these places differ by {spread['rotary']:.2f} at most, with sinusoidal positions added "
        f"by {spread['added']:.2f}."
    )
