"""How alike tables become in training: between seeds, with the last table of the same run, input with output."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import compared, steps, theme
from embscale.plotting.compared import MEASURES
from embscale.rows.selection import LADDER

COLUMNS = (
    "suite", "about", "relation", "table", "quantity", "width", "step", "value", "ci_low", "ci_high", "raw", "chance",
    "runs", "n",
)  # fmt: skip

RELATIONS = {
    "seeds": "two seeds",
    "steps": "a step and the last one",
    "input and output": "input and output",
}


def _lines(rows: pd.DataFrame) -> pd.DataFrame:
    own = rows[(rows["suite"] == LADDER) & (rows["table"] == "input") & rows["relation"].isin(list(RELATIONS))]
    if own["step"].nunique() < 2:
        raise NothingToShow("Tables of two or more steps are needed: **not run**.")
    return own


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for each measure, a line for each width."""
    lines = _lines(rows)
    relations = [relation for relation in RELATIONS if relation in set(lines["relation"])]
    colours, places = compared.width_colours(lines), steps.places(lines["step"])
    figure = theme.figure(height=6.4)
    panels = figure.subplots(len(MEASURES), len(relations), squeeze=False, sharey="row", sharex=True)
    for of_measure, (measure, name) in zip(panels, MEASURES.items(), strict=True):
        for axes, relation in zip(of_measure, relations, strict=True):
            shown = lines[(lines["quantity"] == measure) & (lines["relation"] == relation)]
            compared.by_step(axes, shown, places, colours)
            steps.axis(axes, places, room=0.3)
            if measure == next(iter(MEASURES)):
                axes.set_title(RELATIONS[relation], fontsize=11)
        of_measure[0].set_ylabel(f"{name}, calibrated")
        of_measure[0].set_ylim(bottom=0)
    panels[-1][len(relations) // 2].set_xlabel("training step")
    handles = [figure.axes[0].plot([], [], color=colour, marker="o", label=f"width {width:.0f}")[0]
               for width, colour in colours.items()]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: both ends of each line."""
    lines = _lines(rows)
    parts = []
    for relation, words in RELATIONS.items():
        for measure, name in MEASURES.items():
            shown = lines[(lines["quantity"] == measure) & (lines["relation"] == relation)].sort_values("step")
            ends = [
                f"width {width:.0f} from {line['value'].iloc[0]:.2f} at step {line['step'].iloc[0]:.0f} to "
                f"{line['value'].iloc[-1]:.2f} at step {line['step'].iloc[-1]:.0f}"
                for width, line in shown.groupby("width")
            ]
            parts += [f"{words}, {name}: {'; '.join(ends)}"] if ends else []
    return (
        f"Lines of the similarity of two tables against the training step, one for each width, from 0, chance, to 1; "
        f"over {compared.over(lines)}. {'. '.join(parts)}."
    )
