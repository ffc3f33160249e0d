"""Classifiers against scikit-learn, torch and closed forms."""

import shutil
import tempfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from layer_states import SETTINGS, everything, made, noise
from scipy import special, stats
from scipy.spatial.distance import cdist
from sklearn import metrics
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from embscale.errors import EmbscaleError
from embscale.layers import classifiers, examples
from embscale.layers.classifiers import Linear
from embscale.layers.examples import Examples


def sides(states, split="text", seed=0):
    parts = examples.train_test_split(states, everything(states), split=split, test_fraction=0.25, seed=seed)
    return [Examples(states, part, SETTINGS.chunk) for part in parts]


def overlapping(layers=4, vectors=400, width=6):
    """Layers that cannot be told apart without errors, in dimensions of very different scale."""
    generator = np.random.default_rng(1)
    shifts = generator.normal(size=(layers, 1, width))
    mixing = generator.normal(size=(width, width)) * 10.0 ** np.arange(-2, width - 2)
    return made((noise(layers, vectors, width) + shifts) @ mixing + 3)


@pytest.fixture(scope="module", params=[2, 4])
def fitted(request):
    train, test = sides(overlapping(request.param))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=5000, tol=1e-6))
    features, labels = train.whole()
    pipeline.fit(features.astype(np.float64), labels)
    return train, test, pipeline


def tight(**changes):
    return replace(SETTINGS, inverse_regularisation=0.5, **changes)


@pytest.mark.parametrize("memory_gb", [1.0, 0.0], ids=["in memory", "from a file"])
def test_the_optimum_is_scikit_learns(fitted, memory_gb, monkeypatch):
    monkeypatch.setattr(classifiers, "TOLERANCE", 1e-5)
    train, test, pipeline = fitted
    model = classifiers.logistic_regression(train, tight(memory_gb=memory_gb))
    assert model.converged
    np.testing.assert_allclose(model.mean, pipeline[0].mean_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.scale, pipeline[0].scale_, rtol=1e-5)
    expected = pipeline[-1].coef_
    found = model.weights if len(expected) > 1 else model.weights[1:] - model.weights[:1]
    np.testing.assert_allclose(found, expected, atol=5e-3)
    features, _ = test.whole()
    np.testing.assert_allclose(model.predict_proba(features), pipeline.predict_proba(features), atol=2e-3)
    np.testing.assert_allclose(model.weights.sum(axis=0), 0, atol=1e-4)


def decaying(tokens=800, width=48, layers=4):
    """Layers that each add to the last, with a spectrum that falls over three orders of magnitude, in mixed columns."""
    generator = np.random.default_rng(2)
    spectrum = np.geomspace(1, 1e-3, width)
    axes = np.linalg.qr(generator.normal(size=(width, width)))[0]
    steps = generator.normal(size=(layers, tokens, width)) * generator.lognormal(size=(layers, tokens, 1))
    shifts = 0.3 * generator.normal(size=(layers, 1, width))
    return made(np.cumsum((steps + shifts) * spectrum, axis=0) @ axes)


def test_ill_conditioned_vectors_take_far_fewer_steps_than_scikit_learn_to_a_lower_loss(monkeypatch):
    train, test = sides(decaying())
    gradients = []
    inner = classifiers.CrossEntropy.__call__
    monkeypatch.setattr(classifiers.CrossEntropy, "__call__", lambda *a: gradients.append(1) or inner(*a))
    ours = classifiers.logistic_regression(train, tight())
    features, labels = train.whole()
    pipelines = [
        make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=20000, tol=tolerance))
        for tolerance in (1e-4, 1e-7)
    ]
    losses = []
    for pipeline in pipelines:
        regression = pipeline.fit(features.astype(np.float64), labels)[-1]
        model = replace(ours, weights=regression.coef_, intercepts=regression.intercept_)
        losses.append(objective(pipeline, train, model)[0])
    usual, best = losses
    assert ours.converged and len(gradients) < pipelines[0][-1].n_iter_[0] / 2
    assert best - 1e-6 < (found := objective(pipelines[1], train, ours)[0]) < best + 3e-4 and found < usual
    features, _ = test.whole()
    assert (ours.predict_proba(features).argmax(axis=1) == pipelines[1].predict(features)).mean() > 0.99


def test_a_column_that_never_changes_gets_no_weight():
    states = decaying(layers=3)
    for array in states.arrays.values():
        array[:, 5] = 1e4 / 3
    model = classifiers.logistic_regression(sides(states)[0], SETTINGS)
    assert model.converged and model.scale[5] == 1
    np.testing.assert_allclose(model.weights[:, 5], 0, atol=1e-12)


def objective(pipeline, train, model):
    """What all fits minimise, in float64, and the least curvature of its penalty."""
    features, labels = train.whole()
    standardised = pipeline[0].transform(features.astype(np.float64))
    logits = standardised @ model.weights.T + model.intercepts
    loss = metrics.log_loss(labels, special.softmax(logits, axis=1))
    # Of two classes the penalty is of the difference of their weights, which is twice each.
    curvature = (2 if len(model.weights) == 2 else 1) / (0.5 * len(labels))
    return loss + curvature * (model.weights**2).sum() / 2, curvature


