"""The ladder's answers on made-up scores and losses whose crossings, effects and laws are known."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ladder_rows
from embscale.answers import costs, crossings, curves, effects, explanations, fits, trained, words
from embscale.answers.crossings import CROSSED, FROM_THE_START, NOT_BEFORE, crossing, median
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.parameters.scores import Margins
from embscale.scoring.estimates import estimates
from embscale.statistics.two_way import Resamples

MARGINS = Margins(score_share=0.1, loss_share=0.02, tokens_factor=1.25)
GRID = np.array([0, 1e5, 1e6, 1e7])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, -1, 1, 1], 10**5.5),  # half way on the logarithm of tokens
        ([-1, -1, -3, 1], 10**6.75),
        ([-1, 1, 1, 1], 5e4),  # before the first checkpoint in proportion to tokens
        ([-1, -1, -1, -1], np.inf),
        ([-1, 1, 1, -1], np.inf),  # crossed, and fell back before the end
        ([-1, 1, -1, 1], 10**6.5),  # fell back and crossed again: the last time counts
        ([1, 1, 1, 1], 0),
        ([1, 1, 1, 0], np.inf),  # on zero is not above
        ([0, 1, 1, 1], 0),  # as a table less itself
    ],
)
def test_the_crossing_is_the_first_point_from_which_a_curve_stays_above_zero(values, expected):
    assert crossing(GRID, np.array(values, float)) == pytest.approx(expected)
    stacked = crossing(GRID, np.array([[values, values], [values, values]], float))
    assert stacked.shape == (2, 2) and stacked.ravel() == pytest.approx([expected] * 4)
    assert not np.signbit(stacked).any()


def test_a_crossing_between_checkpoints_is_exact_where_the_curve_is_a_line_in_log_tokens():
    tokens = np.array(ladder_rows.STEPS) * 1024.0
    values = np.log(np.maximum(tokens, 1.0)) - np.log(3.3e6)
    assert crossing(tokens, values) == pytest.approx(3.3e6)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([1e6, 2e6, 3e6], 2e6),
        ([1e6, 2e6, np.inf], 2e6),  # one of three is censored: the second still tells the median
        ([1e6, np.inf, np.inf], np.inf),
        ([np.inf, np.inf, np.inf], np.inf),
        ([5e6], 5e6),
        ([1e6, 2e6, np.inf, np.inf], 2e6),
    ],
)
def test_the_median_of_censored_runs_is_kaplan_and_meiers(found, expected):
    assert median(np.array(found), 1e7) == expected


def study(suites=ladder_rows.SUITES, *, resamples=400, **noise):
    """Curves, runs and resamples of a made-up study."""
    about = {name: noise[name] for name in ("steps", "seeds") if name in noise}
    made, runs = ladder_rows.scored(suites, **noise), ladder_rows.runs(suites, **about)
    found = {
        way: curves.curves(made, ladder_rows.tokens(runs), treatment=way) for way in ("full", *explanations.TREATMENTS)
    }
    return made, found, runs, Resamples(made.clusters, resamples=resamples, seed=1)


@pytest.fixture(scope="module")
def ladder():
    return study()


def of(found, suite, width):
    (curve,) = [curve for curve in found["full"] if (curve.suite, curve.width) == (suite, width)]
    return curve


def rows_of(ladder, against="random"):
    _made, found, _runs, resampled = ladder
    drawn = [row for curve in found["full"] for row in curves.compared(curve, resampled)]
    rows = crossings.rows(drawn, {"task": "T", "length": "64", "metric": "ndcg_at_10"}, resampled)
    assert set(rows["against"]) == {"random", "untrained"}
    return rows[rows["against"] == against]


def some(task, chosen):
    """Some of the scores of a task, by a mask."""
    chosen = chosen.to_numpy()
    return replace(task, keys=task.keys[chosen].reset_index(drop=True), scores=task.scores[:, chosen])


def test_a_curve_has_the_intervals_of_the_differences_at_every_step(ladder):
    made, found, _, resampled = ladder
    own = some(made, made.keys["suite"].isin(["ladder", "random"]) & (made.keys["variant"] != "unit"))
    _, differences = estimates([own], resamples=400, seed=1)
    differences = differences[
        differences["against"].isin(["random", "untrained"]) & (differences["treatment"] == "full")
    ]
    drawn = [row for curve in found["full"] if curve.suite == "ladder" for row in curves.compared(curve, resampled)]
    rows = curves.rows(drawn, {"task": "T", "length": "64", "metric": "ndcg_at_10"}, resampled)
    assert rows["tokens"].tolist() == (rows["step"] * ladder_rows.PER_STEP).tolist()
    both = rows.merge(differences, on=["suite", "model", "step", "against"], suffixes=("", "_then"))
    # Step 0 is the untrained table itself.
    assert len(both) == len(rows) == len(ladder_rows.WIDTHS) * (2 * len(ladder_rows.STEPS) - 1)
    for name in ("value", "ci_low", "ci_high", "score", "control_score", "control_runs", "runs", "n", "clusters"):
        assert both[name].to_numpy() == pytest.approx(both[f"{name}_then"].to_numpy())


def test_planted_crossings_are_found(ladder):
    rows = rows_of(ladder)
    whole = rows[rows["run"] == "all"].set_index(["suite", "width"])
    for width, planted in ladder_rows.CROSSING.items():
        row = whole.loc["ladder", width]
        assert row["status"] == CROSSED and row["crossed_runs"] == row["runs"] == 3
        assert row["ci_low"] < planted < (np.inf if np.isnan(row["ci_high"]) else row["ci_high"])
        assert row["tokens"] == pytest.approx(planted, rel=0.4)
        single = rows[(rows["suite"] == "ladder") & (rows["width"] == width) & (rows["run"] != "all")]
        assert sorted(single["run"]) == ["1", "2", "3"] and row["median"] == single["tokens"].median()
    # Frozen tables never cross: all that is known is the end of the training.
    frozen = whole.loc["ladder-frozen", 64]
    assert (
        frozen["status"] == NOT_BEFORE and frozen["tokens"] == frozen["last_tokens"] == frozen["ci_low"] == 12_288_000
    )
    assert np.isnan(frozen["ci_high"]) and np.isnan(frozen["median"]) and frozen["crossed_runs"] == 0


def test_a_run_that_starts_low_passes_its_own_start_before_random_tables():
    # All runs begin one tenth below random tables, which rise by more than that only late.
    made, found, _, resampled = study({"ladder": {64: {}}})
    curve = of(found, "ladder", 64)
    low = curves.Curve(**vars(curve) | {"scores": curve.scores - 0.04})
    rows = crossings.rows(curves.compared(low, resampled), {"task": "T", "length": "64", "metric": "m"}, resampled)
    whole = rows[rows["run"] == "all"].set_index("against")
    assert len(made.scores) == whole.loc["random", "n"]
    assert whole.loc["untrained", "tokens"] < 6e6 < whole.loc["random", "tokens"]
    planted = ladder_rows.CROSSING[64]
    assert whole.loc["untrained", "ci_low"] < planted < whole.loc["untrained", "ci_high"]


def test_where_some_runs_have_not_crossed_the_interval_has_no_upper_end():
    # The population crosses at the last checkpoint, so that about half of the runs have.
    suites = {"ladder": {64: {"crossing": 12_288_000 / ladder_rows.CROSSING[64]}}}
    rows = rows_of(study(suites, spread=0.01, seed=5))
    whole = rows[rows["run"] == "all"].iloc[0]
    assert 0 < whole["crossed_runs"] < 3
    assert whole["ci_low"] < 12_288_000 and np.isnan(whole["ci_high"])


def test_a_table_that_is_always_above_has_crossed_from_the_start():
    _, found, _, resampled = study({"ladder": {64: {}}})
    curve = of(found, "ladder", 64)
    above = curves.Curve(**vars(curve) | {"scores": curve.scores + 0.3})
    drawn = curves.compared(above, resampled)[:1]
    rows = crossings.rows(drawn, {"task": "T", "length": "64", "metric": "m"}, resampled)
    assert set(rows["status"]) == {FROM_THE_START} and (rows["tokens"] == 0).all()
    assert words.crossing_label(rows.iloc[0].to_dict()) == "0 [0, 0]"


def test_one_run_has_an_interval_over_queries_alone_and_says_one_run():
    rows = rows_of(study({"ladder": {64: {}}}, seeds=(7,)))
    whole = rows[rows["run"] == "all"].iloc[0]
    assert whole["runs"] == 1 and whole["ci_low"] < whole["tokens"] and whole["status"] == CROSSED
    assert "in one run" in words.study_sentence(rows) and "how far another run would differ" in words.study_sentence(
        rows
    )


def test_queries_of_one_cluster_give_no_interval():
    made, found, runs, _ = study({"ladder": {64: {}}})
    resampled = Resamples(np.zeros(len(made.scores)), resamples=50, seed=1)
    drawn = [row for curve in found["full"] for row in curves.compared(curve, resampled)]
    protocol = {"task": "T", "length": "64", "metric": "m"}
    assert curves.rows(drawn, protocol, resampled)["ci_low"].isna().all()
    assert crossings.rows(drawn, protocol, resampled)["ci_low"].isna().all()
    table = explanations.rows(explanations.Study(found, runs, resampled, MARGINS), files="f", command="c")
    assert set(table["verdict"]) == {"unresolved"}


def test_a_width_without_random_tables_is_refused():
    made, _, runs, _ = study({"ladder": {64: {}}})
    rest = some(made, made.keys["suite"] != "random")
    with pytest.raises(EmbscaleError, match=r"ladder-w64: no random tables of width 64 .*scores.random.dims"):
        curves.curves(rest, ladder_rows.tokens(runs))


def test_effects_of_variations_are_those_that_were_planted(ladder):
    _, found, runs, resampled = ladder
    table = effects.rows(found["full"], runs, resampled, MARGINS).set_index(["suite", "width", "quantity"])
    for width in ladder_rows.WIDTHS:
        tied = table.loc["ladder-tied", width]
        assert tied.loc[effects.LOSS, "effect"] == pytest.approx(0.15, abs=0.01)
        assert tied.loc[effects.LOSS, "verdict"] == "higher"
        expected = ladder_rows.less_random(width, 12_288_000, 2 * ladder_rows.CROSSING[width])
        expected -= ladder_rows.less_random(width, 12_288_000, ladder_rows.CROSSING[width])
        score = tied.loc[effects.SCORE]
        assert score["ci_low"] < expected < score["ci_high"] and score["verdict"].endswith("lower")
    # Twice the tokens: one doubling; the interval is over curves that vary together.
    tokens = table.loc["ladder-tied", 64].loc[effects.TOKENS]
    assert tokens["effect"] == pytest.approx(1, abs=0.3) and tokens["ci_low"] > 0
    # Nothing was planted.
    depth = table.loc["ladder-depth8", 64]
    assert depth.loc[effects.LOSS, "verdict"] == depth.loc[effects.SCORE, "verdict"] == "the same"
    assert abs(depth.loc[effects.TOKENS, "effect"]) < 0.3
    frozen = table.loc["ladder-frozen", 64].loc[effects.TOKENS]
    assert frozen["verdict"] == "not compared" and frozen["detail"] == "the variation: not before 12,288,000 tokens"
    base = table.loc["ladder"]
    assert base["effect"].isna().all() and base["level"].notna().all() and (base["verdict"] == "").all()


def test_an_effect_on_the_loss_is_the_paired_t_test_of_the_runs(ladder):
    _, found, runs, _ = ladder
    resampled = Resamples(np.arange(300) // 3, resamples=20_000, seed=1)
    table = effects.rows(found["full"], runs, resampled, MARGINS)
    row = table[(table["suite"] == "ladder-tied") & (table["width"] == 16) & (table["quantity"] == effects.LOSS)].iloc[
        0
    ]
    ours, theirs = (trained.losses(runs, f"{suite}-w16", (1, 2, 3), [12000])[0] for suite in ("ladder-tied", "ladder"))
    test = stats.ttest_rel(ours, theirs)
    assert row["effect"] == pytest.approx((ours - theirs).mean())
    interval = test.confidence_interval()
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high), rel=0.01)
    assert np.isnan(row["n"]) and row["runs"] == 3


def test_families_are_corrected_by_quantity(ladder):
    _, found, runs, resampled = ladder
    table = effects.rows(found["full"], runs, resampled, MARGINS)
    for _, family in table[table["p"].notna()].groupby("quantity"):
        assert (family["p_holm"] >= family["p"]).all()
        assert family["p_holm"].min() == pytest.approx(min(1, family["p"].min() * len(family)))


def test_a_variation_is_compared_with_the_seeds_and_steps_that_both_have():
    suites = {"ladder": {64: {}}, "ladder-tied": {64: {"loss": 0.15}}}
    made, _found, runs, resampled = study(suites)
    shorter = some(
        made, (made.keys["suite"] != "ladder-tied") | ((made.keys["run"] != 2) & (made.keys["step"] <= 4800))
    )
    table = effects.rows(curves.curves(shorter, ladder_rows.tokens(runs)), runs, resampled, MARGINS)
    tied = table[table["suite"] == "ladder-tied"]
    assert set(tied["runs"]) == {2} and set(tied["step"]) == {4800} and set(tied["against"]) == {"ladder"}


def test_unknown_draws_count_on_both_sides():
    draws = np.concatenate([[1.0], np.full(90, 1.0), np.full(10, np.nan)])
    found = effects.estimate(draws)
    assert (found.value, found.low, found.high) == (1.0, -np.inf, np.inf)
    assert found.p == pytest.approx(2 * 11 / 101)
    whole = effects.estimate(np.ones(101))
    assert (whole.low, whole.high, whole.p) == (1, 1, pytest.approx(2 / 101))


def told(ladder, **changes):
    _, found, runs, resampled = ladder
    table = explanations.rows(explanations.Study(found, runs, resampled, MARGINS), files="f", command="c")
    return table.set_index("prediction"), explanations.standing(table)


def test_a_ladder_that_dips_and_passes_random_tables_was_undertrained(ladder):
    table, standing = told(ladder)
    assert table.loc["rises", "verdict"] == table.loc["crosses", "verdict"] == "holds"
    assert standing["undertrained"] == "stands"
    # Freezing costs 0.4 nats of some 5.5.
    assert table.loc["cheap", "verdict"] == "fails" and table.loc["cheap", "effect"] == pytest.approx(0.4, abs=0.02)
    assert standing["needs it less"] == "does not stand"
    assert "at width 64 alone" in table.loc["cheaper when wide", "detail"]
    # Wide curves are lower at the loss that the narrowest reaches last.
    assert table.loc["equal loss", "verdict"] == "holds" and table.loc["equal loss", "effect"] < 0
    assert "max pooling" in table.loc["max pooling", "detail"]


def test_training_that_ends_early_leaves_the_explanation_unresolved():
    suites = {"ladder": {width: {} for width in ladder_rows.WIDTHS}}
    table, standing = told(study(suites, steps=(0, 25, 100, 400)))
    assert table.loc["crosses", "verdict"] == table.loc["rises", "verdict"] == "unresolved"
    assert "the loss still falls" in table.loc["crosses", "detail"] and standing["undertrained"] == "unresolved"


def test_training_that_has_ended_refutes_it_where_tables_stay_below(monkeypatch):
    monkeypatch.setattr(ladder_rows, "loss", lambda width, tokens, more=0.0: 3 + more + 6.0 * (tokens == 0))
    suites = {"ladder": {width: {"crossing": 10.0} for width in ladder_rows.WIDTHS}}
    table, standing = told(study(suites))
    assert table.loc["crosses", "verdict"] == "fails" and standing["undertrained"] == "does not stand"


@pytest.mark.parametrize(("idf", "verdict", "stands"), [(0.0, "fails", "does not stand"), (0.3, "holds", "stands")])
def test_another_way_of_scoring_turns_the_order_round_or_does_not(idf, verdict, stands):
    suites = {"ladder": {width: {"crossing": 10.0} for width in ladder_rows.WIDTHS}}
    table, standing = told(study(suites, idf=idf))
    assert table.loc["idf", "verdict"] == verdict and table.loc["unit", "verdict"] == "fails"
    assert standing["wrong metric"] == stands


def test_at_chance_there_is_no_verdict():
    made, found, runs, resampled = study({"ladder": {width: {} for width in ladder_rows.WIDTHS}})
    at_chance = {
        way: [curves.Curve(**vars(c) | {"chance": np.full(len(made.scores), 0.99)}) for c in own]
        for way, own in found.items()
    }
    table, _ = told((made, at_chance, runs, resampled))
    assert table.loc["crosses", "verdict"] == "unresolved" and "chance" in table.loc["crosses", "detail"]


def test_a_cheap_freeze_is_the_same_within_the_margin():
    suites = {"ladder": {64: {}}, "ladder-frozen": {64: {"crossing": np.inf, "loss": 0.01}}}
    table, _ = told(study(suites))
    assert table.loc["cheap", "verdict"] == "holds" and table.loc["cheap", "margin"].startswith("0.02 of the ")
    assert "1 widths, and a trend needs 3" in table.loc["equal loss", "detail"]


def test_a_power_law_is_found_and_predicts_the_end(monkeypatch):
    monkeypatch.setattr(
        ladder_rows,
        "loss",
        lambda width, tokens, more=0.0: 2.0 + (width / 64) ** -0.2 + 3.0 * (np.maximum(tokens, 1e4) / 1e6) ** -0.4,
    )
    _, found, runs, resampled = study({"ladder": {width: {} for width in ladder_rows.WIDTHS}})
    table, points = fits.fits(found["full"], runs, resampled)
    by_tokens = table[table["by"] == "tokens"]
    assert set(by_tokens["law"]) == {"power law with an offset"} and set(by_tokens["points"]) == {7}
    assert by_tokens["exponent"].to_numpy() == pytest.approx([0.4] * 4, abs=0.02)
    assert (by_tokens["exponent_low"] < 0.4).any() and (by_tokens["exponent_high"] > 0.4).any()
    assert by_tokens["offset"].to_numpy() == pytest.approx([2 + (w / 64) ** -0.2 for w in ladder_rows.WIDTHS], abs=0.06)
    assert (by_tokens["predicted"] - by_tokens["observed"]).abs().max() < 0.01
    assert (by_tokens["verdict"] == "predicted").sum() >= 3
    last = points[points["by"] == "tokens"].groupby("width").tail(1)
    assert not last["used"].any() and last["predicted_low"].notna().all()


def test_a_power_law_in_width_is_found_from_three_widths_and_the_fourth_predicted(monkeypatch):
    monkeypatch.setattr(ladder_rows, "loss", lambda width, tokens, more=0.0: 8 * width**-0.2 + 0 * tokens)
    _, found, runs, resampled = study({"ladder": {width: {} for width in ladder_rows.WIDTHS}})
    table, _ = fits.fits(found["full"], runs, resampled)
    row = table[(table["by"] == "width") & (table["quantity"] == fits.LOSS)].iloc[0]
    assert row["law"] == "power law" and row["points"] == 3 and row["held_out"] == 128
    assert row["exponent"] == pytest.approx(0.2, abs=0.01) and row["factor"] == pytest.approx(8, rel=0.05)
    assert row["predicted_low"] < 8 * 128**-0.2 < row["predicted_high"] and row["verdict"] == "predicted"


def test_a_law_that_does_not_hold_misses(monkeypatch):
    # A jump in the second half of the training, of which the first half knows nothing.
    monkeypatch.setattr(
        ladder_rows, "loss", lambda width, tokens, more=0.0: 3 + 3 * (1 + tokens / 1e5) ** -0.5 - (tokens > 7e6)
    )
    _, found, runs, resampled = study({"ladder": {64: {}}})
    table, _ = fits.fits(found["full"], runs, resampled)
    assert table.set_index("by").loc["tokens", "verdict"] == "missed"


def test_too_few_points_support_no_law():
    _, found, runs, resampled = study({"ladder": {16: {}, 32: {}}}, steps=(0, 25, 100, 400))
    table, points = fits.fits(found["full"], runs, resampled)
    assert set(table["verdict"]) == {"not supported"} and table["predicted"].isna().all()
    assert table["detail"].str.contains("points beside the one held out").all()
    assert points["fitted"].isna().all() and points["value"].notna().all()
    assert "2 are not supported by enough points" in words.fits_sentence(table)


def test_costs_are_summed_by_suite_and_width():
    table = costs.rows(ladder_rows.runs()).set_index(["suite", "width"])
    assert table.loc["ladder-tied", 32].to_dict() == {
        "runs": 3, "tokens": 3 * 12_288_000, "operations": 3 * 1e9 * 32 * 12000, "seconds": 96.0,
    }  # fmt: skip
    total = table.iloc[-1]
    assert total.name[0] == "total" and total["runs"] == 30 and total["tokens"] == 30 * 12_288_000
    assert words.costs_sentence(table.reset_index()).startswith("30 runs, 369 million tokens, 2.2 × 10¹⁶ floating")


def test_a_run_that_was_trained_further_counts_up_to_the_last_step_of_the_study(tmp_path):
    pd.DataFrame({"step": [0, 5, 10], "tokens": [0, 50, 100], "loss": 1.0, "heldout_loss": [9, None, 5]}).to_csv(
        tmp_path / "losses.csv"
    )
    values = {"steps": 40, "tokens": 400, "operations": 4000.0, "seconds": 20.0}
    (tmp_path / "costs.json").write_text(json.dumps(values))
    run = trained.read("ladder", 8, 2, tmp_path)
    assert run.cost == {"tokens": 100, "operations": 1000, "seconds": 5} and run.model == "ladder-w8"
    assert run.tokens == {0: 0, 10: 100} and run.loss == {0: 9, 10: 5}


def test_files_that_are_missing_or_damaged_are_named(tmp_path):
    with pytest.raises(EmbscaleError, match=r"losses.csv: no such file; make it with embscale train"):
        trained.read("ladder", 8, 1, tmp_path)
    pd.DataFrame({"step": [0], "tokens": [0], "heldout_loss": [9.0]}).to_csv(tmp_path / "losses.csv")
    (tmp_path / "costs.json").write_text("{}")
    with pytest.raises(EmbscaleError, match=r"costs.json is damaged"):
        trained.read("ladder", 8, 1, tmp_path)
    with pytest.raises(EmbscaleError, match="ladder-w8: no held-out loss of the seed or step 3"):
        trained.losses(ladder_rows.runs(), "ladder-w8", (3,), (0,))


MARGIN_FLAGS = ["--score-share", "0.1", "--loss-share", "0.02", "--tokens-factor", "1.25"]
ANSWERS = ("crossings", "effects", "explanations", "fits", "costs")
FLAGS = [
    *("--study", "small"),
    *("--tokenizer", "t", "--task", "T", "--metric", "ndcg_at_10", "--length", "64"),
    *("--bootstrap-resamples", "200", "--bootstrap-seed", "1", *MARGIN_FLAGS),
]
SMALL = {"ladder": {16: {}, 32: {}}, "ladder-tied": {32: {"loss": 0.15}}}


@pytest.mark.long
def test_the_command_writes_the_answers_and_their_tables(tmp_path):
    made, runs = ladder_rows.scored(SMALL, queries=60), ladder_rows.runs(SMALL)
    flags = ladder_rows.write(tmp_path, made, runs)
    for name in ("a", "b"):
        assert execute("ladder-answers", [*flags, *FLAGS, "-o", str(tmp_path / name)]) == 0
        answers = [str(tmp_path / name / f"{answer}.csv") for answer in ANSWERS]
        assert execute("ladder-tables", [*answers, "--tables", str(tmp_path / name)]) == 0
    files = sorted(path.name for path in (tmp_path / "a").iterdir() if not path.name.endswith("note.json"))
    assert len(files) == 12
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files
               if name != "explanations.csv")  # fmt: skip
    answers = {name: pd.read_csv(tmp_path / "a" / f"{name}.csv") for name in ANSWERS}
    assert set(answers["crossings"]["study"]) == {"small"}
    found = words.variables(answers, study="small", own=True)
    assert found["whose"].startswith("All of this section was computed here")
    recorded = words.variables(answers, study="small", own=False)["whose"]
    assert "recorded" in recorded and "make fetch STUDY=small" in recorded
    assert "and the variations tied" in found["study"] and found["costs"].startswith("9 runs, 111 million tokens")
    assert "held-out loss, higher with tied (width 32);" in found["effects"]
    assert "tied" in (tmp_path / "a" / "ladder_effects.md").read_text()


@pytest.mark.long
def test_scores_of_another_task_or_run_are_refused(tmp_path, capsys):
    flags = ladder_rows.write(tmp_path, ladder_rows.scored({"ladder": {16: {}}}, queries=30), [])
    runs = ladder_rows.runs({"ladder": {32: {}}})
    other = ladder_rows.write(tmp_path, ladder_rows.scored({"ladder": {16: {}}}, queries=30), runs)
    out = ["-o", str(tmp_path / "a")]
    assert flags == other[:1] and execute("ladder-answers", [*other, *FLAGS, *out]) == 1
    assert "no scores of the given runs" in capsys.readouterr().err
    assert execute("ladder-answers", [*other, *FLAGS, "--task", "U", *out]) == 1
    assert "no scores on U" in capsys.readouterr().err


def test_a_study_without_variations_says_what_it_cannot_tell():
    ladder = study({"ladder": {width: {} for width in ladder_rows.WIDTHS}}, steps=(0, 25, 100, 400))
    found = words.study_sentence(rows_of(ladder))
    assert "without variations: a slice of the deep ladder" in found
    assert "It cannot tell what tying" in found and "when tables pass random ones" in found
    _, curves_, runs, resampled = ladder
    table = effects.rows(curves_["full"], runs, resampled, MARGINS)
    assert "no variation" in words.effects_sentence(table) and "not run" in words.effects_table(table)
