"""Layer classifiers on data whose answer is known."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from embscale import probes
from embscale.errors import EmbscaleError
from embscale.hidden_states import HiddenStates

OPTIONS = {"test_fraction": 0.25, "inverse_regularisation": 1.0}


def made(states, *, texts=20, layers=None):
    count, vectors, _ = states.shape
    per_text = vectors // texts
    names = layers or ("embedding", *(f"block {i}" for i in range(1, count)))
    return HiddenStates(
        arrays=dict(zip(names, states.astype(np.float32), strict=True)),
        text=np.repeat(np.arange(texts), per_text),
        position=np.tile(np.arange(per_text), texts),
        token=np.arange(vectors) % 7,
    )


def noise(layers, vectors, width, seed=0):
    return np.random.default_rng(seed).normal(size=(layers, vectors, width))


def accuracy(states, split="text", seed=0):
    fit = probes.fit(states, split=split, seed=seed, **OPTIONS)
    return (fit.true == fit.predicted).mean()


def test_layers_far_apart_are_all_told():
    states = noise(3, 200, 4) + 20 * np.arange(3)[:, None, None]
    assert accuracy(made(states)) == 1


def test_layers_alike_are_told_by_chance_only():
    correct = [accuracy(made(noise(4, 400, 4, seed)), seed=seed) for seed in range(4)]
    assert np.mean(correct) == pytest.approx(0.25, abs=0.05)


def test_two_gaussians_reach_the_bayes_rate():
    shift = 1.5
    states = noise(2, 4000, 3)
    states[1, :, 0] += shift
    assert accuracy(made(states)) == pytest.approx(stats.norm.cdf(shift / 2), abs=0.025)


@pytest.mark.parametrize("split", ["text", "token"])
def test_no_group_lies_on_both_sides(split):
    """A group that is tested is tested whole, in every layer, so nothing of it is left to train on."""
    states = made(noise(2, 140, 3))
    groups = getattr(states, split)
    # The fit reports the text of each tested vector: let it stand for the group.
    fit = probes.fit(dataclasses.replace(states, text=groups, token=groups), split=split, seed=0, **OPTIONS)
    for group in np.unique(fit.text):
        assert (fit.text == group).sum() == 2 * (groups == group).sum()
    assert 0 < len(np.unique(fit.text)) < len(np.unique(groups))
    assert fit.n_train + len(fit.true) == 2 * 140


def test_a_split_by_vector_leaks_what_a_split_by_text_does_not():
    """Each text has a sign of its own, which tells the layers of that text apart and of no other."""
    generator = np.random.default_rng(0)
    own = np.repeat(generator.normal(size=(20, 60)), 20, axis=0) * 3
    states = made(np.stack([own, -own]) + noise(2, 400, 60) * 0.1)
    assert accuracy(states, "vector") > 0.95
    assert accuracy(states, "text") < 0.75


def test_a_side_without_a_layer_is_told():
    states = made(noise(3, 3, 2), texts=3)
    with pytest.raises(EmbscaleError, match="has no vector of"):
        for seed in range(20):
            probes.fit(states, split="vector", seed=seed, test_fraction=0.2, inverse_regularisation=1.0)


def test_rows_agree_with_the_predictions_and_scipys_interval():
    states = made(noise(2, 400, 3) + np.arange(2)[:, None, None] * 0.8, texts=400)
    fits = [probes.fit(states, split="text", seed=seed, **OPTIONS) for seed in (0, 1)]
    rows = probes.rows(fits[:1], [0], states.layers, resamples=4000, seed=0)
    row = rows[(rows["metric"] == "accuracy") & (rows["seed"] == "0")].iloc[0]
    correct = (fits[0].true == fits[0].predicted).astype(float)
    assert row["value"] == pytest.approx(correct.mean()) and row["n"] == len(correct)
    per_text = [correct[fits[0].text == text].mean() for text in np.unique(fits[0].text)]
    interval = stats.bootstrap(
        (per_text,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high), abs=0.01)
    together = probes.rows(fits, [0, 1], states.layers, resamples=50, seed=0)
    means = together[(together["metric"] == "accuracy")].set_index("seed")["value"]
    assert means["all"] == pytest.approx((means["0"] + means["1"]) / 2)
    chance_corrected = rows[rows["metric"] == "chance_corrected_accuracy"]["value"].iloc[0]
    assert chance_corrected == pytest.approx((row["value"] - 0.5) / 0.5)


def test_confusion_counts_every_tested_vector():
    states = made(noise(3, 200, 4))
    fit = probes.fit(states, split="text", seed=0, **OPTIONS)
    counts = probes.confusion([fit], states.layers)
    assert counts["count"].sum() == len(fit.true)
    right = counts[counts["true_layer"] == counts["predicted_layer"]]["count"].sum()
    assert right == (fit.true == fit.predicted).sum()
