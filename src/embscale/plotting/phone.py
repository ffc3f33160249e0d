"""Figures for a phone: the same drawing, with its panels below each other and its words fitted to a narrow page."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

WIDTH = 350 / 96  # inches: a phone of 390 px without its margins
TURNED = 35  # degrees, of names of ticks that would touch
HIGHEST = 3.1  # inches, of a panel
NAMES = 0.34  # share of the figure's width for names beside the y axis
MARGIN = 4  # pixels
UNEVEN = 0.93  # words are not all as wide as their letters are in the mean
LINE = 0.22  # inches, of one more line of words


class Stacked:
    """What a figure and a part of one do differently on a phone; each row of panels becomes a column."""

    def subplots(self, nrows: int = 1, ncols: int = 1, **options: Any) -> Any:  # noqa: ANN401 (as matplotlib)
        """As `matplotlib.figure.Figure.subplots`, the panels of a row below each other, which share what they did."""
        squeeze = options.pop("squeeze", True)
        ratios = options.pop("height_ratios", None)
        shares = {axis: options.pop(f"share{axis}", False) for axis in "xy"}
        options.pop("width_ratios", None)
        heights = [ratio for ratio in ratios or [1] * nrows for _ in range(ncols)]
        self._grow(ncols, nrows * ncols)
        grid = super().subplots(nrows * ncols, 1, squeeze=False, height_ratios=heights, **options)  # type: ignore[misc]
        panels = grid.reshape(nrows, ncols)
        for axis, share in shares.items():
            for group in _groups(panels, share):
                for panel in group[1:]:
                    getattr(panel, f"share{axis}")(group[0])
        self._grids().append(panels)
        if not squeeze:
            return panels
        return panels.item() if panels.size == 1 else panels.squeeze()

    def subplot_mosaic(self, mosaic: Sequence[Sequence[Hashable]], **_: Any) -> dict[Hashable, Axes]:  # noqa: ANN401
        """As `matplotlib.figure.Figure.subplot_mosaic`, the panels below each other in the order of reading."""
        names = list(dict.fromkeys(name for row in mosaic for name in row))
        self._grow(len(names) / len(mosaic), len(names))
        panels = super().subplots(len(names), 1, squeeze=False)[:, 0]  # type: ignore[misc]
        return dict(zip(names, panels, strict=True))

    def subfigures(self, nrows: int = 1, ncols: int = 1, **options: Any) -> np.ndarray:  # noqa: ANN401
        """As `matplotlib.figure.Figure.subfigures`, below each other."""
        options.pop("width_ratios", None)
        self._grow(ncols, nrows * ncols)
        parts = super().subfigures(nrows * ncols, 1, **options | {"squeeze": False})  # type: ignore[misc]
        for part in parts.flat:
            part.__class__ = PhonePart  # matplotlib offers no other way to choose it
        return parts.reshape(nrows, ncols)

    def legend(self, *args: Any, ncols: int = 1, **options: Any) -> Legend:  # noqa: ANN401
        """As `matplotlib.figure.Figure.legend`, in as many columns as there is room for."""
        for count in range(ncols, 0, -1):
            legend: Legend = super().legend(*args, ncols=count, **options)  # type: ignore[misc]
            if count == 1 or legend.get_window_extent().width <= self.bbox.width:  # type: ignore[attr-defined]
                break
            legend.remove()
        rows = -(-len(legend.get_texts()) // count)
        self._heighten(LINE * max(rows - 1, 0))
        return legend

    def _grids(self) -> list[np.ndarray]:
        return self.figure.grids  # type: ignore[attr-defined]

    def _grow(self, times: float, panels: int) -> None:
        """Make the figure as many times as high, but not for panels that are higher than wide."""
        height = self.figure.get_figheight()  # type: ignore[attr-defined]
        if times > 1:
            self._heighten(min(height * times, max(height, HIGHEST * panels)) - height)

    def _heighten(self, inches: float) -> None:
        root = self.figure  # type: ignore[attr-defined]
        root.set_figheight(root.get_figheight() + inches)


def _groups(panels: np.ndarray, share: bool | str) -> list[list[Axes]]:
    """Panels that share an axis, by matplotlib's word for it."""
    by_word = {"row": list(panels), "col": list(panels.T), "all": [panels.ravel()], True: [panels.ravel()]}
    return [list(group) for group in by_word.get(share, [])]


class PhonePart(Stacked, SubFigure):  # type: ignore[misc]
    """A part of a `PhoneFigure`."""


class PhoneFigure(Stacked, Figure):  # type: ignore[misc]
    """A figure as wide as a phone's page."""

    def __init__(self, height: float) -> None:
        super().__init__(figsize=(WIDTH, height), layout="constrained")
        self.grids: list[np.ndarray] = []

    def fit(self) -> None:
        """Make all words fit: call it when everything is drawn, before the figure is saved."""
        for panels in self.grids:
            _name(panels)
        for panel in self.get_axes():
            self._heighten(_wrap_names(panel, self.bbox.width * NAMES))
        self.draw_without_rendering()
        for panel in self.get_axes():
            for title in (panel.title, panel._left_title):  # type: ignore[attr-defined]
                self._heighten(_wrap(title, self.bbox.x1 - title.get_window_extent().x0 - MARGIN))
            name = panel.xaxis.label
            middle = name.get_window_extent().x0 + name.get_window_extent().width / 2
            self._heighten(_wrap(name, 2 * (min(middle, self.bbox.x1 - middle) - MARGIN)))
            _wrap(panel.yaxis.label, panel.bbox.height)
            if _touch(panel):
                panel.tick_params(axis="x", labelrotation=TURNED)
                for label in panel.get_xticklabels():
                    label.set(ha="right", rotation_mode="anchor")
                self._heighten(LINE)


def _name(panels: np.ndarray) -> None:
    """Repeat what stood once beside or above panels that lie apart now."""
    for (row, column), panel in np.ndenumerate(panels):
        if not panel.get_visible():
            continue
        if not panel.get_ylabel():
            panel.set_ylabel(panels[row, 0].get_ylabel())
        if not panel.get_xlabel() and panels.shape[1] > 1:
            panel.set_xlabel(panels[-1, column].get_xlabel())
        if not panel.get_title(loc="left") and row:
            panel.set_title(panels[0, column].get_title(loc="left"))


def _wrap(text: Text, room: float) -> float:
    """Break words that are wider than the room (higher, if they are upright), in pixels; the inches that this adds."""
    words = text.get_text()
    box = text.get_window_extent()
    size = box.height if text.get_rotation() == 90 else box.width
    if not words.strip() or size <= room:
        return 0.0
    longest = max(map(len, words.split("\n")))
    broken = textwrap.fill(" ".join(words.split()), max(int(longest * room / size * UNEVEN), 8), break_long_words=False)
    text.set_text(broken)
    return LINE * (broken.count("\n") - words.count("\n"))


def _wrap_names(panel: Axes, room: float) -> float:
    """Break names of ticks beside the y axis that are wider than the room, in pixels; the inches that this adds."""
    names = panel.get_yticklabels()
    added = [_wrap(name, room) for name in names]
    if any(added):
        panel.set_yticks(panel.get_yticks(), [name.get_text() for name in names])
    return sum(added)


def _touch(panel: Axes) -> bool:
    """Whether names below the x axis overlap."""
    boxes: list[Bbox] = [
        label.get_window_extent() for label in panel.get_xticklabels() if label.get_text() and label.get_visible()
    ]
    return any(left.x1 + 2 > right.x0 for left, right in itertools.pairwise(sorted(boxes, key=lambda box: box.x0)))
