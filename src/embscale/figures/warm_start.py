"""Losses and table scores of language models whose input table starts random or static, trained or frozen."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import PERCENT, metric_label
from embscale.statistics.resampling import Band, seed_band
from embscale.training.warm_start import CHANCE, HELDOUT_LOSS, STARTS

COLUMNS = ("start", "seed", "width", "step", "tokens", "metric", "value")


def _parts(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Losses, and scores."""
    known = rows[rows["start"] != CHANCE]
    losses, scores = known[known["metric"] == HELDOUT_LOSS], known[known["metric"] != HELDOUT_LOSS]
    if losses.empty or scores.empty:
        raise NothingToShow("No language model was started from a static table in this study: **not run**.")
    return losses, scores


def _chance(rows: pd.DataFrame) -> float:
    """The expected score of a random ranking; NaN if the rows do not have it."""
    return float(rows.loc[rows["start"] == CHANCE, "value"].mean())


def _last(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["step"] == rows["step"].max()]


def _starts(rows: pd.DataFrame) -> list[str]:
    return [start for start in STARTS if start in set(rows["start"])]


def _gaps(losses: pd.DataFrame) -> pd.DataFrame:
    """Loss less that of the random start of the same seed at the same step."""
    wide = losses.pivot_table(index=["seed", "step"], columns="start", values="value")
    if STARTS[0] not in wide:
        return losses.head(0)
    gaps = wide.sub(wide[STARTS[0]], axis=0).drop(columns=STARTS[0])
    return gaps.melt(ignore_index=False, var_name="start").dropna().reset_index()


def _interval(band: Band) -> str:
    """The mean and below it its interval, as the axes write numbers."""
    text = f"{band.mean:+.2f}" if np.isnan(band.low) else f"{band.mean:+.2f}\n[{band.low:+.2f}, {band.high:+.2f}]"
    return text.replace("-", "\N{MINUS SIGN}")


def _line(axes: Axes, rows: pd.DataFrame, start: str, colour: str) -> None:
    """The mean over seeds at each step, with the range of the seeds."""
    bands = {step: seed_band(group["value"].to_numpy()) for step, group in rows.groupby("step")}
    steps, mean, low, high = np.array([(step, b.mean, b.lowest, b.highest) for step, b in bands.items()], float).T
    axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    style = "--" if "frozen" in start else "-"
    axes.plot(steps, mean, color=colour, linestyle=style, marker="o", markersize=4, label=start)


