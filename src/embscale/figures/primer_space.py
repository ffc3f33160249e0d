"""Words as points in the plane in which they differ most."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from embscale.plotting import theme

# Where a word may stand: offset in points, and how it is set against it.  The first that covers least is taken.
SIDES = (
    ((5, 0), "left", "center"),
    ((-5, 0), "right", "center"),
    ((0, 5), "center", "bottom"),
    ((0, -5), "center", "top"),
)

COLUMNS = ("word", "id", "pc1", "pc2", "nearest", "cosine", "explained1", "explained2")


def draw(rows: pd.DataFrame) -> Figure:
    """A point with its word for each row; a line to the nearest of the others in all dimensions."""
    points = rows.dropna(subset="id").set_index("word")
    figure = theme.figure(height=4.8)
    axes = figure.subplots()
    for _, point in points.iterrows():
        other = points.loc[point["nearest"]]
        axes.plot([point["pc1"], other["pc1"]], [point["pc2"], other["pc2"]], color=theme.FAINT, zorder=1)
    axes.scatter(points["pc1"], points["pc2"], s=18, color=theme.CATEGORIES[0], zorder=2)
    first, second = rows[["explained1", "explained2"]].iloc[0] * 100
    axes.set_xlabel(f"first component, {first:.0f} % of the variance")
    axes.set_ylabel(f"second, {second:.0f} %")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(x=0.12, y=0.08)
    _name(figure, axes, points)
    return figure


def _name(figure: Figure, axes: Axes, points: pd.DataFrame) -> None:
    """Each word beside its point, on the side where it covers least of the points and words that are there."""
    figure.draw_without_rendering()
    dots = [Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in axes.transData.transform(points[["pc1", "pc2"]])]
    for word, point in points.iterrows():
        tried: list[tuple[int, int, Annotation, Bbox]] = []
        for offset, side, height in SIDES:
            label = axes.annotate(
                str(word),
                (point["pc1"], point["pc2"]),
                offset,
                textcoords="offset points",
                ha=side,
                va=height,
                fontsize=11,
            )
            box = label.get_window_extent()
            tried.append((sum(box.overlaps(other) for other in dots), len(tried), label, box))
        _, _, _, box = min(tried, key=lambda attempt: attempt[:2])
        for _, _, label, other in tried:
            if other is not box:
                label.remove()
        dots.append(box)


def describe(rows: pd.DataFrame) -> str:
    """What the figure shows: which word is nearest to which, and which words have no point."""
    points = rows.dropna(subset="id")
    pairs = ", ".join(
        f"{word} to {nearest} ({cosine:.2f})"
        for word, nearest, cosine in points[["word", "nearest", "cosine"]].itertuples(index=False)
    )
    missing = rows[rows["id"].isna()]["word"].tolist()
    without = f" Without a point, being several tokens: {', '.join(missing)}." if missing else ""
    share = (rows["explained1"].iloc[0] + rows["explained2"].iloc[0]) * 100
    return (
        f"{len(points)} words as points on two principal components that hold {share:.0f} % of their variance. Lines "
        f"lead from each to the nearest of the others in all dimensions, by cosine: {pairs}.{without}"
    )
