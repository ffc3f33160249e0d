"""How figures look: drawings for a page and for a phone, legible in light and in the dark, with words that are text."""

import itertools
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from embscale.plotting import phone, theme
from embscale.report.design import STYLE

PAGE_IN_THE_DARK = re.findall(r"--page: (#\w{6});", STYLE.read_text("utf-8"))[-1]


def four(ratios=(1, 2)):
    """A row of two panels above another, whose words stand once."""
    figure = theme.figure(height=4)
    panels = figure.subplots(2, 2, sharey="row", sharex=True, height_ratios=ratios)
    for (row, column), axes in np.ndenumerate(panels):
        axes.plot([1, 2], [row, row + column + 1], label=f"line {row} {column} with a long name")
    for column in range(2):
        panels[0, column].set_title(f"column {column}")
        panels[1, column].set_xlabel("a label that is much too long for a phone, which is narrow, and for half a page")
    for row in range(2):
        panels[row, 0].set_ylabel(f"row {row}")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def saved(figure, path, salt="x"):
    theme.save(figure, path, salt=salt)
    return path.read_text("utf-8")


def test_on_a_phone_each_panel_has_the_width_and_the_words_to_itself(tmp_path):
    with theme.for_phones():
        figure = four()
        saved(figure, tmp_path / "a.svg")
    places = [axes.get_position() for axes in figure.axes]
    assert all(above.y0 > below.y1 for above, below in itertools.pairwise(places))
    assert figure.get_figwidth() == phone.WIDTH and figure.get_figheight() > 2 * 4
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["column 0", "column 1"] * 2
    assert [axes.get_ylabel() for axes in figure.axes] == ["row 0", "row 0", "row 1", "row 1"]
    assert all("\n" in axes.get_xlabel() for axes in figure.axes)
    # What was shared still is: rows their y axis, all of them the x axis.
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim() != figure.axes[2].get_ylim()
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    for axes in figure.axes:
        for text in (axes.xaxis.label, axes._left_title, *figure.legends[0].get_texts()):
            box = text.get_window_extent()
            assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, text.get_text()


def test_off_the_phone_the_figure_is_that_of_the_page():
    assert type(four()) is Figure and four().get_figwidth() == theme.PAGE_WIDTH
    with theme.for_phones():
        assert isinstance(four(), phone.PhoneFigure)
    assert type(four()) is Figure


def test_long_names_beside_an_axis_are_broken(tmp_path):
    with theme.for_phones():
        figure = theme.figure(height=2)
        axes = figure.subplots()
        axes.barh(["a name that would take all of the width of a phone", "short"], [1, 2])
        saved(figure, tmp_path / "a.svg")
    assert axes.get_position().width > 0.5
    assert axes.get_yticklabels()[0].get_text().count("\n") >= 1


def test_an_svg_has_words_as_text_and_only_names_that_are_used(tmp_path):
    text = saved(four(), tmp_path / "a.svg")
    assert ">column 0</text>" in text and not re.search("<metadata|<style|<!DOCTYPE", text)
    ids = re.findall(r' id="([^"]+)"', text)
    assert ids and len(ids) == len(set(ids)) and all(f"#{name}" in text for name in ids)
    assert not re.search(r' d="[^"]*\d\.\d{3}', text)
    other = saved(four(), tmp_path / "b.svg", salt="y")
    assert not set(ids) & set(re.findall(r' id="([^"]+)"', other))
    assert saved(four(), tmp_path / "c.svg") == text


def test_numbers_in_words_keep_their_digits():
    text = '<svg width="1.23456"><path d="M 1.23456 0.5\n"/><text x="1.999">0.12345</text></svg>'
    assert (
        theme.plain_svg(text)
        .splitlines()[-1]
        .endswith('width="1.23"><path d="M 1.23 0.5 "/><text x="2">0.12345</text></svg>')
    )


def in_the_dark(colour):
    """What the filter of the page makes of a colour: the CSS functions invert and hue-rotate(180deg) on sRGB values."""
    share = float(re.search(r"filter: invert\(([.\d]+)\) hue-rotate\(180deg\)", STYLE.read_text("utf-8"))[1])
    parts = np.array(theme.matplotlib.colors.to_rgb(colour))
    parts = parts * (1 - share) + (1 - parts) * share
    grey = np.array([0.213, 0.715, 0.072])
    return theme.matplotlib.colors.to_hex(np.clip(2 * (grey @ parts) - parts, 0, 1))


LINES = [*theme.CATEGORIES, *theme.ordered_colours(7)]


@pytest.mark.parametrize("colour", LINES)
def test_lines_can_be_seen_and_their_names_read_in_light_and_in_the_dark(colour):
    assert theme.contrast(colour, "white") >= 3
    assert theme.contrast(in_the_dark(colour), PAGE_IN_THE_DARK) >= 3
    words = theme.ink(colour)
    assert theme.contrast(words, "white") >= 4.5
    assert theme.contrast(in_the_dark(words), PAGE_IN_THE_DARK) >= 4.5


@pytest.mark.parametrize("share", np.linspace(0, 1, 11))
def test_words_on_a_heat_map_can_be_read(share):
    cell, words = theme.HEAT(share), theme.ON_HEAT
    assert theme.contrast(words, cell) >= 4.5
    assert theme.contrast(in_the_dark(words), in_the_dark(cell)) >= 4.5


def test_contrast_is_that_of_the_guidelines():
    assert theme.contrast("white", "black") == pytest.approx(21)
    assert theme.contrast("#767676", "white") == pytest.approx(4.54, abs=0.01)  # the grey that just passes
    assert theme.ink("#222222") == "#222222"


def test_names_of_tokens_do_not_touch_in_a_narrow_panel():
    from embscale.plotting import tokens

    figure = theme.figure(height=3)
    for axes in figure.subplots(1, 2):
        tokens.axis(axes, [0, 25_600, 102_400, 409_600], zero=True)
        figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert len(boxes) > 2
        assert all(left.x1 + 4 < right.x0 for left, right in itertools.pairwise(boxes))
