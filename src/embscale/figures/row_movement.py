"""How far training moves a table's rows, by how often their tokens occur."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.selection import is_last_checkpoint

COLUMNS = ("suite", "model", "step", "width", "frequency", "low", "quantity", "value", "n", "reference")

ALL = "all"
FIRST, LAST = "cosine_with_first", "cosine_with_last"
# At most so many classes of frequency are drawn against the step, evenly spread from the rarest to the most frequent.
CLASSES = 4


def _middle(rows: pd.DataFrame) -> pd.DataFrame:
    """Cosine with the last table at every step, of the model of middle width, by class of frequency."""
    widths = sorted(rows["width"].unique())
    own = rows[(rows["width"] == widths[(len(widths) - 1) // 2]) & (rows["quantity"] == LAST)]
    own = own[(own["frequency"] != ALL) & own["value"].notna()]
    if own.empty:
        raise NothingToShow("Rows by frequency of two or more checkpoints of a model are needed: **not run**.")
    lows = sorted(own["low"].unique())
    chosen = [lows[i] for i in np.unique(np.linspace(0, len(lows) - 1, CLASSES).round().astype(int))]
    return own[own["low"].isin(chosen)].sort_values(["low", "step"])


def _moved(rows: pd.DataFrame) -> pd.DataFrame:
    """Cosine of each model's last table with its table before training, by class of frequency."""
    own = rows[is_last_checkpoint(rows) & (rows["quantity"] == FIRST) & (rows["frequency"] != ALL)]
    return own[own["value"].notna()].sort_values(["width", "low"])


def draw(rows: pd.DataFrame) -> Figure:
    """Above, a line for each class of frequency against the step; below, a line for each width against frequency."""
    middle, moved = _middle(rows), _moved(rows)
    figure = theme.figure(height=7.4)
    above, below = figure.subplots(2, 1)
    steps = sorted(middle["step"].unique())
    names = list(dict.fromkeys(middle["frequency"]))
    colours = dict(zip(names, theme.ordered_colours(len(names)), strict=True))
    for name in names:
        line = middle[middle["frequency"] == name]
        above.plot(line["step"], line["value"], color=colours[name], marker="o", label=f"occurs {_times(name)}")
    _steps(above, steps)
    above.set_ylabel("cosine with the last row")
    above.set_title(f"by training step, width {middle['width'].iloc[0]:.0f}")
    widths = sorted(moved["width"].unique())
    places = {low: place for place, low in enumerate(sorted(moved["low"].unique()))}
    ends = []
    for width, colour in zip(widths, theme.ordered_colours(len(widths)), strict=True):
        line = moved[moved["width"] == width]
        below.plot(line["low"].map(places), line["value"], color=colour, marker="o")
        ends.append((line["low"].map(places).iloc[-1], line["value"].iloc[-1], f"width {width:.0f}", theme.INK))
    named = moved.drop_duplicates("low").sort_values("low")
    below.set_xticks(range(len(places)), [_short(name) for name in named["frequency"]], rotation=30, ha="right")
    below.set_xlim(-0.3, len(places) + 0.4)
    below.set_xlabel("occurrences of the token in the task's texts")
    below.set_ylabel("cosine with the untrained row")
    below.set_title("after training, by width")
    for axes in (above, below):
        axes.set_ylim(top=1.03)
    theme.end_labels(below, ends)
    above.legend(loc="lower right")  # lines of rare tokens lie on each other, so they have no labels at their ends
    return figure


def _steps(axes: Axes, steps: list[float]) -> None:
    """A scale of square roots."""
    axes.set_xscale("function", functions=(lambda x: np.sign(x) * np.abs(x) ** 0.5, lambda x: np.sign(x) * x**2))
    axes.set_xticks(steps, [f"{step:.0f}" for step in steps])
    axes.set_xlim(-0.01 * steps[-1], steps[-1] * 1.05)
    axes.set_xlabel("training step")


def _times(name: str) -> str:
    return "never" if name == "0" else f"{name.replace(' or more', '+').replace(' to ', '–')} times"


def _short(name: str) -> str:
    return name.replace(" or more", "+").replace(" to ", "–")


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the first value of each line above, both ends of each line below."""
    middle, moved = _middle(rows), _moved(rows)
    first = middle[middle["step"] == middle["step"].min()]
    above = ", ".join(f"{row.value:.3f} for tokens that occur {_times(row.frequency)}" for row in first.itertuples())
    below = "; ".join(
        f"width {width:.0f}: {line['value'].iloc[0]:.3f} for the rarest tokens, {line['value'].iloc[-1]:.3f} for the "
        "most frequent"
        for width, line in moved.groupby("width")
    )
    return (
        f"Above, mean cosine of a row with the same token's row in the last table by training step, at width "
        f"{middle['width'].iloc[0]:.0f}; at step {first['step'].iloc[0]:.0f}: {above}. Below, mean cosine of the rows "
        f"of the last table with those before training. {below}."
    )
