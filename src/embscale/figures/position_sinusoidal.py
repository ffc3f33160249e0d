"""Sinusoidal positions: the vectors, and their products by distance (Vaswani et al. 2017)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("statistic", "place", "column", "value")


def draw(rows: pd.DataFrame) -> Figure:
    """A heat map of the vectors, and a line of the product of two places against their distance."""
    vectors = rows[rows["statistic"] == "vector"].pivot_table(index="column", columns="place", values="value")
    products = rows[rows["statistic"] == "product"]
    figure = theme.figure(height=3.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
    mesh = left.pcolormesh(vectors.to_numpy(), cmap="RdBu_r", vmin=-1, vmax=1, rasterized=True)
    figure.colorbar(mesh, ax=left, ticks=[-1, 0, 1])
    left.invert_yaxis()
    left.grid(visible=False)
    left.set_xlabel("place")
    left.set_ylabel("column")
    left.set_title("vectors")
    right.plot(products["place"], products["value"], color=theme.CATEGORIES[0])
    right.set_ylim(top=1.05)
    right.set_xlabel("distance of two places")
    right.set_ylabel("product, share of its value at 0")
    right.set_title("products")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: sizes, and the product near and far."""
    vectors = rows[rows["statistic"] == "vector"]
    products = rows[rows["statistic"] == "product"].set_index("place")["value"]
    return (
        f"Left, a heat map of sinusoidal vectors of {vectors['column'].nunique()} columns for "
        f"{vectors['place'].nunique()} places: waves, fast in the first columns and slow in the last. Right, the "
        f"product of two places against their distance: {products[0]:.2f} at 0, {products[1]:.2f} at 1, "
        f"{products.iloc[-1]:.2f} at {products.index[-1]}."
    )
