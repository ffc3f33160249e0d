"""What classifiers are shown: parts, forms and random vectors."""

import numpy as np
import pytest
import torch
from layer_states import everything, made, noise
from sklearn.preprocessing import StandardScaler

from embscale.errors import EmbscaleError
from embscale.layers import examples
from embscale.layers.examples import Examples


def all_examples(states, part=None, chunk=30):
    every = np.ones((len(states.classes), len(states.text)), dtype=bool)
    return Examples(states, every if part is None else part, chunk)


@pytest.mark.parametrize("split", ["text", "token"])
def test_no_group_lies_on_both_sides(split):
    states = made(noise(2, 140, 3))
    used = states.position > 0
    train, test = examples.train_test_split(states, used, split=split, test_fraction=0.25, seed=0)
    groups = getattr(states, split)
    assert not np.intersect1d(groups[train.any(axis=0)], groups[test.any(axis=0)]).size
    assert ((train | test) == used).all() and not (train & test).any() and test.any()


def test_a_split_by_vector_parts_the_layers_of_a_token():
    states = made(noise(3, 200, 3))
    train, test = examples.train_test_split(states, everything(states), split="vector", test_fraction=0.2, seed=0)
    assert (train ^ test).all() and test.sum() == 120
    assert (train.any(axis=0) & test.any(axis=0)).sum() > 50


def test_too_little_to_divide_is_reported():
    states = made(noise(2, 10, 3), texts=1)
    with pytest.raises(EmbscaleError, match=r"split by text: 1 groups do not divide into 0\.25"):
        examples.train_test_split(states, everything(states), split="text", test_fraction=0.25, seed=0)


def test_a_side_without_a_layer_is_reported():
    states = made(noise(3, 3, 2), texts=3)
    with pytest.raises(EmbscaleError, match="has no vector of"):
        for seed in range(20):
            examples.train_test_split(states, everything(states), split="vector", test_fraction=0.2, seed=seed)


def test_examples_are_the_same_whatever_the_chunk():
    states = made(noise(3, 100, 4))
    part = np.random.default_rng(0).random((3, 100)) < 0.4
    features, labels = all_examples(states, part, chunk=7).whole()
    whole = states.take(states.classes, np.arange(100))
    np.testing.assert_array_equal(features, whole[part])
    np.testing.assert_array_equal(labels, np.nonzero(part)[0])
    np.testing.assert_array_equal(all_examples(states, part, chunk=1000).whole()[0], features)
    np.testing.assert_array_equal(all_examples(states, part).of_each(states.text), states.text[np.nonzero(part)[1]])


def test_thinning_keeps_so_many_of_each_layer_and_the_same_where_it_can():
    part = np.zeros((3, 100), dtype=bool)
    part[:, :50] = True
    kept = examples.thinned(part, 20, seed=1)
    assert (kept.sum(axis=1) == 20).all() and (kept[0] == kept[2]).all() and not kept[:, 50:].any()
    part[0, :10] = False
    assert (examples.thinned(part, 20, seed=1).sum(axis=1) == 20).all()
    assert (examples.thinned(part, 20, seed=2) != kept).any()
    with pytest.raises(EmbscaleError, match="41 training vectors a layer are wanted, but a layer has 40"):
        examples.thinned(part, 41, seed=1)


def shown(name, states, part=None):
    train = all_examples(states, part)
    prepare = examples.prepared(name, train)
    return Examples(states, train.part, 30, prepare).whole()[0]


def test_inputs_agree_with_torch_scikit_learn_and_definitions():
    states = made(noise(3, 80, 6) * [[[1]], [[5]], [[0.1]]] + 2)
    raw = shown("raw", states)
    np.testing.assert_allclose(np.linalg.norm(shown("unit", states), axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(
        shown("layer_normed", states), torch.nn.functional.layer_norm(torch.from_numpy(raw), (6,)), atol=1e-4
    )
    np.testing.assert_allclose(shown("z_scored", states), StandardScaler().fit_transform(raw), atol=1e-4)
    removed = shown("mean_removed", states).reshape(3, 80, 6)
    np.testing.assert_allclose(removed.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(removed - removed[:, :1], (d := raw.reshape(3, 80, 6)) - d[:, :1], atol=1e-4)


def test_a_vector_of_zeros_has_no_direction():
    states = made(np.zeros((2, 20, 3)))
    assert not shown("unit", states).any()


def drawn(states, name, seed=1, chunk=30):
    return examples.control(states, everything(states), name, seed=seed, chunk=chunk)


def test_controls_keep_what_they_say_and_nothing_else():
    generator = np.random.default_rng(0)
    states = made(noise(2, 4000, 5) * generator.uniform(0.5, 2, 5) + generator.normal(size=(2, 1, 5)) * 3)
    true = states.take(states.classes, np.arange(4000))
    lengths = np.sort(np.linalg.norm(true, axis=2), axis=1)
    for name in ("scalar_norm", "study_random"):
        random = drawn(states, name).take(states.classes, np.arange(4000))
        found = np.linalg.norm(random, axis=2)
        for layer in range(2):
            nearest = lengths[layer][np.searchsorted(lengths[layer], found[layer] * (1 - 1e-5)).clip(max=3999)]
            np.testing.assert_allclose(found[layer], nearest, rtol=1e-4)
        np.testing.assert_allclose(np.quantile(found, 0.5, axis=1), np.quantile(lengths, 0.5, axis=1), rtol=0.05)
        mean = (random / found[..., None]).mean(axis=1)
        if name == "study_random":
            assert (random >= 0).all() and (mean > 0.3).all()
        else:
            np.testing.assert_allclose(mean, 0, atol=0.03)
    random = drawn(states, "gaussian").take(states.classes, np.arange(4000))
    np.testing.assert_allclose(random.mean(axis=1), true.mean(axis=1), atol=0.2)
    np.testing.assert_allclose(random.std(axis=1), true.std(axis=1), rtol=0.05)
    off_diagonal = np.corrcoef(random[0].T)[np.triu_indices(5, 1)]
    np.testing.assert_allclose(off_diagonal, 0, atol=0.06)


def test_random_vectors_do_not_depend_on_how_they_are_read():
    states = made(noise(2, 3000, 4) + 1)
    for name in examples.EXPECTED:
        whole = drawn(states, name).take(states.classes, np.arange(3000))
        some = np.array([2999, 3, 1500, 1023, 1024])
        np.testing.assert_array_equal(drawn(states, name).take(states.classes, some), whole[:, some])
        held = examples.load_if_fits(drawn(states, name), memory_gb=1)
        np.testing.assert_array_equal(held.take(held.classes, some), whole[:, some])
        assert (drawn(states, name, seed=2).take(states.classes, some) != whole[:, some]).any()
        assert (whole[0, :1000] != whole[0, 1024:2024]).any()


def test_positions_beyond_the_end_leave_nothing():
    states = made(noise(2, 20, 3), texts=2)
    assert examples.mask_from(states, first_position=1).sum() == 18
    with pytest.raises(EmbscaleError, match="first position 10: the states end at position 9"):
        examples.mask_from(states, first_position=10)
