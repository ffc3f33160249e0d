"""Lengths, subspaces, kernels and means of layers, against formulas, invariants and other people's code."""

import numpy as np
import pandas as pd
import pytest
from geometry_states import layer_names, made, noise
from scipy import linalg, stats
from sklearn.neighbors import NearestNeighbors

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.layers import geometry, hidden_states
from embscale.layers.names import FINAL_NORM
from embscale.statistics import jackknife, spectra

OPTIONS = {"first_position": 0, "vectors": 200, "groups": 10, "dimensions": 3, "neighbours": 5, "seed": 0}
DRAWN = {"resamples": 500, "seed": 0}


def measured(states, **options):
    rows = geometry.structure(states, **OPTIONS | options)
    return rows.set_index(["quantity", "scaling", "layer_a", "layer_b"])


# Jackknife and spectra


def test_the_jackknife_of_a_mean_is_students_interval():
    values = np.random.default_rng(0).normal(size=30)
    sums = jackknife.left_out(values) / jackknife.left_out(np.ones(30))
    low, high = jackknife.interval(sums)
    expected = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    assert (low, high) == pytest.approx(expected)


def test_groups_hold_whole_texts_and_are_balanced():
    text = np.repeat(np.arange(23), 4)
    group = jackknife.text_groups(text, groups=5, seed=1)
    assert all(len(set(group[text == t])) == 1 for t in range(23))
    sizes = np.bincount(group) / 4
    assert len(sizes) == 5 and sizes.max() - sizes.min() <= 1
    assert jackknife.text_groups(text[:8], groups=5, seed=1).max() == 1
    with pytest.raises(EmbscaleError, match="1 texts in 5 groups"):
        jackknife.text_groups(text[:4], groups=5, seed=1)


def test_measures_of_spread_in_closed_form():
    flat, one = np.ones(7), np.array([5.0, 0, 0])
    assert spectra.effective_rank(flat) == pytest.approx(7) and spectra.participation_ratio(flat) == pytest.approx(7)
    assert spectra.effective_rank(one) == pytest.approx(1) and spectra.participation_ratio(one) == pytest.approx(1)
    values = np.array([9.0, 4.0, 1.0])
    assert spectra.effective_rank(values) == pytest.approx(np.exp(stats.entropy([3, 2, 1])))
    assert spectra.participation_ratio(values) == pytest.approx(14**2 / 98)
    assert np.isnan(spectra.effective_rank(np.zeros(3)))


@pytest.mark.parametrize(("vectors", "width"), [(2000, 50), (300, 300), (60, 400)])
def test_what_chance_gives_is_what_gaussian_vectors_have(vectors, width):
    x = np.random.default_rng(0).normal(size=(vectors, width))
    eigenvalues = np.linalg.svd(x, compute_uv=False) ** 2
    expected = spectra.isotropic(vectors, width)
    assert spectra.effective_rank(eigenvalues) == pytest.approx(expected["effective_rank"], rel=0.02)
    ratio = spectra.participation_ratio(eigenvalues)
    assert ratio == pytest.approx(expected["participation_ratio"], rel=0.02)
    assert ratio == pytest.approx(vectors * width / (vectors + width), rel=0.02)


# Lengths


def growing(layers, vectors, factor, width=6):
    """Layers whose vectors are of lengths factor ** layer, up to a few percent that differ by vector."""
    direction = noise(layers, vectors, width)
    direction /= np.linalg.norm(direction, axis=2, keepdims=True)
    length = np.exp(np.random.default_rng(1).normal(size=(1, vectors, 1)) * 0.05)
    return direction * length * factor ** np.arange(layers)[:, None, None]


def test_norms_by_hand():
    values = np.zeros((3, 2, 2))
    values[0] = [[3, 4], [0, 1]]
    states = made(values + 1e-9, texts=2, names=("embedding", "block 1", FINAL_NORM), first_position=1)
    rows = geometry.norms(states, **DRAWN)
    first = rows.iloc[0]
    assert (first["min"], first["mean"], first["max"], first["n"]) == pytest.approx((1, 3, 5, 2))
    assert rows["after_final_norm"].tolist() == [False, False, True]
    assert rows["positions"].unique().tolist() == ["after_first"] and rows["growth"].isna().all()


def test_growth_is_found_with_an_interval_and_without_the_first_position():
    values = growing(5, 200, 1.5)
    values[3:, ::10] *= 100  # the first position of each text
    rows = geometry.norms(made(values), **DRAWN)
    by = rows[rows["layer"] == "block 1"].set_index("positions")
    assert by.loc["after_first", "growth"] == pytest.approx(1.5, rel=1e-6)
    assert by.loc["all", "growth"] > 3
    assert by.loc["all", "growth_low"] <= by.loc["all", "growth"] <= by.loc["all", "growth_high"]
    assert (rows["mean_low"] < rows["mean"]).all() and (rows["mean"] < rows["mean_high"]).all()


