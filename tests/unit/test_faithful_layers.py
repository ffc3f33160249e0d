"""The second study's classifiers, repeated run by run: which vectors they see, and what is known of the outcome."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from layer_states import SETTINGS, everything, made, noise

from embscale.claims import faithful_layers
from embscale.claims.faithful_layers import Way
from embscale.cli import execute
from embscale.layers import hidden_states
from embscale.layers.examples import Examples

RUN = {
    "suite": "gpt2", "model": "gpt2", "trained_on": "imdb", "texts": "imdb", "tokens": 4, "texts_count": 16,
    "n_layers": 3, "input": "raw", "control": "none", "masked": "", "value": 0.9, "source": "grid",
}  # fmt: skip
FAITHFUL, CORRECTED = WAYS = Way.both(replace(SETTINGS, epochs=60), seed=3, first_position=1)


def printed(*runs):
    return pd.DataFrame([RUN | run for run in runs])


def shifted(width=8, shift=3.0, texts=20, vectors=100, **how):
    """States of three layers whose means differ along the first three dimensions."""
    states = noise(3, vectors, width)
    for layer in range(3):
        states[layer, :, layer] += shift
    return made(states, texts=texts, **how)


def repeated(runs, sources, ways=WAYS):
    found = faithful_layers.repeatable(runs, "gpt2", sources)
    rows = faithful_layers.rows(found, sources, ways, resamples=50, seed=1, report=lambda words: None)
    return pd.DataFrame(rows)


def test_both_ways_tell_separate_layers_apart_and_noise_not():
    rows = repeated(printed({}), {"imdb": shifted(shift=8.0)}).set_index("way")
    assert (rows["value"] > 0.95).all() and rows["converged"].tolist() == [False, True]
    rows = repeated(printed({}), {"imdb": made(noise(3, 400, 8), texts=20)})
    assert (rows["value"] - 1 / 3).abs().max() < 0.15 and (rows["ci_low"] <= rows["value"]).all()


def test_the_faithful_way_has_all_positions_and_splits_vectors_and_the_corrected_one_texts():
    states = shifted()
    run = RUN | {"texts_count": 16, "tokens": 4}
    used = faithful_layers._used(FAITHFUL, states, run)
    assert set(states.position[used]) == {0, 1, 2, 3} and used.sum() == 64
    assert set(states.position[faithful_layers._used(CORRECTED, states, run)]) == {1, 2, 3}
    for way, apart in ((FAITHFUL, False), (CORRECTED, True)):
        train, test = (set(states.text[part.any(axis=0)]) for part in way.split(states, used))
        assert train.isdisjoint(test) == apart
    train, test = FAITHFUL.split(states, used)
    # A token's states at different layers lie on either side: 80 to 20 over all vectors of all layers.
    assert test.sum() == pytest.approx(0.2 * 3 * 64, abs=1) and (train & test).sum() == 0
    assert (test.any(axis=0) & train.any(axis=0)).any()


def test_on_the_pile_the_input_of_the_first_block_is_no_class_of_the_authors():
    pile = {"trained_on": "pile", "texts": "pile", "n_layers": 2}
    rows = repeated(printed(pile), {"pile": shifted()}).set_index("way")
    assert rows.loc["faithful", "n"] == round(0.2 * 2 * 64 + 0.5)
    assert (
        rows.loc["corrected", "n"] == 3 * 3 * 16 * SETTINGS.test_fraction
    )  # three layers, positions 1 to 3, four texts
    assert FAITHFUL.classes(shifted(), 2).classes == ("block 1", "block 2")


def test_one_mean_and_one_deviation_standardise_all_values_whatever_their_column():
    states = shifted(shift=50.0)
    examples = Examples(states, np.broadcast_to(everything(states), (3, 100)), 7)
    features, labels = examples.whole()
    scaled = faithful_layers.standardised_by_one_number(examples)(features, labels, labels)
    assert scaled.mean() == pytest.approx(0, abs=1e-5) and scaled.std() == pytest.approx(1, abs=1e-5)
    assert np.corrcoef(scaled.ravel(), features.ravel())[0, 1] == pytest.approx(1)
    assert scaled.dtype == np.float32


def test_masks_and_other_texts_are_tests_of_the_same_classifier():
    sources = {"imdb": shifted(shift=8.0), "ag_news": made(noise(3, 100, 8, seed=5), texts=20, ids="news")}
    runs = printed({}, {"masked": "0 1 2"}, {"masked": "5"}, {"texts": "ag_news"})
    rows = repeated(runs, sources)
    assert len(rows) == 8
    for way in ("faithful", "corrected"):
        found = rows[rows["way"] == way].set_index(["texts", "masked"])["value"]
        assert found["imdb", ""] > 0.95 and abs(found["imdb", ""] - found["imdb", "5"]) < 0.05
        # Without the dimensions in which they differ, and on texts without any difference, it guesses.
        assert found["imdb", "0 1 2"] < 0.6 and found["ag_news", ""] < 0.6


def test_random_vectors_of_the_layers_lengths_are_told_apart_by_length_at_most():
    rows = repeated(printed({"control": "study_random"}), {"imdb": shifted(shift=8.0)})
    assert (rows["value"] < 0.7).all() and set(rows["control"]) == {"study_random"}


def test_runs_that_need_more_texts_longer_texts_or_other_layers_are_left_out():
    runs = printed({}, {"texts_count": 21}, {"tokens": 6}, {"n_layers": 13}, {"texts": "pile"}, {"model": "gpt2-xl"})
    assert faithful_layers.repeatable(runs, "gpt2", {"imdb": shifted()}).index.tolist() == [0]


def test_a_run_repeats_to_the_bit():
    first, second = (repeated(printed({}), {"imdb": shifted()}) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("blocks", [12, 3])
def test_the_command_writes_a_row_for_each_published_run_and_way(tmp_path, blocks):
    states = made(noise(blocks + 1, 120, 6), texts=10)
    hidden_states.save(tmp_path / "states.safetensors", states)
    flags = {
        "--states": f"imdb={tmp_path / 'states.safetensors'}", "--epochs": 2, "--seeds": 1, "--test-fraction": 0.25,
        "--inverse-regularisation": 1, "--memory-gb": 1, "--chunk": 100, "--device": "cpu", "--first-position": 1,
        "--bootstrap-resamples": 20, "--bootstrap-seed": 1, "--suite": "gpt2", "--model": "gpt2", "--step": "main",
        "--output": tmp_path / "rows.csv",
    }  # fmt: skip
    assert execute("faithful-layers", [str(word) for pair in flags.items() for word in pair]) == 0
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows) == faithful_layers.COLUMNS
    # Of GPT-2 ten texts of ten tokens were published; a model of three blocks has no such run.
    assert rows[["way", "tokens", "texts_count"]].to_numpy().tolist() == (
        [["faithful", 10, 10], ["corrected", 10, 10]] if blocks == 12 else []
    )


def test_states_without_a_name_are_refused(tmp_path, capsys):
    flags = ["--states", "states.safetensors", "--epochs", "2", "--seeds", "1", "--test-fraction", "0.25"]
    flags += ["--inverse-regularisation", "1", "--memory-gb", "1", "--chunk", "9", "--device", "cpu"]
    flags += ["--first-position", "1", "--bootstrap-resamples", "9", "--bootstrap-seed", "1", "--suite", "gpt2"]
    flags += ["--model", "gpt2", "--step", "main", "--output", str(tmp_path / "rows.csv")]
    assert execute("faithful-layers", flags) == 1
    assert "expected TEXTS=STATES.safetensors" in capsys.readouterr().err
