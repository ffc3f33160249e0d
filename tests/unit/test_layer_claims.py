"""The second study's claims on rows whose answer is known, on its own numbers, and where rows are missing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from embscale.claims import layer_claims, published_scores, table_claims
from embscale.claims.table_claims import Claim
from embscale.cli import execute
from embscale.errors import EmbscaleError

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = ROOT / "workflow" / "layer_claims.yaml"
WIDTHS = {"ladder-w128": 128, "ladder-w256": 256, "ladder-w512": 512}
BLANK = {"suite": "ladder", "texts": "here", "seed": "all", "layer": "", "n": 500}


def row(model, value, half=0.001, **cells):
    return (
        BLANK
        | {"model": model, "width": WIDTHS[model], "value": value, "ci_low": value - half, "ci_high": value + half}
        | cells
    )


def rows_of(kind, *rows):
    frame = pd.DataFrame(rows).reindex(columns=[*layer_claims.NEEDED, *layer_claims.KINDS[kind]])
    return {kind: frame}


def probe(model, value, *, split="text", classifier="logistic_regression", half=0.001, **cells):
    shared = {"classifier": classifier, "split": split, "input": "raw", "control": "none", "trained_on": "here"}
    given = shared | cells
    yield row(model, value, half, **given | {"metric": "accuracy"})
    if given.get("seed", "all") == "all":
        yield row(model, 0.2, 0.0, **given | {"metric": "chance"})


def probes(values, **cells):
    return rows_of("probes", *(line for model, value in values.items() for line in probe(model, value, **cells)))


def structure(values, quantity, **cells):
    """Values by model or by (model, layer_a, layer_b)."""
    shared = {
        "quantity": quantity,
        "scaling": "raw",
        "positions": "",
        "layer_a": "embedding",
        "layer_b": "block 4",
        "tied": "no",
    }
    made = []
    for key, value in values.items():
        model, *layers = (key,) if isinstance(key, str) else key
        named = dict(zip(("layer_a", "layer_b"), layers, strict=False))
        made.append(row(model, value, **shared | cells | named))
    return rows_of("structure", *made)


def ablation(model, values, experiment, **cells):
    """Values by layer, or one value."""
    shared = {"experiment": experiment, "weights": "raw"} | cells
    by_layer = values if isinstance(values, dict) else {"": values}
    return [row(model, value, **shared | {"layer": layer}) for layer, value in by_layer.items()]


def verdict(frames, statistic, **arguments):
    claim = Claim("X", "words", "gpt2", statistic, "figure", arguments)
    found = layer_claims.ledger([claim], frames, texts="here", other_texts="there")
    assert found.loc[found["suite"] == "gpt2", "verdict"].tolist() in ([], ["not run"])
    return found[found["suite"] == "ladder"].iloc[0]


def joined(*frames):
    made = {}
    for frame in frames:
        for kind, rows in frame.items():
            made[kind] = pd.concat([made.get(kind), rows], ignore_index=True) if kind in made else rows
    return made


def models(*values):
    return dict(zip(WIDTHS, values, strict=False))


AFTER = {"positions": "after_first"}
FIRST = "ladder-w128"  # what stands for gpt2-medium where only one model was run this way
LAYERS = ("embedding", "block 1", "block 2", "block 3")


def grid(model, values, design="as_published"):
    """Values by (tokens, texts_count)."""
    shared = {"classifier": "sgd", "split": "vector", "metric": "accuracy", "design": design}
    return rows_of("grid", *(row(model, v, tokens=t, texts_count=c, **shared) for (t, c), v in values.items()))


def masks(frequent, random):
    shared = {"fill": "zero", "refit": False, "metric": "accuracy_change", "experiment": "mask"}
    return rows_of(
        "ablations",
        row("ladder-w256", frequent, choice="frequent", weights="raw", k=1, **shared),
        row("ladder-w256", random, choice="random", weights="", k=1, **shared),
        row("ladder-w256", -0.3, choice="frequent", weights="raw", k=64, **shared),
    )


def subspaces(between):
    pairs = {
        (FIRST, "block 1", "block 1"): 0.9,
        (FIRST, "block 2", "block 2"): 0.95,
        (FIRST, "block 1", "block 2"): between,
    }
    return structure(pairs, "subspace_overlap", reference=0.1)


def stability(overlap, accuracies):
    shared = {"metric": "overlap", "k": 4}
    runs = [line for seed, v in enumerate(accuracies) for line in probe(FIRST, v, seed=str(seed))]
    return joined(
        rows_of("probes", *runs),
        rows_of("ablations", *ablation(FIRST, overlap, "stability", choice="frequent", **shared),
                *ablation(FIRST, 0.03, "stability", choice="random", **shared | {"weights": "", "n": np.nan})),
    )  # fmt: skip


def pictures(pca, other, name):
    shared = {"scaling": "raw", "layers": "all", "quantity": "order_of_layers"}
    return rows_of("quality", row(FIRST, pca, reduction="pca", **shared), row(FIRST, other, reduction=name, **shared))


def transfer(here, there):
    shared = {"trained_on": "here", "metric": "accuracy"}
    return rows_of("transfer", row(FIRST, here, **shared), row(FIRST, there, **shared | {"texts": "there"}))


def signs(*shares):
    named = dict(zip(LAYERS, shares, strict=True))
    return rows_of("ablations", *ablation(FIRST, named, "sign", metric="positive_share"))


def counts(*by_layer):
    made = [
        line
        for share in (50, 90)
        for line in ablation(
            FIRST, dict(zip(LAYERS, by_layer, strict=True)), "cumulative", choice="largest",
            metric=f"dimensions_for_{share}_percent",
        )
    ]  # fmt: skip
    return rows_of("ablations", *made)


def overlaps(*values):
    named = {(FIRST, f"block {i}", f"block {i + 1}"): v for i, v in enumerate(values, 1)}
    return structure(named | {(FIRST, "embedding", "block 1"): 0.0}, "norm_overlap", **AFTER)


def steps(raw, unit):
    return joined(
        structure(models(raw), "largest_step_ratio"), structure(models(unit), "largest_step_ratio", scaling="unit")
    )


def lengths(last, normed):
    return joined(
        structure(
            {(FIRST, "block 3", "block 4"): last, (FIRST, "block 3", "final norm"): normed},
            "last_length_ratio",
            **AFTER,
        )
    )


WAY = {"way": "honest"}
CASES = {
    "norms_grow": (
        {},
        structure(models(1.3, 1.1), "growth_rate", **AFTER),
        structure(models(1.3, 0.9), "growth_rate", **AFTER),
    ),
    "growth_is_exponential": (
        {},
        structure(models(0.1, 0.2), "exponential_less_linear", **AFTER),
        structure(models(0.1, -0.1), "exponential_less_linear", **AFTER),
    ),
    "last_is_longer": ({"factor": 1.5, "after_norm": False}, lengths(3.0, 1.0), lengths(1.1, 9.0)),
    "last_is_far": (
        {"after_norm": False},
        structure(models(4.0), "last_step_ratio"),
        structure(models(0.7), "last_step_ratio"),
    ),
    "drifts_in_order": (
        {"order": 0.5},
        structure(models(0.9), "order_of_layers", scaling="unit"),
        structure(models(0.2), "order_of_layers", scaling="unit"),
    ),
    "steps_even_out": ({}, steps(3.0, 1.5), steps(1.5, 3.0)),
    "ring": (
        {"least": 0.1, "after_norm": False},
        structure(models(0.6), "return_2d", scaling="unit"),
        structure(models(0.0), "return_2d", scaling="unit"),
    ),
    "pictures_differ": (
        {"better": "pca", "worse": "tsne", "margin": 0.0},
        pictures(0.9, 0.4, "tsne"),
        pictures(0.4, 0.9, "tsne"),
    ),
    "picture_shows": ({"reduction": "umap", "high": 0.25}, pictures(0.9, 0.1, "umap"), pictures(0.9, 0.8, "umap")),
    "above_chance": (WAY | {"least": 0.3}, probes(models(0.8, 0.7)), probes(models(0.8, 0.45))),
    "at_chance": (WAY | {"margin": 0.05}, probes(models(0.21, 0.2)), probes(models(0.21, 0.3))),
    "falls_with_size": (
        WAY | {"corrected_for_chance": True},
        probes(models(0.9, 0.8, 0.6)),
        probes(models(0.6, 0.7, 0.9)),
    ),
    "rises_with": (
        {"what": "tokens", "way": "faithful"},
        grid(FIRST, {(8, 50): 0.5, (16, 50): 0.6, (8, 100): 0.6, (16, 100): 0.7}),
        grid(FIRST, {(8, 50): 0.5, (16, 50): 0.6, (8, 100): 0.7, (16, 100): 0.6}),
    ),
    "best_of_grid": (
        {"model": "gpt2", "low": 0.9, "high": 0.96},
        grid(FIRST, {(8, 50): 0.5, (16, 50): 0.93}),
        grid(FIRST, {(8, 50): 0.5, (16, 50): 0.8}),
    ),
    "transfer_costs": ({"model": "gpt2-medium"}, transfer(0.8, 0.6), transfer(0.6, 0.8)),
    "input_costs": (
        {"input_": "unit", "model": "gpt2-medium", **WAY},
        joined(probes(models(0.8)), probes(models(0.6), input="unit")),
        joined(probes(models(0.8)), probes(models(0.9), input="unit")),
    ),
    "fails_on_random": (
        {"control": "gaussian", "margin": 0.05, "model": "gpt2-medium"},
        probes(models(0.21), control="gaussian"),
        probes(models(0.9), control="gaussian"),
    ),
    "more_than_length": (
        {"model": "gpt2-medium"},
        joined(probes(models(0.8)), probes(models(0.5), classifier="norm_only")),
        joined(probes(models(0.5)), probes(models(0.8), classifier="norm_only")),
    ),
    "early_norms_overlap": ({"least": 0.5, "model": "gpt2-medium"}, overlaps(0.9, 0.1), overlaps(0.2, 0.9)),
    "same_on_new_texts": (
        {"margin": 0.01, "model": "gpt2-medium"},
        joined(probes(models(0.8)), probes(models(0.803), split="vector")),
        joined(probes(models(0.8)), probes(models(0.9), split="vector")),
    ),
    "no_dimension_stands_out": (
        {"times": 15, "model": "gpt2-medium"},
        rows_of(
            "ablations", *ablation(FIRST, {"block 1": -8.0, "block 2": 5.0}, "contribution", k=1, metric="percent")
        ),
        rows_of(
            "ablations", *ablation(FIRST, {"block 1": -20.0, "block 2": 5.0}, "contribution", k=1, metric="percent")
        ),
    ),
    "mask_costs_little": (
        {"dimensions": 4, "margin": 0.01, "model": "gpt2-medium"},
        masks(-0.002, 0.0),
        masks(-0.1, 0.0),
    ),
    "mask_is_special": ({"dimensions": 4, "model": "gpt2-medium"}, masks(-0.05, -0.01), masks(-0.01, -0.05)),
    "signs_turn": ({"model": "gpt2-medium"}, signs(0.1, 0.2, 0.8, 0.9), signs(0.6, 0.7, 0.8, 0.9)),
    "counts_are_equal": ({"margin": 0.1, "model": "gpt2-medium"}, counts(30, 31, 30, 31), counts(30, 31, 50, 31)),
    "seeds_agree": (
        {"dimensions": 4, "range_": 0.02, "model": "gpt2-medium"},
        stability(0.8, [0.8, 0.81]),
        stability(0.8, [0.7, 0.8]),
    ),
    "subspaces_are_distinct": ({"scaling": "raw"}, subspaces(0.2), subspaces(0.8)),
}


@pytest.mark.parametrize("statistic", CASES)
def test_true_and_false_claims(statistic):
    arguments, true, false = CASES[statistic]
    assert verdict(true, statistic, **arguments)["verdict"] == "reproduced"
    assert verdict(false, statistic, **arguments)["verdict"] == "not reproduced"


def test_every_statistic_is_tried_or_is_about_something_else():
    others = {"ring_by_tying", "published_runs", "experiment"}  # tested below
    assert set(layer_claims.STATISTICS) == set(CASES) | others


@pytest.mark.parametrize(("half", "expected"), [(0.001, "reproduced"), (0.2, "unresolved")])
def test_wide_intervals_leave_a_claim_open(half, expected):
    frames = joined(probes(models(0.8), half=half), probes(models(0.7), input="unit", half=half))
    found = verdict(frames, "input_costs", input_="unit", way="honest", model="gpt2-medium")
    assert found["verdict"] == expected and found["effect"] == pytest.approx(0.1)
    # Two independent errors add in squares.
    assert found["ci_high"] - found["ci_low"] == pytest.approx(2 * half * np.sqrt(2), rel=0.06)


def test_a_ring_is_expected_of_tied_tables_alone():
    def tied(**values):
        return joined(
            *(structure({m.replace("_", "-"): v}, "return_2d", scaling="unit", tied=t) for m, (v, t) in values.items())
        )

    arguments = {"least": 0.1, "after_norm": False}
    both = tied(ladder_w128=(0.6, "yes"), ladder_w256=(0.0, "no"), ladder_w512=(0.5, "unknown"))
    for name in ("yes", "no"):
        assert verdict(both, "ring_by_tying", tied=name, **arguments)["verdict"] == "reproduced"
    turned = tied(ladder_w128=(0.0, "yes"), ladder_w256=(0.5, "no"))
    for name in ("yes", "no"):
        assert verdict(turned, "ring_by_tying", tied=name, **arguments)["verdict"] == "not reproduced"
    alone = verdict(tied(ladder_w128=(0.0, "no")), "ring_by_tying", tied="yes", **arguments)
    assert alone["verdict"] == "not run" and alone["detail"] == "no model whose tables are tied was run."


def test_a_mask_of_four_dimensions_has_no_counterpart_in_a_narrow_model():
    narrow = masks(-0.2, 0.0)["ablations"].assign(model="ladder-w128", width=64)
    found = verdict({"ablations": narrow}, "mask_costs_little", dimensions=4, margin=0.01, model="gpt2-medium")
    assert found["detail"] == "one dimension of 64 is a much larger share than 4 of 1024."


def test_the_studys_own_runs_are_compared_one_by_one():
    shared = {"classifier": "sgd", "split": "vector", "input": "raw", "control": "none", "seed": "all", "layer": ""}
    mine = pd.DataFrame(
        [
            shared
            | {"suite": "gpt2", "model": "gpt2", "width": 768, "texts": "imdb", "trained_on": "imdb", "tokens": tokens}
            | {"texts_count": 1000, "n_layers": 13, "metric": "accuracy", "design": "as_published", "n": 9000}
            | {"value": value, "ci_low": value - 0.003, "ci_high": value + 0.003}
            for tokens, value in ((50, 0.9), (30, 0.86))
        ]
    )
    claim = Claim("X", "words", "gpt2", "published_runs", "figure", {"texts": "imdb", "margin": 0.02})

    def found(frame):
        return layer_claims.ledger([claim], {"grid": frame}, texts="imdb", other_texts="ag_news").iloc[0]

    theirs = published_scores.huang().query(
        "model == 'gpt2' and tokens == 30 and texts_count == 1000 and source == 'grid'"
    )
    near = mine.assign(value=mine["value"].where(mine["tokens"] == 50, theirs["value"].iloc[0]))
    near = near.assign(ci_low=near["value"] - 0.003, ci_high=near["value"] + 0.003)
    assert found(near)["verdict"] == "reproduced" and found(near)["models"] == "gpt2"
    assert found(mine)["verdict"] == "not reproduced" and "30 tokens" in found(mine)["statistic"]


def test_a_run_that_is_in_both_kinds_of_rows_is_set_beside_the_published_one_once():
    run = {"model": "gpt2", "trained_on": "imdb", "texts": "imdb", "tokens": 50, "texts_count": 1000, "n_layers": 13}
    run |= {"classifier": "sgd", "split": "vector", "input": "raw", "control": "none", "seed": "all", "layer": ""}
    run |= {"metric": "accuracy", "value": 0.9, "ci_low": 0.89, "ci_high": 0.91, "n": 100}
    probe_rows = pd.DataFrame([run | {"design": ""}, run | {"design": "", "model": "gpt2-large", "n_layers": 37}])
    grid_rows = pd.DataFrame([run | {"design": "matched", "value": 0.1}, run | {"design": "as_published"}])
    both = layer_claims.beside_published(probe_rows, grid_rows)
    assert sorted(both["model"]) == ["gpt2", "gpt2-large"] and (both["ours"] == 0.9).all()
    told = published_scores.layer_comparison_table(both)
    assert "| gpt2 | imdb | imdb | 50 | 1,000 | raw | 90.0 [89.0, 91.0] | 89.9 | +0.1 |" in told
    assert "1 of 2 published accuracies lie inside" in told
    assert "**not run**" in published_scores.layer_comparison_table(both.head(0))
    assert layer_claims.beside_published(probe_rows.drop(columns="tokens"), grid_rows.drop(columns="tokens")).empty


def test_the_entries_are_sound_and_name_figures_of_the_layers():
    entries = table_claims.load(ENTRIES, layer_claims.STATISTICS)
    assert len({entry.id for entry in entries}) == len(entries) > 40
    assert {entry.suite for entry in entries} == {"gpt2", "all"}
    assert set(layer_claims.STATISTICS) == {entry.statistic for entry in entries}
    assert all(entry.figure.startswith("layer_") for entry in entries)
    with pytest.raises(EmbscaleError, match="no statistic"):
        table_claims.load(ENTRIES)


@pytest.fixture(scope="module")
def not_run():
    """The ledger where nothing was run, by claim."""
    entries = table_claims.load(ENTRIES, layer_claims.STATISTICS)
    return layer_claims.ledger(entries, {}, texts="imdb", other_texts="ag_news").set_index("claim")


@pytest.mark.parametrize(
    ("claim", "effect", "holds"),
    [
        ("L7c", 0.952149, True),
        ("L8c", 0.646 - 1 / 49, True),
        ("L12a", 0.829512 - 0.831096, True),
        ("L15a", 0.831096 - 0.662727, True),
    ],
)
def test_the_studys_own_numbers_are_put_to_the_claims(not_run, claim, effect, holds):
    found = not_run.loc[claim]
    assert found["verdict"] == "not run" and found["detail"] == "no model of the suite gpt2 was run."
    assert found["published_effect"] == pytest.approx(effect, abs=0.001) and found["published_holds"] == holds


def test_two_rows_where_one_is_meant_and_missing_columns_are_reported():
    twice = joined(probes(models(0.8)), probes(models(0.8)))
    with pytest.raises(EmbscaleError, match=r"ladder-w128: probes, .*: 2 rows; give those of one checkpoint"):
        verdict(twice, "above_chance", way="honest", least=0.3)
    with pytest.raises(EmbscaleError, match="rows of probes: no column 'split'"):
        verdict(
            {"probes": probes(models(0.8))["probes"].drop(columns="split")}, "above_chance", way="honest", least=0.3
        )
    missing = verdict(probes(models(0.8)), "above_chance", way="honest", least=0.3, input_="unit")
    assert missing["detail"] == "no such rows (probes, logistic regression text unit accuracy)."
    alone = verdict(probes(models(0.8), half=np.nan), "above_chance", way="honest", least=0.3)
    assert "has no interval" in alone["detail"]


def test_the_command_writes_the_same_ledger_twice(tmp_path):
    for kind, rows in joined(probes(models(0.8, 0.7, 0.6)), transfer(0.8, 0.6), masks(-0.002, 0.0)).items():
        rows.to_csv(tmp_path / f"{kind}.csv", index=False)
    kinds = [
        text for kind in ("probes", "transfer", "ablations") for text in (f"--{kind}", str(tmp_path / f"{kind}.csv"))
    ]
    shared = [*kinds, "--claims", str(ENTRIES), "--texts", "here", "--other-texts", "there"]
    for name in ("a", "b"):
        outputs = ["-o", str(tmp_path / f"{name}.csv"), "--tables", str(tmp_path / name)]
        assert execute("layer-claims", [*shared, *outputs]) == 0
        assert (tmp_path / name / "layer_claims.md").read_text("utf-8").count("**reproduced**") == 5
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    rows = pd.read_csv(tmp_path / "a.csv")
    ladder = rows[rows["suite"] == "ladder"].set_index("claim")
    assert ladder.loc[["L7b", "L8b", "L12a", "L15a"], "verdict"].tolist() == ["reproduced"] * 4
    assert ladder.loc["L12a", "models"] == "ladder-w256"
