"""What distance does in each scheme of positions that the models of a study have."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme

COLUMNS = ("suite", "model", "step", "scheme", "kind", "statistic", "part", "index", "value", "low", "high", "n")
SHOWN = {
    "learned": ("similarity_centred", "learned positions", "mean cosine, mean taken off"),
    "rotary": ("similarity", "rotary positions", "cosine of like vectors"),
    "alibi": ("bias", "ALiBi", "added to the attention"),
    "relative": ("bias", "relative bias", "added to the attention"),
}

OF_MODELS = ("table", "formula")  # the other kinds are references for learned tables


def _curves(rows: pd.DataFrame) -> dict[tuple[str, tuple[str, ...]], pd.DataFrame]:
    """For each scheme, the models whose curves are the same, with these curves ``[distance, part]``."""
    found: dict[tuple[str, tuple[str, ...]], pd.DataFrame] = {}
    for scheme, (statistic, _, _) in SHOWN.items():
        chosen = rows[(rows["scheme"] == scheme) & (rows["statistic"] == statistic) & rows["kind"].isin(OF_MODELS)]
        alike: dict[str, tuple[pd.DataFrame, list[str]]] = {}
        for model, of_model in chosen.drop_duplicates(["model", "part", "index"]).groupby("model", sort=False):
            curves = of_model.pivot_table(index="index", columns="part", values="value", sort=False).sort_index()
            alike.setdefault(curves.to_csv(), (curves, []))[1].append(str(model))
        found |= {(scheme, tuple(models)): curves for curves, models in alike.values()}
    if not found:
        raise NothingToShow("No model of this study has a scheme of positions that is known: **not run**.")
    return found


def _models(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def draw(rows: pd.DataFrame) -> Figure:
    """A panel for each scheme and set of like models, two side by side; a line for each head or kind of layers."""
    curves = _curves(rows)
    height = -(-len(curves) // 2)
    figure = theme.figure(height=0.4 + 3.2 * height)
    panels = figure.subplots(height, min(len(curves), 2), squeeze=False).flat
    for axes, ((scheme, models), lines) in zip(panels, curves.items(), strict=False):
        _, title, beside = SHOWN[scheme]
        many_lines = lines.shape[1] > 1
        for colour, (part, line) in zip(theme.ordered_colours(lines.shape[1]), lines.items(), strict=True):
            label = str(part).replace("_", " ") if scheme == "rotary" and many_lines else None
            axes.plot(line.index, line, color=colour, label=label)
        if scheme == "rotary" and many_lines:
            axes.legend()
        axes.set_title(f"{_models(models)}:\n{title}")
        axes.set_xlabel("distance" if scheme in ("learned", "rotary") else "place of key − place of query")
        axes.set_ylabel(beside)
    for axes in list(panels):
        axes.set_visible(False)
    return figure


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: each scheme's models, and the range of its lines."""
    parts = [
        f"{SHOWN[scheme][1]} of {', '.join(models)}, from {lines.to_numpy().max():.2f} to {lines.to_numpy().min():.2f}"
        for (scheme, models), lines in _curves(rows).items()
    ]
    return f"Lines of what distance does to two places in each scheme: {'; '.join(parts)}."
