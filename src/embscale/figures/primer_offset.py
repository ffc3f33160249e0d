"""Positions as offsets: at each place, every word is moved by the same vector."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme

COLUMNS = ("word", "place", "x", "y")


def draw(rows: pd.DataFrame) -> Figure:
    """Each word as a point, with an arrow to where each place moves it."""
    words = rows[rows["place"] < 0].set_index("word")
    places = sorted(place for place in rows["place"].unique() if place >= 0)
    figure = theme.figure(height=4.4)
    axes = figure.subplots()
    colours = dict(zip(places, theme.ordered_colours(len(places)), strict=True))
    for row in rows[rows["place"] >= 0].itertuples():
        arrow = {"arrowstyle": "-|>", "color": colours[row.place], "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (row.x, row.y), (words["x"][row.word], words["y"][row.word]), arrowprops=arrow)
    axes.scatter(rows["x"], rows["y"], s=0)  # arrows alone would not set the limits
    axes.scatter(words["x"], words["y"], s=22, color=theme.INK, zorder=3)
    for word, point in words.iterrows():
        axes.annotate(str(word), (point["x"], point["y"]), (0, -7), textcoords="offset points", ha="center", va="top")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("first component")
    axes.set_ylabel("second")
    axes.margins(x=0.15, y=0.15)
    handles = [axes.plot([], [], color=colour, label=f"place {place}")[0] for place, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: which words and places, and how alike the arrows are."""
    words = rows[rows["place"] < 0].set_index("word")
    moved = rows[rows["place"] >= 0]
    offsets = moved[["x", "y"]].to_numpy() - words.loc[moved["word"], ["x", "y"]].to_numpy()
    apart = pd.DataFrame(offsets).groupby(moved["place"].to_numpy()).agg(lambda values: values.max() - values.min())
    names, places = ", ".join(map(str, words.index)), ", ".join(map(str, sorted(moved["place"].unique())))
    return (
        f"{len(words)} words ({names}) as points, with arrows to where positions move them at the places {places}. The "
        f"arrows of one place are the same for all words: they differ by {apart.to_numpy().max():.2f} at most."
    )
