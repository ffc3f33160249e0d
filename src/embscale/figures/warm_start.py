"""Losses and table scores of language models whose input table starts random or static, trained or frozen."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow, theme
from embscale.figures.scaling import PERCENT, metric_label
from embscale.statistics import Band, seed_band
from embscale.warm_start import HELDOUT_LOSS, STARTS

COLUMNS = ("start", "seed", "step", "metric", "value")


def _parts(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Losses, and scores after the last step by the first metric that there is."""
    losses, scores = rows[rows["metric"] == HELDOUT_LOSS], rows[rows["metric"] != HELDOUT_LOSS]
    if losses.empty or scores.empty:
        raise NothingToShow("No language model was started from a static table in this study: **not run**.")
    last = scores[(scores["metric"] == scores["metric"].iloc[0]) & (scores["step"] == scores["step"].max())]
    return losses, last


def _starts(rows: pd.DataFrame) -> list[str]:
    return [start for start in STARTS if start in set(rows["start"])]


def _bands(rows: pd.DataFrame, by: str) -> dict[object, Band]:
    return {key: seed_band(group["value"].to_numpy()) for key, group in rows.groupby(by, sort=True)}


def draw(rows: pd.DataFrame) -> Figure:
    """Left, the mean loss over seeds with the range of the seeds; right, each seed's score, and the mean's interval."""
    losses, scores = _parts(rows)
    starts = _starts(losses)
    colours = theme.category_colours(starts)
    figure = theme.figure(height=4.4)
    left, right = figure.subplots(1, 2, width_ratios=[1.7, 1])
    for start in starts:
        bands = _bands(losses[losses["start"] == start], "step")
        steps = np.array(list(bands), float)
        mean, low, high = (
            np.array([getattr(b, name) for b in bands.values()]) for name in ("mean", "lowest", "highest")
        )
        style = "--" if "frozen" in start else "-"
        left.fill_between(steps, low, high, color=colours[start], alpha=0.2, linewidth=0)
        left.plot(steps, mean, color=colours[start], linestyle=style, marker="o", markersize=4, label=start)
    left.set_xlabel("training step")
    left.set_ylabel("held-out loss, nats per token")
    left.legend(title="input table", loc="upper right", alignment="left")
    for place, start in enumerate(starts):
        values = scores[scores["start"] == start]["value"].to_numpy() * PERCENT
        band = seed_band(values)
        error = None if np.isnan(band.low) else ([band.mean - band.low], [band.high - band.mean])
        right.plot(np.full(len(values), place + 0.18), values, color=colours[start], marker=".", linestyle="none")
        right.errorbar([place], [band.mean], error, color=colours[start], marker="o")
    right.set_xticks(range(len(starts)), [start.replace(", ", ",\n") for start in starts], rotation=40, ha="right")
    right.set_xlim(-0.5, len(starts) - 0.4)
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    right.set_ylabel(f"last table: {metric_label(scores)}")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: loss and score at the end, and the loss' paired difference to a random start."""
    losses, scores = _parts(rows)
    final = losses[losses["step"] == losses["step"].max()]
    wide = final.pivot_table(index="seed", columns="start", values="value")
    parts = []
    for start in _starts(losses):
        loss = seed_band(final[final["start"] == start]["value"].to_numpy())
        score = seed_band(scores[scores["start"] == start]["value"].to_numpy() * PERCENT)
        text = f"{start}: loss {loss.mean:.3f}, score {score.mean:.2f}"
        if start != STARTS[0] and STARTS[0] in wide:
            gap = seed_band((wide[start] - wide[STARTS[0]]).dropna().to_numpy())
            text += f", loss against the random start {gap.mean:+.3f}"
            if gap.seeds > 1:
                text += f" ({gap.low:+.3f} to {gap.high:+.3f})"
        parts.append(text)
    return (
        f"Two panels. Left, held-out loss against training step by the start of the input table; right, "
        f"{metric_label(scores)} of the table after step {final['step'].iloc[0]:.0f}. Means over "
        f"{final['seed'].nunique()} seeds, differences with their 95 % interval over seeds. {'; '.join(parts)}."
    )
