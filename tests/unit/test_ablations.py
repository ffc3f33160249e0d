"""What is read from classifiers, against weights and data made for it; the commands."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from layer_states import SETTINGS, everything, made, noise
from scipy import stats
from sklearn.linear_model import LogisticRegression

from embscale import ablations, hidden_states
from embscale.cli import execute
from embscale.layer_classifiers import Linear

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
    return ablations.ablations(found, random_masks=4)


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
    overlaps = {frozenset(pair): float(2 not in pair) for pair in combinations(range(3), 2)}
    assert row["value"] == pytest.approx(1 / 3)
    without = np.array([overlaps[frozenset({0, 1, 2} - {i})] for i in range(3)])
    half = stats.t.ppf(0.975, 2) * np.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum())
    assert (row["ci_low"], row["ci_high"]) == (max(0, 1 / 3 - half), min(1, 1 / 3 + half))
    lone = replace(same, fits=same.fits[:1], seeds=SEEDS[:1])
    assert np.isnan(of(pd.DataFrame(ablations.stability(lone)), choice="frequent")["value"]).all()


def test_positions_are_told_apart():
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


SHARED = (
    "--seeds 1 2 --test-fraction 0.25 --inverse-regularisation 1 --memory-gb 1 --chunk 100 --resamples 20 "
    "--bootstrap-seed 0 --first-position 1 --suite tiny --model tiny-1 --step main"
)
COMMANDS = {
    "probe": "{a} --texts docs --classifiers logistic_regression sgd norm_only --splits text vector --inputs raw "
    "mean_removed --controls gaussian --epochs 2 --tree-depth 3 --output {folder}/rows.csv "
    "--confusion {folder}/confusion.csv --curves {folder}/curves.csv",
    "grid": "{a} --texts docs --classifiers logistic_regression sgd --split text --windows 4 8 --counts 10 20 "
    "--epochs 2 --output {folder}/rows.csv",
    "ablate": "{a} --texts docs --split text --random-masks 2 --output {folder}/rows.csv",
    "transfer": "--states docs={a} --states code={b} --output {folder}/rows.csv",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    for i, name in enumerate("ab"):
        states = made(noise(3, 320, 4, seed=i) + np.arange(3)[:, None, None], texts=40, ids=name)
        hidden_states.save(folder / f"{name}.safetensors", states)
    return {name: folder / f"{name}.safetensors" for name in "ab"}


def command(name, files, folder, *further):
    folder.mkdir(exist_ok=True)
    arguments = COMMANDS[name].format(folder=folder, **files).split()
    return execute(name, [*arguments, *SHARED.split(), *further])


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_write_the_same_tidy_rows_twice(name, files, tmp_path):
    for run in "ab":
        assert command(name, files, tmp_path / run) == 0
    written = sorted(path.name for path in (tmp_path / "a").glob("*.csv"))
    for file in written:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    rows = pd.read_csv(tmp_path / "a" / "rows.csv", dtype={"seed": str})
    assert (rows["model"] == "tiny-1").all() and rows["step"].isna().all() and (rows["width"] == 4).all()
    assert set(rows["seed"]) == {"1", "2", "all"}
    if name != "ablate":
        assert rows[rows["metric"] == "accuracy"]["value"].between(0, 1).all()
        bounded = rows.dropna(subset=["ci_low"])
        assert (bounded["ci_low"] <= bounded["value"] + 1e-9).all()
        assert (bounded["value"] <= bounded["ci_high"] + 1e-9).all()
        # Where so few vectors are tested that a resample may hold none of a layer, its recall has no interval.
        assert set(rows[rows["ci_low"].isna()]["metric"]) <= {"recall"}
    if name == "probe":
        assert set(rows["texts_count"]) == {40} and set(rows["tokens"]) == {8}
        assert (of(rows, control="gaussian")["expected"] == "high").all()
        assert len(of(rows, metric="mean_shift_share")) == 3
        curves = pd.read_csv(tmp_path / "a" / "curves.csv")
        assert curves.groupby(["input", "seed"])["epoch"].apply(list).tolist() == [[1, 2]] * 2
        confusion = pd.read_csv(tmp_path / "a" / "confusion.csv")
        tested = of(rows, metric="accuracy", seed="1")["n"].sum()
        assert of(confusion, seed=1)["count"].sum() == tested
    if name == "grid":
        cells = of(rows, metric="accuracy", seed="all")
        assert len(cells) == 2 * 2 * 2 * 2 and set(cells["tokens"]) == {4, 8} and set(cells["texts_count"]) == {10, 20}
    if name == "transfer":
        assert set(zip(rows["trained_on"], rows["texts"], strict=True)) == {
            (trained, tested) for trained in ("docs", "code", "mixed") for tested in ("docs", "code")
        }
    if name == "ablate":
        assert set(rows["experiment"]) == {
            "contribution", "sign", "cumulative", "stability", "mask", "prefix", "position"
        }  # fmt: skip
        with_first = of(rows, choice="with_first", seed="all")
        assert with_first["n"].item() == of(rows, choice="without_first", seed="all")["n"].item() * 8 / 7


def test_states_without_first_positions_say_so(files, tmp_path, capsys):
    states = hidden_states.load(files["a"])
    late = replace(states, position=states.position + 1)
    hidden_states.save(tmp_path / "late.safetensors", late)
    assert command("ablate", {"a": tmp_path / "late.safetensors"}, tmp_path / "out") == 0
    assert "tiny-1: the states have no vector before position 1" in capsys.readouterr().err
    rows = pd.read_csv(tmp_path / "out" / "rows.csv", dtype={"seed": str})
    row = of(rows, choice="with_first").iloc[0]
    assert row["n"] == 0 and np.isnan(row["value"])


def test_bad_arguments_are_told(files, tmp_path, capsys):
    assert command("probe", files, tmp_path / "a", "--classifiers", "svm") == 1
    assert "--classifiers: no 'svm'; known are logistic_regression, sgd" in capsys.readouterr().err
    assert command("grid", files, tmp_path / "a", "--counts", "99") == 1
    assert "99 texts are wanted, but the states are of 40" in capsys.readouterr().err
    assert command("transfer", {"a": files["a"], "b": ""}, tmp_path / "a") == 1
    assert "--states code=: expected NAME=FILE" in capsys.readouterr().err
    arguments = ["--states", f"a={files['a']}", "--output", str(tmp_path / "x.csv"), *SHARED.split()]
    assert execute("transfer", arguments) == 1
    assert "--states: give two or more" in capsys.readouterr().err
