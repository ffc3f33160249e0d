"""Figures and phrases of compared tables, from rows of which every number is known."""

import numpy as np
import pandas as pd
import pytest

from embscale.figures import NothingToShow, intrinsic_dimension, similarity_steps, similarity_widths, undertrained
from embscale.plotting import steps, theme
from embscale.report import compared_numbers
from embscale.scoring import compared_estimates

FIGURES = (similarity_steps, similarity_widths, intrinsic_dimension, undertrained)
STEPS = (0, 10, 40)
WIDTHS = (8, 16)


def row(about, quantity, width, step, value, **other):
    """An estimate with an interval of 0.02 to either side."""
    keys = {"suite": "ladder", "about": about, "quantity": quantity, "width": width, "step": step, "table": "input"}
    numbers = {"value": value, "ci_low": value - 0.02, "ci_high": value + 0.02, "raw": value + 0.001, "chance": 0.001}
    return keys | numbers | {"runs": 3, "n": 100, "chosen": False, "tied": "no"} | other


def rows(*, seeds=True, tied=False):
    """A ladder of two widths; similarities grow with step and width, dimensions shrink at the wider one alone."""
    found = []
    for width in WIDTHS:
        for step in STEPS:
            for share, measure in ((1.0, "cka"), (0.5, "mutual_neighbours")):
                if seeds:
                    value = share * step * width / 1000
                    found.append(row("similarity", measure, width, step, value, relation="seeds", other_width=width))
                found.append(row("similarity", measure, width, step, 0.01, relation="input and output"))
                if step < 40:
                    found.append(row("similarity", measure, width, step, 0.3 + step / 100, relation="steps"))
            value = width - (step / 10 if width == 16 else 0)
            found.append(row("dimension", "dimension", width, step, value, ci_low=value - 1, ci_high=value + 1))
            for indicator in ("input_norm", "output_cosine"):
                for suite in ("ladder", *(["ladder-tied"] if tied else [])):
                    found += [
                        row("undertrained", metric, width, step, value, chance=chance, indicator=indicator, suite=suite)
                        for metric, value, chance in (
                            ("auc", 0.5 + step * width / 1600, 0.5), ("average_precision", 0.05 + step / 100, 0.05)
                        )
                    ]  # fmt: skip
        found.append(row("dimension", "dimension", width, np.nan, width - 0.25, table="random"))
    if seeds:
        found += [
            row("similarity", measure, 8, 40, 0.2, relation="widths", other_width=16)
            for measure in ("cka", "mutual_neighbours")
        ]
    return pd.DataFrame(found, columns=["suite", *compared_estimates.COLUMNS])


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_drawn_from_the_columns_that_it_names_and_the_same_each_time(figure, tmp_path):
    shown = rows(tied=True)[list(figure.COLUMNS)]
    for name in "ab":
        theme.save(figure.draw(shown), tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "nan" not in figure.describe(shown)


def test_descriptions_give_the_values():
    words = similarity_steps.describe(rows())
    assert "two seeds, CKA: width 8 from 0.00 at step 0 to 0.32 at step 40; width 16 from 0.00" in words
    assert "a step and the last one, CKA: width 8 from 0.30 at step 0 to 0.40 at step 10" in words
    words = similarity_widths.describe(rows())
    assert "8 and 16 0.20 [0.18, 0.22] (raw 0.201, chance 0.001)" in words
    assert "seeds of width 16 0.64 [0.62, 0.66]" in words and "3 runs of each width" in words
    words = intrinsic_dimension.describe(rows())
    assert "width 16: 16.0 [15.0, 17.0] at step 0, 12.0 [11.0, 13.0] at step 40, random tables 15.8" in words
    words = undertrained.describe(rows())
    assert "norm of the input row, area under ROC curve (chance 0.50): width 8 0.50 at step 0, 0.70 at step 40" in words
    assert "tied" not in words and "the same, tied" in undertrained.describe(rows(tied=True))


def drawn(axes):
    return {
        round(float(value), 6)
        for line in axes.lines
        for value in np.asarray(line.get_ydata(), float)
        if np.isfinite(value)
    }


def test_what_is_drawn_are_the_values():
    figure = similarity_steps.draw(rows())
    assert {0.32, 0.64} <= drawn(figure.axes[0]) and 0.2 not in drawn(figure.axes[0])
    cells = {text.get_text() for text in similarity_widths.draw(rows()).axes[0].texts}
    assert cells == {"0.32", "0.20", "0.64"}
    assert {16.0, 12.0, 15.75, 8.0, 7.75} <= drawn(intrinsic_dimension.draw(rows()).axes[0])
    assert {0.7, 0.9, 0.5} <= drawn(undertrained.draw(rows()).axes[0])
    assert len(undertrained.draw(rows()).axes) == 4 and len(undertrained.draw(rows(tied=True)).axes) == 6


def test_what_was_not_run_is_said():
    one_run = rows(seeds=False)
    with pytest.raises(NothingToShow, match="one run"):
        similarity_widths.draw(one_run)
    assert len(similarity_steps.draw(one_run).axes) == 4  # without two seeds, two relations remain
    with pytest.raises(NothingToShow, match="two or more steps"):
        similarity_steps.draw(rows().query("step == 40"))
    others = rows().query("about != 'undertrained' and about != 'dimension'")
    with pytest.raises(NothingToShow, match="bytes that no text holds"):
        undertrained.draw(others)
    with pytest.raises(NothingToShow, match="Tables of the ladder"):
        intrinsic_dimension.draw(others)


def test_phrases_count_widths_by_their_intervals():
    found = compared_numbers.variables(rows())
    assert found == {
        "seeds": "more alike than chance at all 2 widths (calibrated CKA 0.32 to 0.64)",
        "widths": "more alike than chance at the only pair of widths (calibrated CKA 0.20)",
        "ends": "more alike than chance at none of the widths (calibrated CKA 0.01)",
        "dimension": "fewer dimensions than random tables at 1 of 2 widths",
        "input_norm": "0.70 at width 8 and 0.90 at width 16 (chance 0.50)",
        "output_cosine": "0.70 at width 8 and 0.90 at width 16 (chance 0.50)",
    }


def test_phrases_of_one_run_or_one_width_are_plain():
    one_run = rows(seeds=False).assign(ci_low=np.nan, ci_high=np.nan)
    found = compared_numbers.variables(one_run[one_run["width"] == 8])
    assert found["seeds"] == found["widths"] == "not run"
    assert found["ends"] == "more alike than chance at the only width (calibrated CKA 0.01, without intervals)"
    assert found["input_norm"] == "0.70 at width 8 (chance 0.50)"
    nothing = compared_numbers.variables(rows().iloc[:0])
    assert set(nothing.values()) == {"not run"}


def test_steps_lie_by_their_logarithms_and_the_untrained_table_apart():
    places = steps.places([100, 0, 10, 1000, 10])
    assert list(places) == [0, 10, 100, 1000]
    assert places[100] - places[10] == pytest.approx(1) == places[1000] - places[100]
    assert places[0] < places[10] - 0.3 + 1e-9
    assert steps.places([0]) == {0: pytest.approx(-0.3)} and steps.places([7]) == {7: pytest.approx(np.log10(7))}


def test_names_of_steps_do_not_lie_on_each_other():
    axes = theme.figure(height=3).subplots()
    places = steps.places([0, *range(100, 200), 5000])
    steps.axis(axes, places, room=0.1)
    ticks = axes.get_xticks()
    assert np.diff(ticks).min() >= 0.1 * (ticks[-1] - ticks[0])
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names[0] == "0" and names[-1] == "5000" and len(names) > 2
    steps.axis(axes, steps.places([5]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["5"]
