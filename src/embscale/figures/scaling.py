"""Retrieval score of embedding tables against their width, with the study's variants (Corey, image4)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.plotting import theme
from embscale.rows.labels import PERCENT, VARIANT_NAMES, metric_label
from embscale.rows.selection import ladder_tables, random_band

COLUMNS = ("suite", "model", "step", "variant", "variant_dims", "seed", "dim", "metric", "value", "ci_low", "ci_high")


def draw(rows: pd.DataFrame) -> Figure:
    """A line for each variant with its 95 % interval over queries, and the band of the random tables."""
    final = ladder_tables(rows)
    band = random_band(rows).loc[lambda table: table.index <= final["width"].max()]
    figure = theme.figure(height=4.6)
    axes = figure.subplots()
    colours = theme.category_colours(list(VARIANT_NAMES))
    axes.fill_between(
        band.index, band["min"] * PERCENT, band["max"] * PERCENT, color=colours["random"], alpha=0.2, linewidth=0
    )
    axes.plot(band.index, band["mean"] * PERCENT, color=colours["random"], linestyle="--")
    labels = [(band.index[-1], band["mean"].iloc[-1] * PERCENT, VARIANT_NAMES["random"], colours["random"])]
    for variant, name in VARIANT_NAMES.items():
        line = final[final["variant"] == variant].sort_values("width")
        if line.empty:
            continue
        value, low, high = (line[c].to_numpy() * PERCENT for c in ("value", "ci_low", "ci_high"))
        axes.errorbar(line["width"], value, (value - low, high - value), color=colours[variant], marker="o")
        labels.append((line["width"].iloc[-1], value[-1], name, colours[variant]))
    theme.log2_ticks(axes, final["width"].tolist())
    # Room for the names at the lines' ends.
    axes.set_xlim(right=final["width"].max() * 3.4)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("width of the model (columns of its table)")
    axes.set_ylabel(metric_label(rows))
    theme.end_labels(axes, labels)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers at both ends."""
    final = ladder_tables(rows)
    parts = []
    for variant, name in VARIANT_NAMES.items():
        line = final[final["variant"] == variant].sort_values("width")
        if not line.empty:
            first, last = line.iloc[0], line.iloc[-1]
            parts.append(
                f"{name}: {first['value'] * PERCENT:.2f} at width {first['width']:.0f}, "
                f"{last['value'] * PERCENT:.2f} at width {last['width']:.0f}"
            )
    band = random_band(rows).loc[lambda table: table.index <= final["width"].max()]
    parts.append(
        f"random tables, mean over {band['count'].max()} seeds: {band['mean'].iloc[0] * PERCENT:.2f} "
        f"to {band['mean'].iloc[-1] * PERCENT:.2f}"
    )
    return f"Lines of {metric_label(rows)} against the width of the model on a logarithmic axis. {'; '.join(parts)}."
