"""The grid and the transfer matrix on data whose answer is known."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from layer_states import SETTINGS, everything, made, noise

from embscale.errors import EmbscaleError
from embscale.layers import designs, examples, probes
from embscale.layers.probes import Condition


def grid(states, **changes):
    options = {"classifier": "logistic_regression", "split": "text", "windows": [2, 8], "counts": [10, 30]}
    options |= {"seeds": (0, 1), "name": "a model"} | changes
    return list(designs.grid(states, everything(states), SETTINGS, **options))


@pytest.fixture(scope="module")
def states():
    return made(noise(3, 320, 4) + np.arange(3)[:, None, None], texts=40)


def test_a_cell_is_a_run_of_its_own_on_the_first_texts_and_tokens(states):
    cells = {(c.tokens, c.texts_count, c.design): c.fits for c in grid(states)}
    assert len(cells) == 8
    used = (states.position < 8) & (states.text < 30)
    condition = Condition("logistic_regression", "text", "raw", "none")
    expected = probes.run(states, used, condition, SETTINGS, seeds=(0, 1), name="")
    for found, fit in zip(cells[8, 30, "as_published"], expected, strict=True):
        np.testing.assert_array_equal(found.predicted, fit.predicted)
        np.testing.assert_array_equal(found.text, fit.text)
        assert found.text.max() < 30


def test_the_matched_design_trains_on_as_much_as_the_shortest_window_and_tests_on_all(states):
    cells = {(c.tokens, c.texts_count, c.design): c.fits[0] for c in grid(states)}
    for count in (10, 30):
        shortest = cells[2, count, "as_published"].n_train
        assert cells[2, count, "matched"].n_train == cells[8, count, "matched"].n_train == shortest
        assert cells[8, count, "as_published"].n_train == 4 * shortest
        assert len(cells[8, count, "matched"].true) == len(cells[8, count, "as_published"].true)


def test_the_study_s_own_grid_splits_by_vector(states):
    cell = grid(states, classifier="sgd", windows=[4], counts=[40])[0]
    assert (cell.condition.classifier, cell.condition.split) == ("sgd", "vector")
    assert len(cell.fits[0].true) == 3 * 160 / 5


def test_more_than_there_is_is_reported(states):
    with pytest.raises(EmbscaleError, match="50 texts are wanted, but the states are of 40"):
        grid(states, counts=[10, 50])
    with pytest.raises(EmbscaleError, match="a window of 9 tokens is wanted, but the states are of 8"):
        grid(states, windows=[9])
    with pytest.raises(EmbscaleError, match="a window of 1 tokens is empty: the vectors used begin at position 1"):
        list(
            designs.grid(
                states, states.position > 0, SETTINGS, classifier="sgd", split="text", windows=[1], counts=[5],
                seeds=(0,), name="",
            )
        )  # fmt: skip


@pytest.fixture
def no_fits(monkeypatch):
    monkeypatch.setattr(designs, "fitted", lambda *given, **options: pytest.fail("a classifier was fitted"))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**5))


def test_what_a_later_cell_lacks_is_reported_before_the_first_is_fitted(states, no_fits, monkeypatch):
    lonely = replace(states, text=np.where(states.text < 30, 0, states.text))
    with pytest.raises(EmbscaleError, match="split by text: 1 groups do not divide"):
        designs.grid(
            lonely, everything(lonely), SETTINGS, classifier="logistic_regression", split="text", windows=[8],
            counts=[11, 1], seeds=(0,), name="",
        )  # fmt: skip
    # The larger cell needs 115 kB, the smaller less than there is.
    monkeypatch.setattr("test_layer_designs.SETTINGS", replace(SETTINGS, memory_gb=1e-6))
    states = made(noise(3, 3200, 4), texts=400)
    with pytest.raises(EmbscaleError, match="training vectors that do not fit into memory are to be written"):
        grid(states, counts=[10, 400], windows=[8])


def test_a_mixture_too_large_for_the_disk_is_reported_before_the_first_fit(no_fits, monkeypatch):
    monkeypatch.setattr("test_layer_designs.SETTINGS", replace(SETTINGS, memory_gb=1e-6))
    sources = {name: made(noise(3, 4000, 4), texts=400, ids=name) for name in "ab"}
    with pytest.raises(EmbscaleError, match="training vectors that do not fit into memory are to be written"):
        transfer(sources)


def moved(shift, ids, seed):
    """Layers that differ along the first dimension, all of them moved along it with the source."""
    states = noise(3, 400, 3, seed) * 0.3
    states[:, :, 0] += 3 * np.arange(3)[:, None] + shift
    return made(states, ids=ids)


def transfer(sources, **changes):
    options = {"first_position": 0, "seeds": (0, 1), "name": "a model"} | changes
    cells = designs.transfer(sources, SETTINGS, **options)
    return {(c.trained_on, c.tested_on): c.fits for c in cells}


def test_a_classifier_does_not_transfer_to_texts_in_another_region_and_a_mixture_helps():
    cells = transfer({"a": moved(0, "a", 1), "b": moved(3, "b", 2)})
    assert set(cells) == {(trained, tested) for trained in ("a", "b", "mixed") for tested in ("a", "b")}
    right = {key: np.mean([(f.true == f.predicted).mean() for f in fits]) for key, fits in cells.items()}
    assert right["a", "a"] > 0.95 and right["b", "b"] > 0.95
    # One layer further along: all but the last are taken for the next.
    assert right["a", "b"] == pytest.approx(1 / 3, abs=0.03) and right["b", "a"] == pytest.approx(1 / 3, abs=0.03)
    assert right["mixed", "a"] > 0.5 and right["mixed", "b"] > 0.5
    assert len({fits[0].n_train for fits in cells.values()}) == 1
    assert all(len(fits) == 2 for fits in cells.values())


def test_a_source_tested_on_itself_is_a_run_of_its_own():
    """Two sources of the same texts: what one has held out, the other has held out too."""
    sources = {"with": moved(0, "a", 1), "without": moved(3, "a", 2)}
    cells = transfer(sources, seeds=(4,))
    expected = probes.run(
        sources["with"], everything(sources["with"]), Condition("logistic_regression", "text", "raw", "none"),
        SETTINGS, seeds=(4,), name="",
    )  # fmt: skip
    np.testing.assert_array_equal(cells["with", "with"][0].text, expected[0].text)
    np.testing.assert_array_equal(cells["with", "with"][0].predicted, expected[0].predicted)
    np.testing.assert_array_equal(cells["without", "with"][0].text, cells["mixed", "without"][0].text)


def test_joined_states_are_those_of_the_sources():
    a, b = moved(0, "a", 1), moved(3, "a", 2)
    b = replace(b, metadata={"text_ids": ["a-19", *(f"b-{i}" for i in range(19))]})
    states, source = designs.joined({"a": a, "b": b})
    some = np.array([799, 0, 400, 399, 401])
    taken = states.take(states.classes, some)
    np.testing.assert_array_equal(taken[:, [1, 3]], a.take(a.classes, np.array([0, 399])))
    np.testing.assert_array_equal(taken[:, [2, 4, 0]], b.take(b.classes, np.array([0, 1, 399])))
    assert source[some].tolist() == [1, 0, 1, 0, 1]
    assert states.text[400] == states.text[399] == 19 and states.text[799] == 38
    held = examples.load_if_fits(states, memory_gb=1)
    np.testing.assert_array_equal(held.take(held.classes, some), taken)


def test_states_of_another_model_or_of_unknown_texts_are_refused():
    a = moved(0, "a", 1)
    with pytest.raises(EmbscaleError, match="b: 2 layers of width 3, but a has 3 of width 3"):
        transfer({"a": a, "b": made(noise(2, 400, 3))})
    with pytest.raises(EmbscaleError, match="b: the states do not tell the ids of their texts"):
        transfer({"a": a, "b": replace(a, metadata={})})
    with pytest.raises(EmbscaleError, match="b, seed 0: no text is left to train or to test on"):
        transfer({"a": a, "b": made(noise(3, 10, 3), texts=1, ids="b")})
