"""What each variation of the ladder changes: score less random tables, held-out loss, tokens to the crossing."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from embscale.answers.effects import NOT_COMPARED, QUANTITIES
from embscale.answers.words import PARENTHESES, SCALE, variation
from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.labels import runs_label

COLUMNS = (
    "suite", "width", "tokens", "quantity", "effect", "ci_low", "ci_high", "margin", "p_holm", "verdict", "runs",
    "against", "detail",
)  # fmt: skip


def _varied(rows: pd.DataFrame) -> pd.DataFrame:
    found = rows[rows["against"].fillna("") != ""]
    if found.empty:
        raise NothingToShow("This study trains no variation of the ladder: **not run**.")
    return found


def _names(rows: pd.DataFrame) -> dict[tuple[str, int], str]:
    pairs = rows[["suite", "width"]].drop_duplicates().itertuples(index=False)
    return {(suite, width): f"{variation(suite)}, {width}" for suite, width in pairs}


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each quantity: a point with its interval for each variation and width, the margin shaded."""
    found = _varied(rows)
    names = _names(found)
    place = {key: len(names) - 1 - number for number, key in enumerate(names)}
    figure = theme.figure(height=1.4 + 0.32 * len(names))
    panels = figure.subplots(1, len(QUANTITIES), sharey=True)
    for axes, quantity in zip(panels, QUANTITIES, strict=True):
        axes.axvline(0, color=theme.INK, linewidth=1)
        for row in found[found["quantity"] == quantity].itertuples(index=False):
            y, scale = place[row.suite, row.width], SCALE[quantity]
            axes.fill_betweenx(
                [y - 0.42, y + 0.42], -row.margin * scale, row.margin * scale, color=theme.FAINT, linewidth=0
            )
            if np.isnan(row.effect):
                axes.annotate("not crossed", (0, y), (4, 0), textcoords="offset points", va="center", fontsize=9,
                              color=theme.MUTED)  # fmt: skip
                continue
            colour = theme.CATEGORIES[0] if row.verdict.split()[-1] in ("higher", "lower") else theme.MUTED
            low, high = (np.nan if pd.isna(end) else end * scale for end in (row.ci_low, row.ci_high))
            value = row.effect * scale
            left, right = (value if np.isnan(end) else end for end in (low, high))
            axes.plot([left, right], [y, y], color=colour, linewidth=1.6)
            axes.plot(value, y, marker="o", color=colour, markersize=6)
            if np.isnan(low) != np.isnan(high):  # open towards one side
                side = -28 if np.isnan(low) else 28
                arrow = {"arrowstyle": "<-", "color": colour, "linewidth": 1.6}
                axes.annotate("", (value, y), (side, 0), textcoords="offset points", arrowprops=arrow)
        axes.set_title("\n".join(_wrapped(quantity)))
        axes.set_xlabel(PARENTHESES[quantity])
        axes.grid(axis="y", visible=False)
    panels[0].set_yticks(list(place.values()), list(names.values()))
    panels[0].set_ylim(-0.7, len(names) - 0.3)
    return figure


def _wrapped(quantity: str) -> list[str]:
    """A title on two lines."""
    words = quantity.split()
    return [" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])]


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows, with the numbers."""
    found = _varied(rows)
    parts = []
    for row in found[found["verdict"] != NOT_COMPARED].itertuples(index=False):
        scale = SCALE[row.quantity]
        text = f"{variation(row.suite)} at width {row.width}, {row.quantity} {row.effect * scale:+.2f}"
        if not pd.isna(row.ci_low) and not pd.isna(row.ci_high):
            text += f" ({row.ci_low * scale:+.2f} to {row.ci_high * scale:+.2f})"
        parts.append(f"{text}: {row.verdict}")
    return (
        "Points with 95 % intervals for each variation less the ladder, at the same width, seeds and tokens, a panel "
        "for each quantity; blue where the difference is certain after Holm's correction, shaded the margin within "
        f"which two models are the same; {runs_label(int(found['runs'].min()))}. {'; '.join(parts)}."
    )