@pytest.mark.parametrize("memory_gb", [1.0, 0.0])
@pytest.mark.parametrize("split_of_start", [0, 1], ids=["same", "other"])
def test_a_start_saves_steps_and_changes_nothing(fitted, split_of_start, memory_gb, monkeypatch):
    train, _, pipeline = fitted
    settings = tight(memory_gb=memory_gb)

    def fit(start, steps=classifiers.ITERATIONS):
        monkeypatch.setattr(classifiers, "ITERATIONS", steps)
        return classifiers.logistic_regression(train, settings, start=start)

    similar, _ = sides(train.states, seed=split_of_start)
    start = classifiers.logistic_regression(similar, settings)
    needed = next(steps for steps in range(1, 100) if fit(start, steps).converged)
    assert not fit(None, needed).converged
    # The optimum, from scikit-learn in float64 with a far smaller tolerance.
    weights, intercepts = pipeline[-1].coef_, pipeline[-1].intercept_
    if len(weights) == 1:
        weights, intercepts = (np.concatenate([-half, half]) for half in (weights / 2, intercepts / 2))
    best, curvature = objective(pipeline, train, replace(start, weights=weights, intercepts=intercepts))
    # No entry of the gradient is above the tolerance: so far at most is a convex function above its least value.
    allowed = (weights.size + intercepts.size) * classifiers.TOLERANCE**2 / (2 * curvature)
    assert allowed < 1e-4
    for model in (fit(None), fit(start)):
        assert model.converged
        assert objective(pipeline, train, model)[0] - best == pytest.approx(0, abs=allowed)


def test_raw_weights_are_the_same_function():
    train, test = sides(overlapping())
    model = classifiers.logistic_regression(train, SETTINGS)
    features, _ = test.whole()
    offset = model.intercepts - model.raw_weights @ model.mean
    np.testing.assert_allclose(features @ model.raw_weights.T + offset, model.logits(features), rtol=1e-3, atol=1e-3)


def test_sgd_is_torchs_own():
    """Against torch.nn and torch.optim, the way the study does it."""
    states = made(noise(3, 1000, 5) + np.arange(3)[:, None, None])
    train, test = sides(states, "vector")
    found = classifiers.sgd(train, test, SETTINGS, seed=7)
    features, labels = (torch.from_numpy(array) for array in train.whole())
    torch.manual_seed(7)
    model = torch.nn.Linear(5, 3)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    generator, losses = torch.Generator().manual_seed(7), []
    for _ in range(SETTINGS.epochs):
        for places in torch.randperm(len(features), generator=generator).split(1024):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(features[places]), labels[places])
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    np.testing.assert_allclose(found.model.weights, model.weight.detach(), atol=1e-5)
    np.testing.assert_allclose(found.model.intercepts, model.bias.detach(), atol=1e-5)
    np.testing.assert_allclose(found.curves["train_loss_last_batch"], losses, rtol=1e-5)
    right = metrics.accuracy_score(test.whole()[1], found.model.predict_proba(test.whole()[0]).argmax(axis=1))
    assert found.curves["test_accuracy"].iloc[-1] == pytest.approx(right)
    assert found.curves["epoch"].tolist() == [1, 2, 3] and not found.converged


def test_sgd_leaves_the_global_seed_alone():
    states = made(noise(2, 100, 3))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    classifiers.sgd(*sides(states), SETTINGS, seed=1)
    assert torch.rand(1) == expected


def predictions(classifier, states, seed=0):
    train, test = (classifiers.select_features(classifier, side) for side in sides(states, seed=seed))
    fit = classifiers.fit(classifier, train, test, SETTINGS, seed=0)
    return classifiers.predict(fit.model, test), np.nonzero(test.part)[0], train, test


def test_the_nearest_centroid_by_hand():
    found, _, train, test = predictions("nearest_centroid", overlapping())
    features, labels = train.whole()
    centroids = [features[labels == layer].mean(axis=0, dtype=np.float64) for layer in range(4)]
    expected = cdist(test.whole()[0].astype(np.float64), centroids).argmin(axis=1)
    assert (found["predicted"] == expected).mean() > 0.999  # float32 may turn a tie
    assert np.isnan(found["confidence"]).all() and np.isnan(found["log_loss"]).all()


def test_the_nearest_centroid_is_scikit_learns():
    found, _, train, test = predictions("nearest_centroid", decaying())
    expected = NearestCentroid(priors="uniform").fit(*train.whole()).predict(test.whole()[0])
    assert (found["predicted"] == expected).mean() > 0.999  # float32 may turn a tie


