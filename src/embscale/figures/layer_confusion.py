"""Which layer is taken for which, in the narrowest and the widest model."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import theme
from embscale.figures.layer_accuracy import PERCENT

COLUMNS = (
    "suite", "model", "width", "classifier", "split", "input", "control", "seed", "true_layer", "predicted_layer",
    "count",
)  # fmt: skip


def matrices(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Percent of each true layer's vectors by predicted layer, for the narrowest and the widest model."""
    kept = rows[(rows["classifier"] == "logistic_regression") & (rows["split"] == "text") & (rows["input"] == "raw")]
    kept = kept[kept["control"].fillna("none") == "none"]
    models = kept.drop_duplicates("model").sort_values("width")["model"].tolist()
    found = {}
    for model in dict.fromkeys([models[0], models[-1]]):
        of_model = kept[kept["model"] == model]
        layers = of_model["true_layer"].drop_duplicates().tolist()
        counts = of_model.groupby(["true_layer", "predicted_layer"])["count"].sum().unstack(fill_value=0)
        counts = counts.reindex(index=layers, columns=layers, fill_value=0)
        found[model] = counts.div(counts.sum(axis=1), axis=0) * PERCENT
    return found


def draw(rows: pd.DataFrame) -> Figure:
    """A square for each pair of layers, darker with more vectors, with the number where there is room."""
    found = matrices(rows)
    figure = theme.figure(height=3.9)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (model, matrix) in zip(panels, found.items(), strict=True):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=PERCENT, aspect="equal")
        names = [
            layer.replace("embedding", "table").replace("block input", "in").replace("block ", "") for layer in matrix
        ]
        step = max(1, len(names) // 12)
        axes.set_xticks(range(0, len(names), step), names[::step])
        axes.set_yticks(range(0, len(names), step), names[::step])
        if len(names) <= 10:
            for row, column in np.ndindex(matrix.shape):
                value = matrix.iloc[row, column]
                ink = "white" if value > 55 else theme.INK
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=10)
        axes.grid(False)
        axes.set_title(model)
        axes.set_xlabel("taken for")
    panels[0].set_ylabel("true layer")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: how much is right, and how much of the rest goes to a neighbour."""
    parts = []
    for model, matrix in matrices(rows).items():
        values = matrix.to_numpy()
        right = np.trace(values) / len(values)
        near = (np.trace(values, 1) + np.trace(values, -1)) / len(values)
        wrong = f"{near / (PERCENT - right) * PERCENT:.0f} % of the rest" if right < PERCENT else "none"
        parts.append(f"{model}, {right:.0f} % right, and taken for a neighbouring layer {wrong}")
    return f"Tables of true against predicted layer, in percent of the true layer's vectors: {'; '.join(parts)}."
