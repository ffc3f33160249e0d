"""Tables of learned positions: lengths, similarity by distance, spectrum, and how sinusoidal they are."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from embscale.figures import NothingToShow
from embscale.plotting import theme
from embscale.rows.selection import last_checkpoint

COLUMNS = ("suite", "model", "step", "scheme", "kind", "statistic", "part", "index", "value", "low", "high", "n")

# Statistic to title, label below and label beside.
PANELS = {
    "norm": ("lengths", "place", "length"),
    "similarity_centred": ("likeness, mean taken off", "distance of two places", "mean cosine"),
    "variance": ("spectrum", "principal component", "share of variance"),
    "sinusoidal_share": ("how sinusoidal", "columns of the sinusoidal table", "share of variance there"),
}
REFERENCES = {"sinusoidal": "sinusoidal", "random": "random"}
STYLES = {"sinusoidal": (0, (4, 2)), "random": (0, (1, 1.5))}


def _learned(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last table of each model."""
    learned = rows[rows["scheme"] == "learned"]
    if learned.empty:
        raise NothingToShow("No model of this study has learned positions: **not run**.")
    return last_checkpoint(learned)


def draw(rows: pd.DataFrame) -> Figure:
    """Four panels; a colour for each model, whose references of the same shape are dashed and dotted."""
    learned = _learned(rows)
    models = list(dict.fromkeys(learned["model"]))
    colours = theme.category_colours(models)
    figure = theme.figure(height=6.4)
    for axes, (statistic, (title, below, beside)) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        of_statistic = learned[learned["statistic"] == statistic]
        for model in models:
            of_model = of_statistic[of_statistic["model"] == model]
            for kind in ("table", *REFERENCES):
                _line(axes, of_model[of_model["kind"] == kind].sort_values("index"), kind, colours[model])
        axes.set_title(title)
        axes.set_xlabel(below)
        axes.set_ylabel(beside)
        if statistic in ("variance", "sinusoidal_share"):
            axes.set_xscale("log", base=2)
            ticks = [tick for tick in axes.get_xticks() if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        if statistic != "similarity_centred":
            axes.set_ylim(bottom=0)
    first = figure.axes[0]
    handles = [first.plot([], [], color=colours[model], label=model)[0] for model in models]
    handles += [
        first.plot([], [], color=theme.MUTED, linestyle=STYLES[kind], label=f"{name}, same shape")[0]
        for kind, name in REFERENCES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3))
    return figure


def _line(axes: Axes, line: pd.DataFrame, kind: str, colour: str) -> None:
    if kind == "table" and line["statistic"].eq("similarity_centred").any():
        axes.fill_between(line["index"], line["low"], line["high"], color=colour, alpha=0.12, linewidth=0)
    axes.plot(
        line["index"],
        line["value"],
        color=colour,
        linestyle=STYLES.get(kind, "-"),
        linewidth=2 if kind == "table" else 1.3,
        alpha=1 if kind == "table" else 0.7,
    )


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: for each model neighbours' similarity and how sinusoidal its table is."""
    parts = []
    for model, of_model in _learned(rows).groupby("model", sort=False):
        value = of_model.set_index(["statistic", "kind", "index"])["value"]
        width = of_model[of_model["statistic"] == "sinusoidal_share"]["index"].max()
        share = {kind: value["sinusoidal_share", kind, width] for kind in ("table", "random")
                 if ("sinusoidal_share", kind, width) in value.index}  # fmt: skip
        against = f" (random: {share['random']:.2f})" if "random" in share else ""
        parts.append(
            f"{model}: cosine of neighbours {value['similarity_centred', 'table', 1]:.2f} with the mean taken off "
            f"(sinusoidal: {value['similarity_centred', 'sinusoidal', 1]:.2f}), share of variance in the span of a "
            f"sinusoidal table of its width {share['table']:.2f}{against}"
        )
    return (
        "Four panels on tables of learned positions beside sinusoidal and random ones of the same shape and scale: "
        f"lengths by place, mean cosine by distance, spectrum, and how sinusoidal they are. {'; '.join(parts)}."
    )
