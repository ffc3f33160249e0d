"""Effective dimensions of each layer's vectors: effective rank and participation ratio, divided by the width.

Huang et al. ask whether each layer uses only a part of its space; both measures count the directions that are used.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.plotting.layers import name_layers

COLUMNS = ("model", "width", "quantity", "scaling", "layer_a", "value", "ci_low", "ci_high", "reference")

MEASURES = {"effective_rank": "effective rank / width", "participation_ratio": "participation ratio / width"}
SCALINGS = {"raw": "as they are", "unit": "at unit length"}


def _line(rows: pd.DataFrame, model: str, quantity: str, scaling: str) -> pd.DataFrame:
    return rows[(rows["model"] == model) & (rows["quantity"] == quantity) & (rows["scaling"] == scaling)]


def _models(rows: pd.DataFrame) -> list[tuple[str, int]]:
    models = rows[["model", "width"]].drop_duplicates().sort_values("width", kind="stable")
    return list(models.itertuples(index=False, name=None))


def draw(rows: pd.DataFrame) -> Figure:
    """A row of panels for each measure, a column for each scaling; dashed, vectors that spread alike everywhere."""
    models = _models(rows)
    figure = theme.figure(height=6.6)
    panels = figure.subplots(len(MEASURES), len(SCALINGS), sharey="row", sharex=True)
    for row, (quantity, title) in zip(panels, MEASURES.items(), strict=True):
        for axes, (scaling, words) in zip(row, SCALINGS.items(), strict=True):
            for colour, (model, width) in zip(theme.ordered_colours(len(models)), models, strict=True):
                line = _line(rows, model, quantity, scaling)
                value, low, high = (line[c].to_numpy() / width for c in ("value", "ci_low", "ci_high"))
                places = range(len(line))
                style = {"color": colour, "marker": "o", "markersize": 5, "label": f"width {width}"}
                axes.errorbar(places, value, (value - low, high - value), **style)
                axes.plot(places, line["reference"] / width, color=colour, linestyle="--", linewidth=1)
            longest = max((_line(rows, model, quantity, scaling) for model, _ in models), key=len)
            name_layers(axes, pd.RangeIndex(len(longest)).to_numpy(), longest["layer_a"].tolist())
            axes.set_xlabel("")
            axes.set_ylim(0, 1.05)
            axes.set_title(words if quantity == "effective_rank" else "")
        row[0].set_ylabel(title)
    for axes in panels[-1]:
        axes.set_xlabel("layer (number of the block)")
    handles, names = panels[0, 0].get_legend_handles_labels()
    dashed = panels[0, 0].plot([], [], color=theme.MUTED, linestyle="--", linewidth=1)
    figure.legend([*handles, *dashed], [*names, "alike everywhere"], loc="outside lower center", ncols=3)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: first and last layer of each model, as they are."""
    parts = []
    for quantity, title in MEASURES.items():
        shares = []
        for model, width in _models(rows):
            share = _line(rows, model, quantity, "raw")["value"] / width
            shares.append(f"{model} from {share.iloc[0]:.2f} to {share.iloc[-1]:.2f}")
        parts.append(f"{title}, from the first layer to the last: {', '.join(shares)}")
    return (
        "Lines by layer of how many directions the vectors spread in, as a share of the width, with what vectors would "
        f"give that spread alike everywhere. {'; '.join(parts)}."
    )
