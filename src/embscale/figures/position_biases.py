"""Positions as biases of attention: ALiBi's slopes and T5's buckets."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("scheme", "head", "distance", "value")


def draw(rows: pd.DataFrame) -> Figure:
    """Left, the bias of each head against distance; right, the bucket of each distance."""
    alibi, relative = (rows[rows["scheme"] == scheme].sort_values("distance") for scheme in ("alibi", "relative"))
    heads = sorted(alibi["head"].unique())
    figure = theme.figure(height=3.8)
    left, right = figure.subplots(1, 2)
    for head, colour in zip(heads, theme.ordered_colours(len(heads)), strict=True):
        line = alibi[alibi["head"] == head]
        left.plot(line["distance"], line["value"], color=colour, label=str(head + 1))
    left.set_title("ALiBi")
    left.set_xlabel("place of key − place of query")
    left.set_ylabel("added to the attention")
    right.step(relative["distance"], relative["value"], where="mid", color=theme.CATEGORIES[1])
    right.set_title("T5")
    right.set_xlabel("place of key − place of query")
    right.set_ylabel("bucket, a learned bias each")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(heads), 8), title="head")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the steepest and the flattest slope, and how many buckets there are."""
    alibi, relative = (rows[rows["scheme"] == scheme] for scheme in ("alibi", "relative"))
    slopes = -alibi[alibi["distance"] == -1].set_index("head")["value"].sort_index()
    buckets, reach = relative["value"].nunique(), relative["distance"].max()
    return (
        f"Left, lines from 0 downwards, one for each of {len(slopes)} heads, with slopes from {slopes.iloc[0]:.3g} to "
        f"{slopes.iloc[-1]:.3g} for each place between query and key. Right, a staircase: {buckets} buckets for "
        f"distances up to {reach} either way, narrow near the query and wide far from it."
    )