@pytest.mark.parametrize("states", [overlapping(), decaying(), overlapping(2)], ids=["scales", "spectrum", "two"])
def test_lda_from_sums_is_scikit_learns(states):
    found, _, train, test = predictions("lda", states)
    features, labels = train.whole()
    expected = LinearDiscriminantAnalysis(solver="lsqr").fit(features.astype(np.float64), labels)
    probabilities = expected.predict_proba(test.whole()[0].astype(np.float64))
    assert (found["predicted"] == probabilities.argmax(axis=1)).mean() > 0.999
    np.testing.assert_allclose(found["confidence"], probabilities.max(axis=1), atol=1e-3)


def test_lda_reaches_the_bayes_rate_of_two_gaussians():
    """Equal covariances, Mahalanobis distance 2: Phi(1) (Hastie et al. 2009, section 4.3)."""
    mixing = np.array([[1.0, 0.9], [0, 0.3]])
    states = noise(2, 8000, 2) @ mixing
    states[1] += np.array([2.0, 0]) @ mixing
    found, true, *_ = predictions("lda", made(states))
    assert (found["predicted"] == true).mean() == pytest.approx(stats.norm.cdf(1), abs=0.02)


def test_a_tree_tells_what_lines_cannot():
    states = noise(2, 2000, 2)
    flipped = states[1, :, 0] * states[1, :, 1] > 0
    states[1, flipped, 0] *= -1
    other = states[0, :, 0] * states[0, :, 1] < 0
    states[0, other, 0] *= -1
    tree, true, *_ = predictions("decision_tree", made(states))
    line, *_ = predictions("logistic_regression", made(states))
    assert (tree["predicted"] == true).mean() > 0.9 > 0.6 > (line["predicted"] == true).mean()


def test_the_length_alone_tells_bands_apart():
    """Layer 0 is both shorter and longer than layer 1."""
    directions = noise(2, 600, 5)
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    lengths = np.stack([np.tile([1.0, 3.0], 300), np.full(600, 2.0)])
    found, true, *_ = predictions("norm_only", made(directions * lengths[..., None]))
    assert (found["predicted"] == true).all()


def test_the_position_alone_and_the_most_frequent_layer_say_nothing():
    states = made(noise(4, 400, 3) + 10 * np.arange(4)[:, None, None])
    for classifier in ("position_only", "majority"):
        found, true, *_ = predictions(classifier, states)
        assert (found["predicted"] == true).mean() == 0.25
        np.testing.assert_allclose(found["log_loss"], np.log(4), rtol=1e-5)


def test_probabilities_are_scored_as_scikit_learn_does():
    found, true, train, test = predictions("logistic_regression", overlapping())
    model = classifiers.logistic_regression(train, SETTINGS)
    probabilities = model.predict_proba(test.whole()[0])
    assert found["log_loss"].mean() == pytest.approx(metrics.log_loss(true, probabilities), rel=1e-4)
    np.testing.assert_allclose(found["confidence"], probabilities.max(axis=1), rtol=1e-4)
    certain = Linear(np.array([[100.0], [-100.0]]), np.zeros(2), np.zeros(1), np.ones(1), True)
    states = made(np.ones((2, 20, 1)))
    loss = classifiers.predict(certain, sides(states)[1])["log_loss"]
    assert loss.max() == pytest.approx(-np.log(np.finfo(np.float32).eps))


@pytest.mark.parametrize("classifier", [c for c in classifiers.CLASSIFIERS if c not in classifiers.AT_ONCE])
def test_what_does_not_fit_into_memory_is_read_from_disk_with_the_same_result(classifier):
    states = overlapping()
    fits = []
    for memory_gb in (1.0, 1e-9):
        train, test = (classifiers.select_features(classifier, side) for side in sides(states))
        settings = replace(SETTINGS, memory_gb=memory_gb)
        fits.append(classifiers.predict(classifiers.fit(classifier, train, test, settings, seed=0).model, test))
    for name in fits[0]:
        np.testing.assert_array_equal(fits[0][name], fits[1][name])


def test_the_temporary_file_is_gone_with_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    train, _ = sides(overlapping())
    features, labels = train.whole(memory_gb=0)
    assert isinstance(features, np.memmap) and not list(tmp_path.iterdir())
    for expected, found in zip(train.whole(), (features, labels), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_can_be_read_neither_at_once_nor_from_disk_is_refused_with_numbers(monkeypatch):
    states = overlapping()
    train, test = sides(states)
    small = replace(SETTINGS, memory_gb=1e-6)
    with pytest.raises(EmbscaleError, match=r"decision_tree: 2\.88e-05 GB .* --memory-gb allows 1e-06; raise it"):
        classifiers.fit("decision_tree", train, test, small, seed=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    for classifier in ("logistic_regression", "sgd"):
        with pytest.raises(EmbscaleError, match=r"0\.0 GB are free, but .* set TMPDIR to a larger disk"):
            classifiers.fit(classifier, train, test, small, seed=0)
    assert classifiers.fit("lda", train, test, small, seed=0).converged
