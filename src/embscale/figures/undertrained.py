"""How well a table gives away the tokens that its training never saw, by step."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import compared, steps, theme
from embscale.rows.selection import LADDER

COLUMNS = (
    "suite", "about", "indicator", "quantity", "width", "step", "value", "ci_low", "ci_high", "chance", "tied", "runs",
    "n",
)  # fmt: skip

TIED = f"{LADDER}-tied"
# Suite and indicator of each panel.
PANELS = {
    (LADDER, "input_norm"): "norm of the input row",
    (LADDER, "output_cosine"): "cosine of output rows",
    (TIED, "output_cosine"): "the same, tied",
}
METRICS = {"auc": "area under ROC curve", "average_precision": "average precision"}
LOWEST = {"auc": 0.35, "average_precision": 0.0}  # of the scale; intervals may reach beyond


def _lines(rows: pd.DataFrame) -> pd.DataFrame:
    own = rows[(rows["about"] == "undertrained") & rows["suite"].isin([LADDER, TIED])]
    own = own[[pair in PANELS for pair in zip(own["suite"], own["indicator"], strict=True)]]
    if own.empty:
        raise NothingToShow(
            "A tokenizer with bytes that no text holds, and tokens that the training texts lack, are needed: "
            "**not run**."
        )
    return own


def draw(rows: pd.DataFrame) -> Figure:
    """A column of panels for each indicator, a line for each width, dotted what a random order gives."""
    lines = _lines(rows)
    panels = [panel for panel in PANELS if panel in set(zip(lines["suite"], lines["indicator"], strict=True))]
    colours, places = compared.width_colours(lines), steps.places(lines["step"])
    figure = theme.figure(height=6.2)
    grid = figure.subplots(len(METRICS), len(panels), squeeze=False, sharey="row", sharex=True)
    for of_metric, (metric, name) in zip(grid, METRICS.items(), strict=True):
        for axes, (suite, indicator) in zip(of_metric, panels, strict=True):
            shown = lines[(lines["suite"] == suite) & (lines["indicator"] == indicator) & (lines["quantity"] == metric)]
            compared.by_step(axes, shown, places, colours)
            steps.axis(axes, places, room=0.14 * len(panels) - 0.06)
            axes.axhline(shown["chance"].iloc[0], color=theme.INK, linestyle=":", linewidth=1.2)
            if metric == next(iter(METRICS)):
                axes.set_title(PANELS[suite, indicator], fontsize=11)
        of_metric[0].set_ylabel(name)
        of_metric[0].set_ylim(LOWEST[metric], 1.02)
    for axes in grid[-1]:
        axes.set_xlabel("training step")
    handles = [figure.axes[0].plot([], [], color=colour, marker="o", label=f"width {width:.0f}")[0]
               for width, colour in colours.items()]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the last value of each line, and chance."""
    lines = _lines(rows)
    parts = []
    for (suite, indicator), words in PANELS.items():
        for metric, name in METRICS.items():
            shown = lines[(lines["suite"] == suite) & (lines["indicator"] == indicator) & (lines["quantity"] == metric)]
            ends = [
                f"width {width:.0f} {line['value'].iloc[0]:.2f} at step {line['step'].iloc[0]:.0f}, "
                f"{line['value'].iloc[-1]:.2f} at step {line['step'].iloc[-1]:.0f}"
                for width, line in shown.sort_values("step").groupby("width")
            ]
            if ends:
                parts.append(f"{words}, {name} (chance {shown['chance'].iloc[0]:.2f}): {'; '.join(ends)}")
    return (
        f"Lines of how well an indicator finds the tokens that training never saw, against the training step; over "
        f"{compared.over(lines)} and {int(lines['n'].max()):,} tokens. {'. '.join(parts)}."
    )
