"""Loss and accuracy by epoch of the study's own protocol, raw and at unit length (Huang et al., Fig. 9)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = ("suite", "model", "width", "input", "seed", "epoch", "train_loss", "test_accuracy")

INPUTS = {"raw": "as they are", "unit": "unit length", "z_scored": "z-scored"}


def _shown(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    if rows["epoch"].isna().all():
        raise NothingToShow("The study's own protocol is not part of this study: it was **not run**.")
    models = rows.drop_duplicates("model").sort_values("width", kind="stable")["model"].tolist()
    return rows, list(dict.fromkeys([models[0], models[-1]]))


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for the narrowest and the widest model: loss left, accuracy right; a thin line for each seed."""
    rows, models = _shown(rows)
    colours = theme.category_colours(list(INPUTS))
    figure = theme.figure(height=0.5 + 2.7 * len(models))
    panels = figure.subplots(len(models), 2, squeeze=False, sharex=True)
    for (left, right), model in zip(panels, models, strict=True):
        of_model = rows[rows["model"] == model]
        for shown in INPUTS:
            of_input = of_model[of_model["input"] == shown]
            for axes, column, factor in ((left, "train_loss", 1), (right, "test_accuracy", PERCENT)):
                table = of_input.pivot_table(index="epoch", columns="seed", values=column) * factor
                axes.plot(table.index, table.to_numpy(), color=colours[shown], linewidth=0.6, alpha=0.5)
                if len(table):
                    axes.plot(table.index, table.mean(axis=1), color=colours[shown], linewidth=2)
        width = of_model["width"].iloc[0]
        left.set_title(f"width {width}: loss in training")
        right.set_title("correct in the test, %")
        left.set_ylim(bottom=0)
        right.set_ylim(0, 103)
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
    handles = [
        panels[0, 0].plot([], [], color=colours[i], label=name)[0]
        for i, name in INPUTS.items()
        if i in set(rows["input"])
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: loss and accuracy after the last epoch."""
    rows, models = _shown(rows)
    last = rows[rows["epoch"] == rows["epoch"].max()]
    parts = []
    for model in models:
        for shown, name in INPUTS.items():
            some = last[(last["model"] == model) & (last["input"] == shown)]
            if len(some):
                parts.append(
                    f"{model} {name}, loss {some['train_loss'].mean():.2f}, "
                    f"{some['test_accuracy'].mean() * PERCENT:.1f} % correct"
                )
    return (
        f"Curves of loss and accuracy over {int(rows['epoch'].max())} epochs of the study's own protocol, a thin line "
        f"for each seed and a thick one for their mean. At the end: {'; '.join(parts)}."
    )