def test_exponential_and_linear_growth_are_distinguished():
    def better(values):
        rows = geometry.norm_structure(made(values), **DRAWN).set_index(["quantity", "positions"])
        return rows.loc[("exponential_less_linear", "after_first")]

    exponential = better(growing(6, 100, 2.0))
    assert exponential["ci_low"] > 0
    linear = better(growing(6, 100, 1.0) * np.arange(1, 7)[:, None, None])
    assert linear["ci_high"] < 0
    lengths = 2.0 ** np.arange(1, 6)
    expected = 1 - np.corrcoef(np.arange(5), lengths)[0, 1] ** 2
    assert exponential["value"] == pytest.approx(expected, abs=1e-5)


def test_states_without_the_first_position_say_so():
    rows = geometry.norm_structure(made(growing(4, 100, 2.0), first_position=1), **DRAWN)
    missing = rows[(rows["quantity"] == "growth_rate") & rows["value"].isna()]
    assert missing["positions"].tolist() == ["all"] and "first position" in missing["reason"].iloc[0]
    ratio = rows[rows["quantity"] == "last_length_ratio"].iloc[0]
    assert (ratio["layer_a"], ratio["layer_b"]) == ("block 2", "block 3")
    assert ratio["value"] == pytest.approx(2, rel=1e-5)


def test_overlap_of_lengths_is_that_of_the_distributions():
    """Of two normal distributions d standard deviations apart: 2 Phi(-d / 2) (Inman and Bradley 1989)."""
    generator = np.random.default_rng(0)
    values = np.zeros((4, 20_000, 2))
    for layer, mean in enumerate((5, 10, 11.5, 20)):
        values[layer, :, 0] = generator.normal(mean, 1, size=20_000)
    rows = geometry.norm_structure(made(values, texts=100), resamples=200, seed=0)
    overlap = rows[(rows["quantity"] == "norm_overlap") & (rows["positions"] == "all")].set_index("layer_a")
    assert overlap.loc["block 1", "value"] == pytest.approx(2 * stats.norm.cdf(-0.75), abs=0.02)
    assert overlap.loc["block 2", "value"] == pytest.approx(0, abs=0.01)
    assert overlap.loc["block 1", "ci_low"] < overlap.loc["block 1", "value"] < overlap.loc["block 1", "ci_high"]


# Structure


def test_spread_mean_and_cosine_of_a_layer_are_those_of_its_matrix():
    values = noise(2, 200, 8) * np.arange(1, 9) + 2.0
    rows = measured(made(values))
    for layer, x in zip(("embedding", "block 1"), values.astype(np.float32).astype(float), strict=True):
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        for scaling, y in (("raw", x), ("unit", unit)):
            eigenvalues = np.linalg.eigvalsh(np.cov(y.T, bias=True))
            rank = rows.loc[("effective_rank", scaling, layer, "")]
            assert rank["value"] == pytest.approx(spectra.effective_rank(eigenvalues))
            ratio = rows.loc[("participation_ratio", scaling, layer, "")]
            assert ratio["value"] == pytest.approx(spectra.participation_ratio(eigenvalues))
            share = np.square(y.mean(axis=0)).sum() / np.square(y).sum(axis=1).mean()
            assert rows.loc[("mean_share", scaling, layer, ""), "value"] == pytest.approx(share)
        cosines = (unit @ unit.T)[np.triu_indices(200, 1)]
        assert rows.loc[("mean_cosine", "unit", layer, ""), "value"] == pytest.approx(cosines.mean())


def test_subspaces_that_were_put_in_are_found():
    """Two layers share one of three leading directions; the angles are those of scipy between the true subspaces."""
    generator = np.random.default_rng(0)
    axes = np.linalg.qr(generator.normal(size=(12, 12)))[0]
    values = noise(3, 3000, 12) * 0.01
    subspaces = [axes[:, [0, 1, 2]], axes[:, [0, 3, 4]], axes[:, [0, 1, 2]]]
    for layer, subspace in enumerate(subspaces):
        values[layer] += generator.normal(size=(3000, 3)) @ subspace.T
    rows = measured(made(values))
    expected = np.degrees(linalg.subspace_angles(subspaces[0], subspaces[1]))
    apart = ("raw", "embedding", "block 1")
    assert rows.loc[("principal_angle_mean", *apart), "value"] == pytest.approx(expected.mean(), abs=0.5)
    assert rows.loc[("principal_angle_smallest", *apart), "value"] == pytest.approx(0, abs=0.5)
    assert rows.loc[("subspace_overlap", *apart), "value"] == pytest.approx(1 / 3, abs=0.01)
    assert rows.loc[("subspace_overlap", "raw", "embedding", "block 2"), "value"] == pytest.approx(1, abs=0.01)
    halves = rows.loc[("subspace_overlap", "raw", "block 1", "block 1")]
    assert halves["value"] == pytest.approx(1, abs=0.01) and np.isnan(halves["ci_low"])
    # Random subspaces of k dimensions share k / width in the mean (Absil et al. 2006).
    assert halves["reference"] == pytest.approx(3 / 12, abs=0.03)