def draw(rows: pd.DataFrame) -> Figure:
    """Left, losses and their differences to a random start; right, scores by seed and the interval of their mean.

    On the right, hollow: before the first step.
    """
    losses, scores = _parts(rows)
    gaps, starts = _gaps(losses), _starts(losses)
    colours = theme.category_colours(starts)
    figure = theme.figure(height=5.4)
    panels = figure.subplot_mosaic([["loss", "score"], ["gap", "score"]], width_ratios=[1.7, 1])
    above, below, right = panels["loss"], panels["gap"], panels["score"]
    for start in starts:
        _line(above, losses[losses["start"] == start], start, colours[start])
        if start in set(gaps["start"]):
            _line(below, gaps[gaps["start"] == start], start, colours[start])
    above.set_ylabel("held-out loss, nats")
    above.tick_params(labelbottom=False)
    below.axhline(0, color=colours[starts[0]])
    last = losses["step"].max()
    above.set_xlim(-0.04 * last, 1.65 * last)  # room for the numbers at the lines' ends
    below.set_xlim(above.get_xlim())
    below.set_xticks(sorted({0, last // 2, last}))
    above.set_xticks(below.get_xticks())
    below.set_xlabel("training step")
    below.set_ylabel("less the random start")
    ends = [(start, seed_band(group["value"].to_numpy())) for start, group in _last(gaps).groupby("start")]
    theme.end_labels(below, [(last, band.mean, _interval(band), colours[str(start)]) for start, band in ends], gap=26)
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    by_step = {int(step): group for step, group in scores.groupby("step")}
    for shift, (step, scored) in zip((-0.2, 0.1), by_step.items(), strict=False):
        for place, start in enumerate(starts):
            values = scored[scored["start"] == start]["value"].to_numpy() * PERCENT
            colour, band = colours[start], seed_band(values)
            error = None if np.isnan(band.low) else ([band.mean - band.low], [band.high - band.mean])
            fill = colour if step == max(by_step) else "white"
            right.plot(np.full(len(values), place + shift + 0.13), values, color=colour, marker=".", linestyle="none")
            right.errorbar([place + shift], [band.mean], error, color=colour, marker="o", markerfacecolor=fill)
    if not np.isnan(level := _chance(rows)):
        right.axhline(level * PERCENT, color=theme.INK, linestyle=":", linewidth=1.2)
        right.annotate("chance", (1, level * PERCENT), (-2, 3), xycoords=("axes fraction", "data"),
                       textcoords="offset points", ha="right", fontsize=10)  # fmt: skip
    right.set_xticks(range(len(starts)), [start.replace(", ", ",\n") for start in starts], rotation=40, ha="right")
    right.set_xlim(-0.5, len(starts) - 0.4)
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    right.set_ylabel(f"table: {metric_label(scores)}")
    right.set_title(f"before (hollow) and\nafter step {max(by_step)}")
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: loss and score at the end, and the loss' paired difference to a random start."""
    losses, scores = _parts(rows)
    final, gaps, first = _last(losses), _last(_gaps(losses)), scores[scores["step"] == scores["step"].min()]
    parts = []
    for start in _starts(losses):
        loss, before, after = (
            seed_band(some[some["start"] == start]["value"].to_numpy()) for some in (final, first, _last(scores))
        )
        text = (
            f"{start}: loss {loss.mean:.3f}, score {before.mean * PERCENT:.2f} before, {after.mean * PERCENT:.2f} after"
        )
        if after.seeds > 1:
            text += f" ({after.low * PERCENT:.2f} to {after.high * PERCENT:.2f})"
        if start in set(gaps["start"]):
            gap = seed_band(gaps[gaps["start"] == start]["value"].to_numpy())
            text += f", loss against the random start {gap.mean:+.3f}"
            if gap.seeds > 1:
                text += f" ({gap.low:+.3f} to {gap.high:+.3f})"
        parts.append(text)
    seeds = final["seed"].nunique()
    runs = f"Means over {seeds} seeds, with 95 % intervals over seeds" if seeds > 1 else "One run, without intervals"
    text = (
        f"{_verdict(gaps, int(final['width'].iloc[0]))} Three panels. Left, held-out loss against training step by the "
        "start of the input table, and its difference to a random start with the same seed; right, "
        f"{metric_label(scores)} of the table before training and after step {final['step'].iloc[0]:.0f}, which is "
        f"{final['tokens'].iloc[0]:,.0f} tokens; the static table was trained on the same tokens. {runs}. "
        f"{'; '.join(parts)}."
    )
    return text if np.isnan(level := _chance(rows)) else f"{text} Chance: {level * PERCENT:.2f}."


def _verdict(gaps: pd.DataFrame, width: int) -> str:
    """What a static start does to the loss at the end, by the interval over seeds."""
    values = gaps.loc[gaps["start"] == "static", "value"].to_numpy()
    if not len(values):
        return f"A {width}-wide language model."
    band = seed_band(values)
    if band.seeds == 1:
        return f"With a static start, one {width}-wide model ends {band.mean:+.3f} nats from its random start."
    known = "lower" if band.high < 0 else "higher" if band.low > 0 else None
    if known is None:
        return f"Whether a static start lowers the loss of the {width}-wide model is not resolved by these seeds."
    return f"With a static start, the {width}-wide model ends with a {known} loss."
