"""Figures of the ladder's answers: the same bytes each time, with their numbers in words, or a sentence instead."""

import numpy as np
import pandas as pd
import pytest

import ladder_rows
from embscale.answers import crossings, curves, effects, fits
from embscale.cli import execute, load
from embscale.cli.draw import load as figure
from embscale.figures import NothingToShow
from embscale.parameters.scores import Margins
from embscale.statistics.two_way import Resamples

MARGINS = Margins(score_share=0.1, loss_share=0.02, tokens_factor=1.25)
PROTOCOL = {"task": "T", "length": "64", "metric": "ndcg_at_10"}
FIGURES = ("training", "crossings", "effects", "ladder_fits")


def answers(suites=ladder_rows.SUITES, **about):
    """The rows behind each figure."""
    made, runs = ladder_rows.scored(suites, queries=90, **about), ladder_rows.runs(suites, **about)
    found = curves.curves(made, ladder_rows.tokens(runs))
    resampled = Resamples(made.clusters, resamples=200, seed=1)
    drawn = [row for curve in found for row in curves.compared(curve, resampled)]
    return {
        "training": curves.rows(drawn, PROTOCOL, resampled).assign(study="small"),
        "crossings": crossings.rows(drawn, PROTOCOL, resampled),
        "effects": effects.rows(found, runs, resampled, MARGINS),
        "ladder_fits": fits.fits(found, runs, resampled)[1],
    }


@pytest.fixture(scope="module")
def deep():
    return answers()


@pytest.fixture(scope="module")
def slice_of_it():
    return answers({"ladder": {16: {}, 32: {}}}, steps=(0, 25, 100, 400), seeds=(1, 2))


def draw(name, rows, folder):
    rows.to_csv(folder / "rows.csv", index=False)
    files = {"--svg": "f.svg", "--partial": "f.md", "--data": "f.csv.gz"}
    flags = [part for flag, file in files.items() for part in (flag, str(folder / file))]
    assert execute("draw", [name, "--rows", str(folder / "rows.csv"), *flags]) == 0
    return (folder / "f.svg").read_bytes(), (folder / "f.md").read_text()


def less_random(found):
    """The crossing of each width over all runs, against random tables."""
    rows = found["crossings"]
    return rows[(rows["run"] == "all") & (rows["against"] == "random")]


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_in_the_same_bytes_from_the_rows_of_its_file(name, deep, tmp_path):
    first, text = draw(name, deep[name], tmp_path)
    assert first == draw(name, deep[name], tmp_path)[0] and first.count(b"<path") > 20
    assert text.startswith("![](") and "95 %" in text
    # The values in words are those of the rows as computed.
    assert figure(name).describe(deep[name].astype({"suite": "str"}))[:60] in text.replace("\\", "")


def test_a_ring_is_drawn_where_a_line_crosses(deep, slice_of_it):
    def rings(rows):
        (axes,) = figure("training").draw(rows).axes
        return [line.get_xdata()[0] for line in axes.lines if line.get_markersize() == 9]

    whole = less_random(deep)
    whole = whole[whole["suite"] == "ladder"]
    assert sorted(rings(deep["training"])) == pytest.approx(sorted(whole["tokens"]))
    assert len(rings(deep["training"])) == 4 and not rings(slice_of_it["training"])


def test_every_point_of_the_curves_is_drawn_with_the_untrained_table_at_the_left(deep):
    (axes,) = figure("training").draw(deep["training"]).axes
    lines = [line for line in axes.lines if len(line.get_xdata()) == len(ladder_rows.STEPS) - 1]
    assert len(lines) == 4 and all(min(line.get_xdata()) == 25 * 1024 for line in lines)
    assert axes.get_xlim()[0] < 25 * 1024 / 3 < 25 * 1024
    assert axes.get_xticklabels()[0].get_text() == "0" and axes.get_xscale() == "log"


def test_what_has_not_crossed_is_hollow_with_an_arrow(deep):
    (axes,) = figure("crossings").draw(deep["crossings"]).axes
    whole = less_random(deep)
    shown = whole[whole["suite"].isin(["ladder", "ladder-tied"])]
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    assert len(arrows) == shown["ci_high"].isna().sum() > 0
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert sum(len(line.get_xdata()) for line in hollow) == (shown["status"] == "not before").sum() > 0


def test_effects_are_drawn_against_their_margin_and_what_has_none_is_said(deep):
    panels = figure("effects").draw(deep["effects"]).axes
    assert len(panels) == 3
    varied = deep["effects"][deep["effects"]["against"] == "ladder"]
    none = varied["effect"].isna().sum()
    assert none and sum(text.get_text() == "not crossed" for text in panels[2].texts) == none
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    assert len(labels) == 6 and "frozen, 64" in labels


def test_a_study_without_crossings_or_variations_says_so(slice_of_it, tmp_path):
    with pytest.raises(NothingToShow, match="In 410,000 tokens of training, no mean curve"):
        figure("crossings").draw(slice_of_it["crossings"])
    with pytest.raises(NothingToShow, match="no variation"):
        figure("effects").describe(slice_of_it["effects"])
    for name in ("crossings", "effects"):
        _, text = draw(name, slice_of_it[name], tmp_path)
        assert "![" not in text


def test_points_that_support_no_law_are_drawn_without_one(slice_of_it):
    assert figure("ladder_fits").describe(slice_of_it["ladder_fits"]).count("no law is supported") == 4
    panels = figure("ladder_fits").draw(slice_of_it["ladder_fits"]).axes
    assert all(np.isnan(line.get_ydata().astype(float)).all() for axes in panels for line in axes.lines
               if line.get_linewidth() == 1.4)  # fmt: skip


def test_one_run_and_one_width_are_drawn():
    rows = answers({"ladder": {16: {}}}, seeds=(1,))
    assert "one run" in figure("training").describe(rows["training"])
    for name in ("training", "crossings", "ladder_fits"):
        assert figure(name).draw(rows[name]).axes
    assert isinstance(rows["training"], pd.DataFrame) and load("ladder-answers")


def test_a_recorded_study_is_drawn_beside_this_one(deep, slice_of_it, tmp_path):
    rows = pd.concat([slice_of_it["training"].assign(study="desk"), deep["training"].assign(study="ladder")])
    _, text = draw("training", rows, tmp_path)
    assert [axes.get_title(loc="left") for axes in figure("training").draw(rows).axes] == ["study desk", "study ladder"]
    assert "Study desk: width" in text and "Study ladder: width" in text
