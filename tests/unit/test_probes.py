"""Conditions, metrics and controls on data whose answer is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from layer_states import SETTINGS, everything, made, noise
from scipy import stats

from embscale.errors import EmbscaleError
from embscale.layers import classifiers, examples, probes
from embscale.layers.classifiers import CLASSIFIERS, Fitted
from embscale.layers.probes import Condition, Fit

LINEAR = Condition("logistic_regression", "text", "raw", "none")


def fits(states, seeds=(0,), settings=SETTINGS, **changes):
    return probes.run(states, everything(states), LINEAR._replace(**changes), settings, seeds=seeds, name="a model")


def accuracy(states, seed=0, **changes):
    (fit,) = fits(states, (seed,), **changes)
    return (fit.true == fit.predicted).mean()


def values(fits, layers, seeds=(0,), **options):
    rows = probes.classifier_rows(fits, seeds, layers, **{"resamples": 50, "seed": 0} | options)
    return rows[(rows["seed"] == "all") & rows["layer"].isna()].set_index("metric")["value"]


def test_layers_far_apart_are_all_distinguished():
    states = noise(3, 200, 4) + 20 * np.arange(3)[:, None, None]
    assert accuracy(made(states)) == 1


def test_similar_layers_are_distinguished_by_chance_only():
    correct = [accuracy(made(noise(4, 400, 4, seed)), seed=seed) for seed in range(4)]
    assert np.mean(correct) == pytest.approx(0.25, abs=0.05)


def test_two_gaussians_reach_the_bayes_rate():
    shift = 1.5
    states = noise(2, 4000, 3)
    states[1, :, 0] += shift
    assert accuracy(made(states)) == pytest.approx(stats.norm.cdf(shift / 2), abs=0.025)


def test_a_split_by_vector_leaks_what_a_split_by_text_does_not():
    """Each text has a sign of its own, which tells the layers of that text apart and of no other."""
    generator = np.random.default_rng(0)
    own = np.repeat(generator.normal(size=(20, 60)), 20, axis=0) * 3
    states = made(np.stack([own, -own]) + noise(2, 400, 60) * 0.1)
    assert accuracy(states, split="vector") > 0.95
    assert accuracy(states, split="text") < 0.75


def test_every_split_input_and_control_is_seen_once_beside_one_run():
    conditions = probes.conditions(CLASSIFIERS, examples.SPLITS, examples.INPUTS, tuple(examples.EXPECTED))
    assert len(set(conditions)) == len(conditions)
    linear = [c for c in conditions if c.classifier == "logistic_regression"]
    assert {c for c in linear if c.control == "none" and c.input == "raw"} == {
        LINEAR._replace(split=split) for split in examples.SPLITS
    }
    assert {c.control for c in linear} == {"none", *examples.EXPECTED}
    assert {c.input for c in linear} == set(examples.INPUTS) - {"z_scored"}
    assert {(c.split, c.input) for c in conditions if c.classifier == "sgd"} == {
        ("vector", "raw"), ("vector", "unit"), ("vector", "z_scored")
    }  # fmt: skip
    assert {c.classifier for c in conditions} == set(CLASSIFIERS)
    for condition in conditions:
        if condition.with_means is not None:
            assert conditions.index(condition.with_means) < conditions.index(condition)
    assert probes.conditions(["lda"], ["token"], ["raw"], []) == [Condition("lda", "token", "raw", "none")]


def checked(states, names, splits=("text",), **changes):
    conditions = probes.conditions(names, splits, ["raw"], [])
    probes.check(states, everything(states), conditions, replace(SETTINGS, **changes), seeds=(0, 1))


def test_what_a_later_condition_lacks_is_reported_before_the_first_fit():
    states = made(noise(2, 400, 3))
    checked(states, CLASSIFIERS, examples.SPLITS)
    with pytest.raises(EmbscaleError, match=r"^decision_tree: 7\.2e-06 GB of training vectors must be in memory"):
        checked(states, CLASSIFIERS, memory_gb=7e-6)
    checked(states, CLASSIFIERS, memory_gb=7.3e-6)
    checked(states, [name for name in CLASSIFIERS if name != "decision_tree"], memory_gb=7e-6)
    one_token = replace(states, token=np.zeros(400, dtype=int))
    checked(one_token, ["logistic_regression"])
    with pytest.raises(EmbscaleError, match=r"^split by token: 1 groups do not divide"):
        checked(one_token, ["logistic_regression"], ["text", "token"])


def test_sgd_has_the_studys_share_of_vectors_to_test():
    (fit,) = fits(made(noise(2, 400, 3)), classifier="sgd", split="vector")
    assert (len(fit.true), fit.n_train) == (160, 640)


def test_rows_agree_with_the_predictions_and_scipys_interval():
    states = made(noise(2, 400, 3) + np.arange(2)[:, None, None] * 0.8, texts=400)
    found = fits(states, (0, 1))
    rows = probes.classifier_rows(found[:1], [0], states.layers, resamples=4000, seed=0)
    row = rows[(rows["metric"] == "accuracy") & (rows["seed"] == "0")].iloc[0]
    correct = (found[0].true == found[0].predicted).astype(float)
    assert row["value"] == pytest.approx(correct.mean()) and row["n"] == len(correct)
    per_text = [correct[found[0].text == text].mean() for text in np.unique(found[0].text)]
    interval = stats.bootstrap(
        (per_text,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high), abs=0.01)
    together = probes.classifier_rows(found, [0, 1], states.layers, resamples=50, seed=0)
    means = together[(together["metric"] == "accuracy")].set_index("seed")["value"]
    assert means["all"] == pytest.approx((means["0"] + means["1"]) / 2)
    chance_corrected = rows[rows["metric"] == "chance_corrected_accuracy"]["value"].iloc[0]
    assert chance_corrected == pytest.approx((row["value"] - 0.5) / 0.5)


def by_hand(true, predicted, confidence=None):
    count = len(true)
    confidence = np.full(count, 0.5) if confidence is None else np.array(confidence)
    return Fit(
        true=np.array(true), predicted=np.array(predicted), confidence=confidence, log_loss=-np.log(confidence),
        text=np.arange(count), position=np.zeros(count, int), n_train=10, fitted=Fitted(None),
    )  # fmt: skip


def test_metrics_by_hand():
    fit = by_hand([0, 1, 2, 3], [0, 2, 2, 0])
    found = values([fit], ["a", "b", "c", "d"])
    assert found["accuracy"] == 0.5 and found["chance_corrected_accuracy"] == pytest.approx(1 / 3)
    assert found["mean_absolute_layer_error"] == 1 and found["within_one_accuracy"] == 0.75
    assert found["log_loss"] == pytest.approx(np.log(2))


def test_calibration_is_that_of_guo():
    """The loop of their equation 3, bins open below and closed above."""
    generator = np.random.default_rng(0)
    confidence = generator.uniform(0.2, 1, 500)
    confidence[:3] = (3 / 15, 1.0, 0.4)
    right = generator.random(500) < confidence**2
    error = 0.0
    for i in range(15):
        here = (confidence > i / 15) & (confidence <= (i + 1) / 15)
        if here.any():
            error += here.mean() * abs(right[here].mean() - confidence[here].mean())
    fit = by_hand(np.zeros(500, int), np.where(right, 0, 1), confidence)
    fit = replace(fit, true=np.r_[fit.true[:-1], 1], predicted=np.r_[fit.predicted[:-1], 1 if right[-1] else 0])
    assert values([fit], ["a", "b"])["expected_calibration_error"] == pytest.approx(error)


def test_a_classifier_without_probabilities_has_no_calibration():
    states = made(noise(2, 200, 3))
    found = values(fits(states, classifier="nearest_centroid"), states.classes)
    assert np.isnan(found["expected_calibration_error"]) and np.isnan(found["log_loss"])
    assert 0.3 < found["accuracy"] < 0.7


def test_confusion_counts_every_tested_vector_by_seed():
    states = made(noise(3, 200, 4))
    found = fits(states, (5, 6))
    counts = probes.confusion(found, (5, 6), states.classes)
    assert len(counts) == 2 * 9 and counts["count"].sum() == sum(len(fit.true) for fit in found)
    cell = counts[
        (counts["seed"] == 6) & (counts["true_layer"] == "block 2") & (counts["predicted_layer"] == "block 1")
    ]
    assert cell["count"].item() == ((found[1].true == 2) & (found[1].predicted == 1)).sum()


def test_controls_come_out_as_was_written_down():
    """The predictions of `EXPECTED`, on layers whose means and norms differ, with many vectors per dimension."""
    states = made(noise(4, 3000, 8) * 1.5 ** np.arange(4)[:, None, None] + noise(4, 1, 8, seed=1) * 3)
    by_norm = accuracy(states, classifier="norm_only")
    assert accuracy(states) > 0.8 and 0.4 < by_norm < 0.7
    for control, expected in examples.EXPECTED.items():
        found = fits(states, control=control)
        right = values(found, states.classes)
        if expected == "chance":
            assert right["accuracy"] < 0.3 and right["log_loss"] > np.log(4) - 0.002
        elif expected == "high":
            assert right["accuracy"] > 0.75
        else:
            assert right["accuracy"] == pytest.approx(by_norm, abs=0.08)


def test_without_their_means_layers_are_beyond_a_linear_classifier_but_not_beyond_a_tree():
    states = made(noise(3, 2000, 4) * 3.0 ** np.arange(3)[:, None, None] + 4 * np.arange(3)[:, None, None])
    linear, tree = (
        [fits(states, (0, 1), classifier=name, input=shown) for shown in ("raw", "mean_removed")]
        for name in ("logistic_regression", "decision_tree")
    )
    assert [(fit.true == fit.predicted).mean() for fit in linear[1]] == pytest.approx([1 / 3, 1 / 3], abs=0.02)
    share = {
        name: probes.mean_shift_share(*both, (0, 1), states.classes, resamples=200, seed=0).set_index("seed")
        for name, both in (("linear", linear), ("tree", tree))
    }
    assert share["linear"].loc["all", "value"] == pytest.approx(1, abs=0.03)
    raw, without = (np.mean([(f.true == f.predicted).mean() for f in some]) - 1 / 3 for some in tree)
    row = share["tree"].loc["all"]
    assert row["value"] == pytest.approx(1 - without / raw) and 0 < row["ci_low"] < row["value"] < row["ci_high"] < 1
    assert set(share["tree"].index) == {"0", "1", "all"}


def test_what_has_not_converged_is_flagged_and_reported(capsys, monkeypatch):
    monkeypatch.setattr(classifiers, "ITERATIONS", 1)
    states = made(noise(2, 200, 3) + np.arange(2)[:, None, None])
    rows = probes.classifier_rows(fits(states, (3,)), (3,), states.classes, resamples=10, seed=0)
    assert not rows["converged"].any()
    assert "a model, logistic_regression text raw none, seed 3: not converged" in capsys.readouterr().err


def test_rows_of_several_kinds_share_columns_and_counts_stay_whole():
    table = probes.concat_rows(
        [pd.DataFrame({"n": [3], "k": [2]}), pd.DataFrame({"n": [4]}), pd.DataFrame()], ["k", "n"]
    )
    assert table.to_csv(index=False) == "k,n\n2,3\n,4\n"
    assert probes.concat_rows([], ["a"]).to_csv(index=False) == "a\n"
