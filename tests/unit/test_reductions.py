"""Two-dimensional pictures: what was put in is found, the measures are other people's, equal runs are equal."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from geometry_states import made, noise
from sklearn import manifold
from sklearn.decomposition import PCA

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.layers import hidden_states, reductions
from embscale.threads import limited

pytestmark = pytest.mark.long

SETTINGS = reductions.Settings(
    first_position=0, points=180, perplexity=8, umap_neighbours=6, start_dimensions=5, outliers=1, groups=10, seed=0
)


def drift(vectors=100, width=8):
    """Three layers one behind the other, told apart easily."""
    values = noise(3, vectors, width)
    values[:, :, 0] += 30 * np.arange(3)[:, None]
    values[:, :, 1] += 40
    return made(values)


@pytest.fixture(scope="module")
def reduced():
    with limited(1):  # as many as the command's
        return reductions.reduce(drift(), reductions=reductions.REDUCTIONS, settings=SETTINGS)


def test_every_picture_holds_the_same_tokens_at_every_layer(reduced):
    points, _ = reduced
    pictures = points.groupby(["reduction", "scaling", "layers"])
    assert set(pictures.groups) == {
        (reduction, scaling, layers)
        for reduction in reductions.REDUCTIONS
        for scaling in ("raw", "unit", "outlier_removed")
        for layers in ("all", "blocks")
        if scaling != "outlier_removed" or reduction == "pca"
    }
    tokens = None
    for (_, _, layers), picture in pictures:
        assert len(picture) == (180 if layers == "all" else 120)
        for _, of_layer in picture.groupby("layer_index"):
            found = of_layer[["text", "position", "token"]].to_numpy().tolist()
            tokens = tokens or found
            assert found == tokens
        assert ("embedding" in set(picture["layer"])) == (layers == "all")
        assert picture["layer_index"].min() == (0 if layers == "all" else 1)
    assert points[
        ["perplexity", "umap_neighbours", "start_dimensions", "outliers", "seed"]
    ].drop_duplicates().shape == (1, 5)


def test_pca_is_that_of_scikit_learn_with_its_shares_of_variance(reduced):
    points, quality = reduced
    states = drift()
    picture = points.query("reduction == 'pca' and scaling == 'raw' and layers == 'all'")
    chosen = picture["text"].iloc[:60].to_numpy() * 5 + picture["position"].iloc[:60].to_numpy()
    values = states.take(states.classes, chosen).reshape(180, -1).astype(float)
    expected = PCA(2, svd_solver="full").fit(values)
    placed = expected.transform(values)
    for axis, name in enumerate("xy"):
        assert abs(np.corrcoef(placed[:, axis], picture[name])[0, 1]) == pytest.approx(1)
    shares = picture[["explained1", "explained2"]].iloc[0].to_numpy()
    assert shares == pytest.approx(expected.explained_variance_ratio_)
    row = quality.query(
        "reduction == 'pca' and scaling == 'raw' and layers == 'all' and quantity == 'explained_variance'"
    )
    assert row["value"].tolist() == pytest.approx([shares.sum()])
    # The drift is the dimension of largest variance: without it nothing tells the layers apart.
    removed = points.query("reduction == 'pca' and scaling == 'outlier_removed' and layers == 'all'")
    assert removed["explained1"].iloc[0] < 0.4 < shares[0]


@pytest.mark.parametrize("neighbours", [3, 10])
def test_trustworthiness_is_that_of_scikit_learn(neighbours):
    values, placed = noise(1, 700, 6)[0], noise(1, 700, 2, 1)[0]
    ours = reductions.trustworthiness(values, placed, neighbours=neighbours)
    assert ours.mean() == pytest.approx(manifold.trustworthiness(values, placed, n_neighbors=neighbours))
    assert (reductions.trustworthiness(placed, placed, neighbours=neighbours) == 1).all()


def test_layers_far_apart_are_seen_apart_and_in_order(reduced):
    _, quality = reduced
    by = quality.query("layers == 'all' and scaling == 'raw'").set_index(["reduction", "quantity"])
    for reduction in (*reductions.REDUCTIONS, "none"):
        row = by.loc[(reduction, "neighbours_of_same_layer")]
        assert row["value"] > 0.95 and row["reference"] == pytest.approx(59 / 179)
    for reduction in ("pca", "none"):
        assert by.loc[(reduction, "order_of_layers"), "value"] == pytest.approx(1, abs=0.01)
    trust = by.loc[("pca", "trustworthiness")]
    assert trust["ci_low"] < trust["value"] < trust["ci_high"] and trust["n"] == 180


def test_layers_thrown_together_are_seen_so():
    _, quality = reductions.reduce(made(noise(3, 100, 8)), reductions=["pca"], settings=SETTINGS)
    row = quality.query("reduction == 'pca' and quantity == 'neighbours_of_same_layer' and layers == 'all'").iloc[0]
    assert row["value"] == pytest.approx(row["reference"], abs=0.06)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"points": 600}, "600 points over 3 layers: each layer has 100 vectors"),
        ({"perplexity": 50.0}, "120 points without the first layer: a perplexity of 50"),
        ({"outliers": 7}, "7 outliers: vectors have only 8 dimensions"),
        ({"points": 30, "perplexity": 2, "umap_neighbours": 3}, "more than twice them"),
    ],
)
def test_more_than_there_is_is_refused(changed, message):
    from dataclasses import replace

    with pytest.raises(EmbscaleError, match=message):
        reductions.reduce(drift(), reductions=["tsne"], settings=replace(SETTINGS, **changed))


def test_the_command_writes_the_same_bytes_twice(tmp_path, reduced):
    hidden_states.save(tmp_path / "s.safetensors", drift())
    from dataclasses import asdict

    flags = [text for k, v in asdict(SETTINGS).items() for text in (f"--{k.replace('_', '-')}", str(v))]
    keys = ["--suite", "own", "--model", "m", "--step", "main", "--tied", "no", "--texts", "t"]
    for name in ("a", "b"):
        outputs = ["-o", str(tmp_path / f"{name}.csv"), "--quality", str(tmp_path / f"{name}-quality.csv")]
        given = [str(tmp_path / "s.safetensors"), "--kinds", *reductions.REDUCTIONS, *flags, *keys, *outputs]
        assert execute("reductions", given) == 0
    for name in ("", "-quality"):
        assert (tmp_path / f"a{name}.csv").read_bytes() == (tmp_path / f"b{name}.csv").read_bytes()
    rows = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_allclose(rows["x"], reduced[0]["x"], rtol=1e-4, atol=1e-4)
    assert list(rows.columns[:8]) == ["suite", "model", "step", "width", "texts", "tokens", "texts_count", "tied"]


def test_the_parameters_are_the_settings_of_the_pictures():
    from embscale.parameters import layers, schema

    parameters = {
        parameter.name for group in (layers.Reductions, layers.Positions) for parameter in schema.parameters(group)
    }
    assert parameters - {"kinds"} == {field.name for field in dataclasses.fields(reductions.Settings)}
