"""Importance of each dimension to the layer classifier against its share of the weights (Huang et al., question 1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT

COLUMNS = (
    "model", "width", "experiment", "weights", "choice", "dimension", "seed", "metric", "value", "ci_low", "ci_high",
)  # fmt: skip

PANELS = {"raw": "weights as they are (the study's)", "standardised": "weights of standardised dimensions"}
HEADS = {"raw": "as they are (the study's)", "standardised": "dimensions standardised"}


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The narrowest model's rows over all seeds."""
    return rows[(rows["experiment"] == "importance") & (rows["seed"] == "all") & (rows["width"] == rows["width"].min())]


def _points(rows: pd.DataFrame, scale: str) -> tuple[np.ndarray, np.ndarray]:
    """Share of the weights and accuracy lost, in percent and points, of each dimension."""
    share = rows[(rows["weights"] == scale) & (rows["metric"] == "percent")].set_index("dimension")["value"]
    lost = -rows[rows["metric"] == "accuracy_change"].set_index("dimension")["value"] * PERCENT
    return share.to_numpy(), lost.reindex(share.index).to_numpy()


def _correlation(rows: pd.DataFrame, scale: str) -> pd.Series:
    return rows[(rows["weights"] == scale) & (rows["metric"] == "rank_correlation")].iloc[0]


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each scale of the weights, a point for each dimension."""
    rows = _shown(rows)
    figure = theme.figure(height=3.8)
    panels = figure.subplots(1, len(PANELS), sharey=True)
    colours = theme.category_colours(list(PANELS))
    for axes, scale in zip(panels, PANELS, strict=True):
        axes.scatter(*_points(rows, scale), s=16, color=colours[scale], alpha=0.8, linewidths=0)
        axes.axhline(0, color=theme.MUTED, linewidth=1)
        axes.set_title(f"{HEADS[scale]}\nrank correlation {_correlation(rows, scale)['value']:.2f}")
        axes.set_xlabel("share of the summed weights, %")
    panels[0].set_ylabel("accuracy lost when exchanged, points")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the rank correlations, and the largest loss."""
    rows = _shown(rows)
    parts = []
    for scale, title in PANELS.items():
        row = _correlation(rows, scale)
        parts.append(f"{title} {row['value']:.2f} (95 % interval {row['ci_low']:.2f} to {row['ci_high']:.2f})")
    lost = _points(rows, "raw")[1]
    return (
        f"A point for each of {len(lost)} dimensions: share of the summed absolute weights of all layers, against the "
        f"accuracy lost when its values are exchanged between vectors, at most {lost.max():.1f} points. "
        f"Rank correlations: {', '.join(parts)}."
    )