def cka(x, y):
    """Kornblith et al. 2019, equation 5, with feature matrices instead of kernels."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return np.linalg.norm(x.T @ y) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


def hsic1(k, m):
    """Song et al. 2012, equation 5, as it stands there."""
    n = len(k)
    k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    ones = np.ones(n)
    middle = (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
    return (np.trace(k @ m) + middle - 2 / (n - 2) * (ones @ k @ m @ ones)) / (n * (n - 3))


def test_linear_cka_is_that_of_the_feature_matrices_and_the_debiased_one_that_of_the_formula():
    values = noise(3, 200, 8)
    values[1] = values[0] @ np.random.default_rng(1).normal(size=(8, 8)) + 0.5 * noise(1, 200, 8, 5)[0]
    states = made(values)
    rows = measured(states)
    x, y = (values[i].astype(np.float32).astype(float) for i in (0, 1))
    row = rows.loc[("linear_cka", "raw", "embedding", "block 1")]
    assert row["value"] == pytest.approx(cka(x, y), abs=1e-5)
    debiased = rows.loc[("linear_cka_debiased", "raw", "embedding", "block 1"), "value"]
    expected = hsic1(x @ x.T, y @ y.T) / np.sqrt(hsic1(x @ x.T, x @ x.T) * hsic1(y @ y.T, y @ y.T))
    assert debiased == pytest.approx(expected, abs=1e-5)
    generator = np.random.default_rng(0)
    dealt = [cka(x, y[generator.permutation(200)]) for _ in range(500)]
    assert row["reference"] == pytest.approx(np.mean(dealt), rel=0.03)
    # Independent layers: the plain estimate is far above 0, the debiased one is not.
    apart = rows.loc[("linear_cka_debiased", "raw", "embedding", "block 2")]
    assert apart["ci_low"] < 0 < apart["ci_high"]
    # The jackknife leaves a group of texts out and computes all again.
    group = jackknife.text_groups(states.text, groups=10, seed=0)
    again = np.array([row["value"], *(cka(x[group != g], y[group != g]) for g in range(10))])
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(jackknife.interval(again), abs=1e-4)


def test_cka_knows_rotations_and_scales_and_neighbours_stay_neighbours():
    values = noise(2, 200, 8)
    values[1] = 3 * values[0] @ np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    rows = measured(made(values))
    assert rows.loc[("linear_cka", "raw", "embedding", "block 1"), "value"] == pytest.approx(1, abs=1e-5)
    assert rows.loc[("neighbour_retention", "unit", "embedding", "block 1"), "value"] == 1


def test_neighbours_kept_are_those_of_scikit_learn_and_by_chance_few():
    values = noise(2, 120, 30)
    states = made(values)
    row = measured(states).loc[("neighbour_retention", "unit", "embedding", "block 1")]
    order = np.random.default_rng(0).permutation(120)
    chosen = np.sort([order[np.flatnonzero(states.token[order] == token)[0]] for token in np.unique(states.token)])
    near = [
        NearestNeighbors(n_neighbors=5, metric="cosine").fit(x[chosen]).kneighbors(return_distance=False)
        for x in values
    ]
    shared = [len(set(a) & set(b)) / 5 for a, b in zip(*near, strict=True)]
    assert row["value"] == pytest.approx(np.mean(shared)) and row["n"] == len(chosen) == 117
    assert row["reference"] == 5 / 116 == pytest.approx(row["value"], abs=0.025)  # three standard errors


def test_means_that_explain_everything_and_nothing():
    values = noise(4, 400, 5) * 0.001
    values[:, :, 0] += np.arange(4)[:, None]
    rows = measured(made(values))
    assert rows.loc[("mean_shift_share_of_all", "raw", "embedding", "block 3"), "value"] == pytest.approx(1, abs=1e-4)
    alike = measured(made(noise(4, 400, 5))).loc[("mean_shift_share_of_all", "raw", "embedding", "block 3")]
    assert alike["value"] < 0.01 and alike["reference"] == 3 / 1599
    # Two layers a distance d apart in one of w unit dimensions: (d / 2)^2 / (w + (d / 2)^2).
    shifted = noise(2, 20_000, 5)
    shifted[1, :, 0] += 3
    share = measured(made(shifted)).loc[("mean_shift_share", "raw", "embedding", "block 1"), "value"]
    assert share == pytest.approx(2.25 / (5 + 2.25), abs=0.01)


def at(places, vectors=400, width=6):
    """Layers whose means are at these places of a plane."""
    values = noise(len(places), vectors, width) * 0.01
    values[:, :, :2] += np.asarray(places, float)[:, None]
    return made(values)


def test_a_line_a_far_last_layer_and_a_ring_are_distinguished():
    ends = ("raw", "embedding", "block 5")
    line = measured(at([(i, 0) for i in range(6)]))
    assert line.loc[("order_of_layers", *ends), "value"] == pytest.approx(1, abs=1e-3)
    assert line.loc[("closing_distance", *ends), "value"] == pytest.approx(5, abs=0.01)
    assert line.loc[("closing_distance", *ends), "reference"] == 5
    assert line.loc[("return_2d", *ends), "value"] == pytest.approx(0, abs=1e-3)
    assert line.loc[("last_step_ratio", *ends), "value"] == pytest.approx(1, abs=0.01)
    far = measured(at([(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (14, 0)]))
    assert far.loc[("last_step_ratio", *ends), "value"] == pytest.approx(10, abs=0.1)
    assert far.loc[("largest_step_ratio", *ends), "value"] == pytest.approx(10 / 2.8, abs=0.05)
    angles = np.arange(6) * np.pi / 3
    ring = measured(at(np.stack([np.cos(angles), np.sin(angles)], axis=1)))
    for suffix in ("", "_2d"):
        assert ring.loc[(f"closing_distance{suffix}", *ends), "value"] == pytest.approx(1, abs=0.01)
        assert ring.loc[(f"return{suffix}", *ends), "value"] == pytest.approx(0.5, abs=0.01)
    assert ring.loc[("order_of_layers", *ends), "value"] < 0.5


def test_the_final_norm_may_stand_for_the_last_block():
    values = noise(4, 100, 6) + np.arange(4)[:, None, None]
    rows = measured(made(values, names=layer_names(4, final_norm=True)))
    assert rows.loc[("return", "raw", "embedding", FINAL_NORM)].notna()["value"]
    assert rows.loc[("return", "raw", "embedding", "block 2")].notna()["value"]


def test_positions_that_are_left_out_have_no_influence():
    values = noise(3, 200, 6)
    wild = values.copy()
    wild[:, ::10] *= 1000
    pd.testing.assert_frame_equal(measured(made(values), first_position=1), measured(made(wild), first_position=1))
    assert (measured(made(values), first_position=1)["n"] <= 180).all()
    with pytest.raises(EmbscaleError, match="first position 10: the last that the states hold is 9"):
        measured(made(values), first_position=10)


def test_chunks_and_repeats_change_nothing(monkeypatch):
    states = made(noise(3, 200, 6))
    whole = measured(states)
    monkeypatch.setattr(geometry, "chunks", lambda count: (slice(i, min(i + 7, count)) for i in range(0, count, 7)))
    pd.testing.assert_frame_equal(measured(states), whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dimensions": 6}, "6 dimensions: vectors have 6"), ({"neighbours": 300}, "197 different tokens have no 300")],
)
def test_more_than_there_is_is_refused(options, message):
    with pytest.raises(EmbscaleError, match=message):
        measured(made(noise(2, 200, 6)), **options)


def test_a_table_of_another_width_is_left_out():
    states = made(noise(3, 100, 6))
    arrays = {"embedding": states.arrays["embedding"][:, :4], "block input": states.arrays["embedding"]}
    arrays |= {name: array for name, array in states.arrays.items() if name != "embedding"}
    rows = measured(hidden_states.HiddenStates(arrays, states.text, states.position, states.token))
    assert "embedding" not in set(rows.index.get_level_values("layer_a"))
    assert "block input" in set(rows.index.get_level_values("layer_a"))


def command(folder, *more):
    numbers = {**OPTIONS, "resamples": 100}
    flags = [text for name, value in numbers.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    keys = ["--suite", "own", "--model", "m", "--step", "7", "--tied", "yes", "--texts", "t"]
    return [str(folder / "s.safetensors"), *flags, *keys, "--norms", str(folder / "n.csv"), *more]


def test_the_command_writes_the_same_bytes_twice(tmp_path):
    hidden_states.save(tmp_path / "s.safetensors", made(noise(3, 200, 6)))
    for name in ("a", "b"):
        assert execute("geometry", command(tmp_path, "-o", str(tmp_path / f"{name}.csv"))) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    for name in ("a", "n"):
        rows = pd.read_csv(tmp_path / f"{name}.csv")
        keys = rows[["suite", "model", "step", "width", "texts", "tokens", "texts_count", "tied"]].drop_duplicates()
        assert keys.to_numpy().tolist() == [["own", "m", 7, 6, "t", 10, 20, "yes"]]
