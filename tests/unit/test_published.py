"""The studies' published numbers: the golden ones, which are wrong, and how ours are set beside them."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from embscale.claims import published_scores
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.scoring import scores

# As read from the study's published files, times 100, from narrow to wide.
FULL = {
    "pythia": [1.797, 3.254, 4.785, 6.374, 6.893, 8.063, 7.707, 7.688, 7.040, 7.109],
    "opt": [1.246, 1.210, 2.046, 3.323, 3.376, 5.706, 5.380, 4.406, 6.398],
    "cerebras-gpt": [1.015, 1.813, 1.527, 2.619, 3.611, 3.408, 4.647],
    "bloom": [1.598, 1.591, 7.149, 6.609, 6.964, 6.381],
    "t5-v1_1": [4.959, 6.550, 7.283, 6.318, 7.554],
}
# Mean and standard deviation over the four published seeds, some of them rounded twice.
RANDOM = {
    "gpt-neox-20b": ([1.42, 2.97, 3.29, 3.49, 3.60, 3.69], [0.12, 0.23, 0.11, 0.09, 0.07, 0.05]),
    "t5-v1_1": ([1.46, 2.53, 2.89, 3.09, 3.14, 3.13], [0.12, 0.08, 0.13, 0.02, 0.09, 0.03]),
    "opt": ([1.35, 2.72, 3.04, 3.17, 3.27, 3.32], [0.12, 0.18, 0.08, 0.10, 0.03, 0.03]),
    "gpt2": ([1.40, 2.95, 3.43, 3.59, 3.77, 3.82], [0.07, 0.14, 0.14, 0.06, 0.07, 0.06]),
    "bloom": ([1.62, 3.48, 4.06, 4.37, 4.62, 4.70], [0.15, 0.21, 0.15, 0.05, 0.06, 0.04]),
}
# Printed after the fault in the crop branch was mended.
PYTHIA_CROP = [1.797, 2.416, 2.739, 2.931, 4.032, 3.412, 2.953, 3.738, 3.038, 2.36]


@pytest.fixture(scope="module")
def rows():
    return published_scores.load()


@pytest.fixture(scope="module")
def main(rows):
    return rows[(rows["task"] == "SCIDOCS") & (rows["metric"] == "ndcg_at_10")]


@pytest.mark.parametrize("suite", FULL)
def test_full_scores_are_the_golden_numbers(main, suite):
    chosen = main[(main["suite"] == suite) & (main["variant"] == "full")]
    assert (chosen["value"] * 100).tolist() == pytest.approx(FULL[suite])
    assert chosen["dims"].is_monotonic_increasing and chosen["valid"].all()


@pytest.mark.parametrize("tokenizer", RANDOM)
def test_random_scores_have_the_golden_means_and_deviations(main, tokenizer):
    chosen = main[(main["suite"] == "random") & (main["tokenizer"] == tokenizer)]
    by_dims = (chosen.groupby("dims")["value"].agg(["mean", "std", "count"]) * 100).loc[
        [128, 512, 1024, 2048, 5120, 14336]
    ]
    means, deviations = RANDOM[tokenizer]
    assert by_dims["mean"].tolist() == pytest.approx(means, abs=0.006)
    assert by_dims["std"].tolist() == pytest.approx(deviations, abs=0.006)
    assert set(chosen["seed"]) == {42, 43, 6573, 7776} and chosen["dims"].nunique() == 15


def test_sound_crops_of_pythia_are_there_and_the_first_is_the_whole_table(main):
    chosen = main[(main["suite"] == "pythia") & (main["variant"] == "crop") & main["valid"]]
    assert (chosen["value"] * 100).tolist() == pytest.approx(PYTHIA_CROP)
    full = main[(main["model"] == "pythia-14m") & (main["variant"] == "full")]["value"].iloc[0]
    assert chosen["value"].iloc[0] == full  # 128 columns cropped to 128


@pytest.mark.parametrize(("metric", "pythia", "t5"), [("ndcg_at_10", 1.27, 1.342), ("map_at_100", 0.689, 0.761)])
def test_the_wrong_crops_are_marked_and_no_others(rows, metric, pythia, t5):
    wrong = rows[~rows["valid"] & (rows["metric"] == metric)]
    assert set(wrong["variant"]) == {"crop"} and wrong["reason"].str.len().gt(0).all()
    assert {suite: set(group["value"].mul(100).round(3)) for suite, group in wrong.groupby("suite")} == {
        "pythia": {pythia},
        "t5-v1_1": {t5},
    }
    assert len(wrong) == 15
    # No sound crop has the score of all other crops of its suite.
    sound = rows[rows["valid"] & (rows["metric"] == metric) & (rows["variant"] == "crop")]
    assert sound.groupby(["task", "suite"])["value"].nunique().gt(1).all()


def test_every_row_names_a_source_and_no_score_is_there_twice(rows):
    assert set(rows["source"]) == set(published_scores.SOURCES)
    assert (
        not rows[rows["valid"]]
        .duplicated(["suite", "model", "tokenizer", "variant", "variant_dims", "seed", "task", "metric"])
        .any()
    )
    assert {suite: len(models) for suite, models in published_scores.suites(rows).items()} == {
        "pythia": 10, "opt": 9, "cerebras-gpt": 7, "bloom": 6, "t5-v1_1": 5
    }  # fmt: skip


def ours(**cells):
    shared = {
        "suite": "pythia",
        "tokenizer": "gpt-neox-20b",
        "step": 143000,
        "task": "SCIDOCS",
        "metric": "ndcg_at_10",
        "length": "all",
        "ci_low": 0.01,
        "ci_high": 0.02,
        "n": 1000,
        "variant_dims": np.nan,
        "seed": np.nan,
        "value": 0.018,
    }
    return {**shared, **cells}


def test_our_scores_are_set_beside_the_published_ones(rows):
    mine = pd.DataFrame(
        [
            ours(model="pythia-70m", variant="full", step=0),
            ours(model="pythia-70m", variant="full", value=0.05, ci_low=0.04, ci_high=0.06),
            ours(model="pythia-70m", variant="crop", variant_dims=128),
            ours(model="pythia-70m", variant="pad", variant_dims=14336, seed=42, value=0.5),
            ours(model="pythia-70m", variant="pad_faithful_legacy", variant_dims=14336, seed="42", value=0.054),
            ours(model="pythia-70m", variant="pad_rms", variant_dims=14336, seed=42),
            ours(model="random", suite="random", variant="random_legacy", variant_dims=512, seed=43, step=np.nan),
            ours(model="a-model-of-our-own", variant="full"),
        ]
    )
    found = published_scores.compare(mine, rows)
    by = found[found["valid"]].set_index(["model", "variant"])
    assert by.loc[("pythia-70m", "full"), "difference"] == pytest.approx(0.05 - 0.04785)
    assert by.loc[("pythia-70m", "full"), "inside"] and not by.loc[("pythia-70m", "crop"), "inside"]
    assert by.loc[("pythia-70m", "pad"), "ours"] == 0.054
    assert by.loc[("random", "random"), "tokenizer"] == "gpt-neox-20b"
    assert len(found) == 5 and set(found.loc[~found["valid"], "published"].round(5)) == {0.0127}


def test_the_studys_own_weights_are_compared_before_those_that_took_their_name(rows):
    now, then = ours(model="pythia-14m", variant="full"), ours(model="pythia-14m-deduped", variant="full", value=0.019)
    alone = published_scores.compare(pd.DataFrame([now]), rows)
    assert alone["ours"].tolist() == [0.018] and "another name" in alone["remark"].iloc[0]
    both = published_scores.compare(pd.DataFrame([now, then]), rows)
    assert both["ours"].tolist() == [0.019] and both["remark"].tolist() == [""]


def test_two_ways_of_scoring_are_not_mixed(rows):
    twice = pd.DataFrame([ours(model="pythia-70m", variant="full")] * 2)
    with pytest.raises(EmbscaleError, match="choose one way of scoring with --where"):
        published_scores.compare(twice, rows)


def test_runs_of_other_models_and_scores_of_cut_documents_do_not_matter(rows):
    ladder = [ours(suite="ladder", model="ladder-w16", variant="full", run=run) for run in (1, 2)]
    cut = [ours(model="pythia-70m", variant="full", length=length, value=0.5) for length in ("32", "64")]
    frame = pd.DataFrame([*ladder, *cut, ours(model="pythia-70m", variant="full")])
    found = published_scores.compare(frame, rows)
    assert found["model"].tolist() == ["pythia-70m"]
    assert found["ours"].tolist() == [0.018]


def write(path, *cells):
    frame = pd.DataFrame([dict.fromkeys(scores.COLUMNS) | cell for cell in cells])
    frame[scores.COLUMNS].to_csv(path, index=False)
    return path


def test_the_command_writes_both_or_says_that_nothing_was_run(tmp_path, rows, capsys):
    table = write(tmp_path / "scores.csv", ours(model="pythia-70m", variant="full", special_tokens="include"))
    arguments = ["-o", str(tmp_path / "c.csv"), "--partial", str(tmp_path / "c.md")]
    assert execute("compare", [str(table), "--where", "special_tokens=include", *arguments]) == 0
    assert pd.read_csv(tmp_path / "c.csv")["published"].tolist() == pytest.approx([0.04785])
    text = (tmp_path / "c.md").read_text("utf-8")
    assert "| pythia-70m | full | SCIDOCS | ndcg_at_10 | 1.80 [1.00, 2.00] | 4.79 | -2.99 | no |" in text
    assert "0 of 1 published scores" in text
    write(table, ours(model="ladder-w16", suite="ladder", tokenizer="own", variant="full", task="own"))
    assert execute("compare", [str(table), *arguments]) == 0
    assert "**not run**" in (tmp_path / "c.md").read_text("utf-8") and pd.read_csv(tmp_path / "c.csv").empty


# As the second study and its notebooks say, in per cent.
GOLDEN_LAYERS = [
    ("gpt2", "imdb", 50, 1000, 89.9),
    ("gpt2", "imdb", 50, 2000, 94.3),
    ("gpt2", "imdb", 100, 2000, 95.2),
    ("gpt2-large", "imdb", 50, 1000, 63.6),
    ("gpt2-large", "imdb", 50, 2000, 79.6),
    ("gpt2-medium", "pile", 25, 5000, 83.4),
    ("gpt2-xl", "pile", 70, 5000, 64.4),
    ("Llama-2-7b-hf", "pile", 30, 3000, 93.4),
    ("Llama-2-7b-chat-hf", "pile", 30, 3000, 94.8),
    ("Llama-2-13b-chat-hf", "pile", 30, 3000, 93.7),
]
LAYERS_RUN = ["model", "trained_on", "texts", "tokens", "texts_count", "input", "control", "masked", "source"]


@pytest.fixture(scope="module")
def layers():
    return published_scores.huang()


@pytest.mark.parametrize(("model", "texts", "tokens", "count", "percent"), GOLDEN_LAYERS)
def test_accuracies_of_layer_classifiers_are_the_golden_numbers(layers, model, texts, tokens, count, percent):
    found = layers.query(
        "model == @model and texts == @texts and tokens == @tokens and texts_count == @count "
        "and input == 'raw' and control == 'none' and masked == '' and source != 'notebooks'"
    )
    assert (found["value"] * 100).tolist() == pytest.approx([percent], abs=0.051)


def test_every_published_accuracy_is_there_once_and_has_a_source(layers):
    assert layers.groupby("source").size().to_dict() == {"grid": 163, "notebooks": 18, "pile": 34}
    assert set(layers["source"]) == set(published_scores.LAYER_SOURCES)
    assert not layers.duplicated(LAYERS_RUN).any() and layers["value"].between(0, 1).all()
    blocks = {"gpt2": 12, "gpt2-medium": 24, "gpt2-large": 36, "gpt2-xl": 48, "Llama-2-13b-chat-hf": 40}
    for row in layers[layers["model"].isin(blocks)].itertuples():
        assert row.n_layers == blocks[row.model] + (row.source != "pile")
    masks = layers[layers["masked"] != ""].set_index("masked")["value"]
    assert len(masks) == 15 and masks["591 690 581 239"] == pytest.approx(0.82951, abs=1e-5)


# SHA-256 of what the study's own files say, row by row in their order, with the accuracy to six digits: of
# _untracked/data_classifier_ok.txt (commit 832deb1), result/*.json (b39f010) and the printed output of the notebooks.
STUDYS_FILES = {
    "grid": (
        ["model", "tokens", "texts_count", "n_layers"],
        "69c67426e836e4923312f872a9244c78fcfb1141dbaed9b55171f064025fc409",
    ),
    "pile": (
        ["model", "texts_count", "tokens"],
        "03acfc98c79ba16cb313d1c907ecadc9accb095e1b3d64b3c06bba7632632fb4",
    ),
    "notebooks": (
        ["masked"],
        "0cb374a738b298257449ec0941bceab67f9568093f24c3e2d79c73c65dc6a34f",
    ),
}


@pytest.mark.parametrize("source", STUDYS_FILES)
def test_the_accuracies_are_those_of_the_studys_files(layers, source):
    columns, expected = STUDYS_FILES[source]
    ours = layers.loc[layers["source"] == source, [*columns, "value"]]
    lines = [" ".join([*map(str, cells), f"{value:.6f}"]) for *cells, value in ours.itertuples(index=False)]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == expected


def our_accuracy(**cells):
    run = {"model": "gpt2", "trained_on": "imdb", "texts": "imdb", "tokens": 50, "texts_count": 1000, "n_layers": 13}
    way = {"classifier": "sgd", "split": "vector", "input": "raw", "control": "none", "seed": "all"}
    return run | way | {"metric": "accuracy", "value": 0.9, "ci_low": 0.89, "ci_high": 0.91, "n": 100} | cells


def test_our_accuracies_are_set_beside_those_of_the_same_run_alone(layers):
    ours = [
        our_accuracy(),
        our_accuracy(classifier="logistic_regression", value=0.1),
        our_accuracy(split="text", value=0.2),
        our_accuracy(seed="1", value=0.3),
        our_accuracy(n_layers=12, value=0.4),
        our_accuracy(design="matched", value=0.5),
        our_accuracy(model="gpt2-large", n_layers=37),
        our_accuracy(model="gpt2-medium", tokens=30, n_layers=25, control="study_random", value=0.05),
    ]
    found = published_scores.compare_layers(pd.DataFrame(ours).fillna({"design": "as_published"}), layers)
    by = found.set_index(["model", "control"])
    assert len(found) == 3
    assert by.loc[("gpt2", "none"), "difference"] == pytest.approx(0.9 - 0.898578)
    assert by.loc[("gpt2", "none"), "inside"] and not by.loc[("gpt2-large", "none"), "inside"]
    assert by.loc[("gpt2-medium", "study_random"), "published"] == pytest.approx(0.053661)
    with pytest.raises(EmbscaleError, match="gpt2 has several accuracies on 1000 texts of 50 tokens of imdb"):
        published_scores.compare_layers(pd.DataFrame([our_accuracy(), our_accuracy(step=1)]), layers)
