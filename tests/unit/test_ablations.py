"""What is read from classifiers, against weights and data made for it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from layer_states import SETTINGS, everything, made, noise
from scipy import stats
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression

from embscale.errors import EmbscaleError
from embscale.layers import ablations
from embscale.layers.classifiers import Linear

SEEDS = (0, 1, 2)


def based(states, seeds=SEEDS, split="text"):
    return ablations.base(
        states, everything(states), SETTINGS, split=split, seeds=seeds, resamples=50, bootstrap_seed=0, name="a model"
    )


@pytest.fixture(scope="module")
def states():
    """Layers that differ in their means, most of all in dimensions 5 and 2; dimension 0 varies a hundred times more."""
    shifts = np.zeros((3, 1, 8))
    shifts[:, 0, 5], shifts[:, 0, 2] = (-2, 0, 2), (1, -1, 0)
    made_up = noise(3, 400, 8) + shifts + 0.1 * noise(3, 1, 8, seed=5)
    made_up[:, :, 0] = made_up[:, :, 0] * 100 + 50
    return made(made_up)


@pytest.fixture(scope="module")
def found(states):
    return based(states)


@pytest.fixture(scope="module")
def rows(found):
    return pd.concat(ablations.ablations(found, random_masks=4), ignore_index=True)


@pytest.fixture(scope="module")
def penalties(found):
    return pd.DataFrame(ablations.regularisation(found, inverse_regularisations=(1e-6, 1.0)))


def of(rows, **where):
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows


def with_weights(found, weights):
    layers, width = weights.shape
    model = Linear(weights.astype(float), np.zeros(layers), np.zeros(width), np.ones(width), True)
    fits = [replace(fit, fitted=replace(fit.fitted, model=model)) for fit in found.fits]
    return replace(found, fits=fits)


def test_shares_and_frequent_dimensions_by_hand():
    weights = np.array([[4.0, -3, 2, 1], [0, 1, -1, 0]])
    assert ablations.shares(weights).tolist() == [[40, 30, 20, 10], [0, 50, 50, 0]]
    wide = np.zeros((3, 20))
    wide[0, :8], wide[1, 4:12], wide[2, 4:8] = 1, 1, 1
    wide[2, [0, 15, 16, 17]] = 0.5, 9, 9, 9
    order = ablations.frequent(wide)
    assert order[:4].tolist() == [4, 5, 6, 7] and order[4] == 0
    assert ablations.sizes(1) == [1] and ablations.sizes(8) == [1, 2, 4, 8] and ablations.sizes(12) == [1, 2, 4, 8, 12]


def test_the_dimensions_that_tell_layers_apart_contribute_most(rows):
    top = of(rows, experiment="contribution", weights="standardised", seed="all", layer="block 2")
    assert top["dimension"].iloc[0] == 5 and top["value"].iloc[0] > 0  # 2 above the others
    assert (
        of(rows, experiment="contribution", weights="standardised", seed="all", layer="embedding")["value"].iloc[0] < 0
    )
    assert top["k"].tolist() == list(range(1, 9))
    one = of(rows, experiment="contribution", weights="raw", seed="1", layer="block 1")
    assert one["value"].abs().sum() == pytest.approx(100)
    # The dimension of largest variance says nothing and has the smallest weight as it is.
    raw = of(rows, experiment="contribution", weights="raw", seed="all", layer="block 2").set_index("dimension")[
        "value"
    ]
    assert abs(raw[0]) < 0.5 and abs(raw[0]) < abs(top.set_index("dimension")["value"][0])


def test_signs_and_cumulative_shares_by_hand(found):
    """One layer has one dimension alone, the second all alike, the third four."""
    weights = np.zeros((3, 8))
    weights[0, 3], weights[1], weights[2, :4] = -5, 1, (1, -1, 1, 1)
    handmade = with_weights(found, weights)
    made_up = pd.DataFrame(ablations.cumulative(handmade))
    whole = of(made_up, choice="largest", weights="raw", seed="all")
    for share, expected in ((50, [1, 4, 2]), (90, [1, 8, 4])):
        assert of(whole, metric=f"dimensions_for_{share}_percent")["value"].tolist() == expected
    curve = of(whole, metric="percent", layer="block 1")
    np.testing.assert_allclose(curve["value"], curve["k"] / 8 * 100)
    signs = of(pd.DataFrame(ablations.contributions(handmade)), experiment="sign", weights="raw", seed="all")
    assert signs["value"].tolist() == [0, 1, 3 / 8]


def test_weights_of_a_normal_distribution_need_as_many_dimensions_as_the_half_normal_says(found):
    """Half of the mass of |x| lies beyond the point where exp(-t^2/2) is a half: 2(1 - Phi(t)) of them."""
    width = 2000
    drawn = pd.DataFrame(ablations.cumulative(with_weights(found, np.ones((3, width)))))
    random = of(drawn, choice="random", seed="all")
    for share in (50, 90):
        expected = 2 * stats.norm.sf(np.sqrt(-2 * np.log(share / 100))) * width
        assert of(random, metric=f"dimensions_for_{share}_percent")["value"].mean() == pytest.approx(expected, rel=0.02)


def test_a_mask_is_the_classifier_on_vectors_with_these_dimensions_replaced(found, rows):
    """Against the whole classifier, run on vectors that were changed by hand."""
    for fill in ("zero", "mean"):
        for i, seed in enumerate(SEEDS):
            model, test = found.models[i], found.tests[i]
            features, labels = test.whole()
            masked = ablations.frequent(model.weights)[:2]
            features[:, masked] = 0 if fill == "zero" else model.mean[masked]
            right = (model.predict_proba(features).argmax(axis=1) == labels).mean()
            keys = {"experiment": "mask", "choice": "frequent", "weights": "standardised", "k": 2, "fill": fill}
            row = of(rows, **keys, seed=str(seed), metric="accuracy")
            assert row["value"].item() == pytest.approx(right) and row["n"].item() == len(labels)


def test_masks_of_what_matters_hurt_and_masks_of_outliers_do_not(rows):
    change = of(rows, experiment="mask", metric="accuracy_change", seed="all", fill="mean", refit=False)
    frequent = of(change, choice="frequent", weights="standardised", k=2)["value"].item()
    outlier, random = (of(change, choice=choice, k=1) for choice in ("outlier", "random"))
    assert frequent < -0.2 and abs(outlier["value"].item()) < 0.01
    assert frequent < of(change, choice="random", k=2)["value"].item() < 0
    assert random["n"].item() == 4 * outlier["n"].item()
    assert of(rows, experiment="mask", choice="none", metric="accuracy_change")["value"].tolist() == [0] * 4


def test_a_refit_is_a_classifier_of_the_remaining_dimensions(found, rows):
    keys = {"experiment": "mask", "choice": "outlier", "k": 4, "refit": True, "metric": "accuracy"}
    for i, seed in enumerate(SEEDS):
        model = found.models[i]
        kept = np.setdiff1d(np.arange(8), np.argsort(-model.scale)[:4])
        (train, labels), (test, true) = found.trains[i].whole(), found.tests[i].whole()
        mean, scale = train.mean(axis=0), train.std(axis=0)
        again = LogisticRegression(max_iter=1000).fit(((train - mean) / scale)[:, kept], labels)
        expected = (again.predict(((test - mean) / scale)[:, kept]) == true).mean()
        assert of(rows, **keys, seed=str(seed))["value"].item() == pytest.approx(expected, abs=0.011)


def test_prefixes_end_at_the_whole_classifier(found, rows):
    whole = np.mean([(fit.true == fit.predicted).mean() for fit in found.fits])
    prefix = of(rows, experiment="prefix", seed="all", metric="accuracy")
    for choice in ("first", "random"):
        curve = of(prefix, choice=choice).set_index("k")["value"]
        assert curve.index.tolist() == [1, 2, 4, 8] and curve[8] == pytest.approx(whole)
    first = of(prefix, choice="first").set_index("k")["value"]
    assert first[2] == pytest.approx(1 / 3, abs=0.08) and first[2] < first[4] - 0.1  # dimension 2 is the third


def test_overlap_of_seeds_by_hand(found):
    weights = np.ones((3, 8)) * np.arange(8, 0, -1)
    same = with_weights(found, weights)
    made_up = pd.DataFrame(ablations.stability(same))
    assert (of(made_up, choice="frequent")["value"] == 1).all() and (of(made_up, choice="frequent")["n"] == 3).all()
    assert of(made_up, choice="random").set_index("k")["value"].to_dict() == {1: 1 / 8, 2: 2 / 8, 4: 4 / 8}
    turned = with_weights(found, weights[:, ::-1])
    mixed = replace(same, fits=[same.fits[0], same.fits[1], turned.fits[2]])
    row = of(pd.DataFrame(ablations.stability(mixed)), choice="frequent", weights="raw", k=4).iloc[0]
    assert row["value"] == pytest.approx(1 / 3)
    assert np.isnan([row["ci_low"], row["ci_high"]]).all() and row["n"] == 3  # pairs of splits of the same texts
    lone = replace(same, fits=same.fits[:1], seeds=SEEDS[:1])
    assert np.isnan(of(pd.DataFrame(ablations.stability(lone)), choice="frequent")["value"]).all()


def test_inner_folds_that_cannot_be_made_are_reported_before_the_first_fit():
    """Two texts divide once, and what is left to train on does not divide again."""
    states = made(noise(3, 40, 4), texts=2)
    with pytest.raises(EmbscaleError, match="split by text: 1 groups do not divide"):
        ablations.check_splits(states, everything(states), SETTINGS, split="text", seeds=[1])
    ablations.check_splits(states, everything(states), SETTINGS, split="vector", seeds=[1])


def test_positions_are_distinguished():
    """At the first two places the layers are alike."""
    data = noise(3, 400, 3) + 10 * np.arange(3)[:, None, None]
    states = made(data)
    first = states.position < 2
    data[:, first] = noise(3, int(first.sum()), 3, seed=3)
    found = based(made(data))
    rows = pd.DataFrame(ablations.positions(found, ablations.BUCKET))
    buckets = of(rows, seed="all").set_index("positions")
    assert buckets.index.tolist() == ["0", "1", "2 to 3", "4 to 7", "8 to 15", "16 to 19"]
    assert (buckets.loc[["0", "1"], "value"] < 0.6).all() and (buckets.loc["2 to 3":, "value"] > 0.95).all()
    assert buckets["n"].sum() == sum(len(fit.true) for fit in found.fits)
    (whole,) = (r for r in ablations.first_position(found, ablations.WITH_FIRST) if r["seed"] == "all")
    assert whole["value"] == pytest.approx((buckets["value"] * buckets["n"]).sum() / buckets["n"].sum())


def test_the_loss_of_an_exchanged_dimension_is_scikit_learns(found):
    """On the same vectors, within the noise of a few permutations."""

    class Wrapped:
        def fit(self, features, labels):
            return self

    model, test = found.models[0], found.tests[0]
    whole = replace(test, chunk=len(test.states.text))
    features, labels = test.whole()
    ours = np.mean([ablations.permuted_loss(model, whole, seed=seed) for seed in range(30)], axis=0)
    theirs = permutation_importance(
        Wrapped(),
        features,
        labels,
        scoring=lambda _, some, true: (model.predict_proba(some).argmax(axis=1) == true).mean(),
        n_repeats=30,
        random_state=0,
    )
    np.testing.assert_allclose(ours, theirs.importances_mean, atol=0.02)
    assert ours.argmax() == 5 and ours[5] > 0.2
    blind = replace(model, weights=np.where(np.arange(8) == 5, 0.0, model.weights))
    assert ablations.permuted_loss(blind, whole, seed=0)[5] == 0


def test_important_dimensions_are_those_whose_exchange_costs_most(rows):
    lost = of(rows, experiment="importance", metric="accuracy_change").set_index("dimension")["value"]
    assert lost.sort_values().index[:2].tolist() == [5, 2] and len(lost) == 8 and abs(lost[0]) < 0.01
    percent = of(rows, experiment="importance", metric="percent", weights="standardised").set_index("dimension")
    assert percent["value"].sum() == pytest.approx(100)
    ranks = of(rows, experiment="importance", metric="rank_correlation", weights="standardised")
    assert ranks["seed"].tolist() == ["0", "1", "2", "all"] and (ranks["value"] > 0.3).all()
    change = of(rows, experiment="mask", metric="accuracy_change", seed="all", fill="mean", refit=False, k=2)
    means = change.groupby("choice")["value"].mean()
    assert means["important"] < means["random"] < 0


def test_the_accuracy_of_each_penalty_is_that_of_a_classifier_fitted_with_it(found, penalties):
    for i, seed in enumerate(SEEDS):
        (train, labels), (test, true) = found.trains[i].whole(), found.tests[i].whole()
        mean, scale = train.mean(axis=0), train.std(axis=0)
        model = LogisticRegression(C=1.0, max_iter=1000).fit((train - mean) / scale, labels)
        right = (model.predict((test - mean) / scale) == true).mean()
        row = of(penalties, choice="given", inverse_regularisation=1.0, seed=str(seed), metric="accuracy")
        assert row["value"].item() == pytest.approx(right, abs=0.01)


def test_each_training_set_chooses_the_penalty_that_serves_it(penalties):
    """A penalty so strong that all weights vanish is never chosen, and nothing of the tested texts chooses."""
    chosen = of(penalties, choice="cross_validated", metric="inverse_regularisation")
    assert chosen["value"].tolist() == [1.0] * len(SEEDS)
    whole = of(penalties, metric="accuracy", seed="all")
    given = of(whole, choice="given", inverse_regularisation=1.0)["value"].item()
    assert of(whole, choice="cross_validated")["value"].item() == given
    assert of(penalties, metric="converged")["value"].tolist() == [1.0, 1.0]
