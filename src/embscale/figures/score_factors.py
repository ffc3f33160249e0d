"""Effect of scoring choices on the score of each model's last table."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label, short_names

COLUMNS = ("suite", "model", "factor", "level", "against", "metric", "value", "difference", "ci_low", "ci_high")

# What a level means to a reader; others are shown as they are.
WORDS = {
    ("variant", "output"): "output table\nfor input table",
    ("variant", "effective"): "rows as block 1\nreceives them",
    ("variant", "bf16"): "bfloat16\nfor float32",
    ("pooling", "max"): "maximum\nfor mean",
    ("pooling", "sum"): "sum\nfor mean",
    ("special_tokens", "include"): "with special\ntokens",
    ("special_tokens", "exclude"): "without special\ntokens",
}


def _levels(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every factor with its level, in the order of the rows."""
    if rows.empty:
        raise NothingToShow("No other way of scoring is among `scores.factors` of this study: **not run**.")
    return list(rows[["factor", "level"]].drop_duplicates().itertuples(index=False, name=None))


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each way of scoring: the difference that it makes for each model, with its interval."""
    levels, names = _levels(rows), short_names(rows)
    figure = theme.figure(height=3.4)
    panels = figure.subplots(1, len(levels), sharey=True, squeeze=False)[0]
    for panel, (factor, level) in zip(panels, levels, strict=True):
        line = rows[(rows["factor"] == factor) & (rows["level"] == level)].set_index("model")
        places = [place for place, model in enumerate(names) if model in line.index]
        line = line.loc[[model for model in names if model in line.index]] * {
            name: PERCENT if name in ("difference", "ci_low", "ci_high") else 1 for name in line
        }
        value, low, high = (line[name].to_numpy() for name in ("difference", "ci_low", "ci_high"))
        panel.axhline(0, color=theme.MUTED, linewidth=1)
        panel.errorbar(
            places, value, np.abs((low - value, high - value)), color=theme.INK, marker="o", linestyle="none"
        )
        panel.set_xticks(range(len(names)), list(names.values()), rotation=90 if len(names) > 6 else 0)
        panel.set_xlim(-0.6, len(names) - 0.4)
        panel.set_title(WORDS.get((factor, level), f"{factor}\n{level}"))
    panels[0].set_ylabel(f"difference, {metric_label(rows)}")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: the smallest and largest difference of each way of scoring."""
    parts = []
    for factor, level in _levels(rows):
        differences = rows.loc[(rows["factor"] == factor) & (rows["level"] == level), "difference"] * PERCENT
        words = WORDS.get((factor, level), f"{factor} {level}").replace("\n", " ")
        parts.append(f"{words}: from {differences.min():+.2f} to {differences.max():+.2f}")
    return f"Differences in {metric_label(rows)} that a way of scoring makes, a dot for each model. {'; '.join(parts)}."
