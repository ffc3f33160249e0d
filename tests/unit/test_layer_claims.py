"""The second study's claims on rows whose answer is known, on its own numbers, and where rows are missing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from embscale.claims import layer_claims, published_scores, table_claims, verdicts
from embscale.claims.verdicts import Claim
from embscale.cli import execute
from embscale.errors import EmbscaleError

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = ROOT / "workflow" / "layer_claims.yaml"
WIDTHS = {f"ladder-w{width}": width for width in (128, 256, 512, 1024, 2048)}
TENTH = {"share_of_range": 0.1}
BLANK = {"suite": "ladder", "texts": "here", "seed": "all", "layer": "", "n": 500, "texts_count": 40}


def row(model, value, half=0.001, **cells):
    return (
        BLANK
        | {"model": model, "width": WIDTHS[model], "value": value, "ci_low": value - half, "ci_high": value + half}
        | cells
    )


def rows_of(kind, *rows):
    frame = pd.DataFrame(rows).reindex(columns=list(dict.fromkeys([*layer_claims.NEEDED, *layer_claims.KINDS[kind]])))
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
    claim = Claim("X", "words", "gpt2", "GPT-2", "here", "family", statistic, "figure", arguments)
    found = layer_claims.ledger([claim], frames, texts="here", other_texts="there").iloc[0]
    assert found["verdict"] == verdicts.NOT_RUN  # whatever the ladder shows
    return found


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
    shared = {"classifier": "sgd", "split": "vector", "design": design}
    return rows_of(
        "grid",
        *(
            row(model, value, half, tokens=tokens, texts_count=count, metric=metric, **shared)
            for (tokens, count), accuracy in values.items()
            for metric, value, half in (("accuracy", accuracy, 0.001), ("chance", 0.2, 0.0))
        ),
    )


def masks(frequent, random):
    shared = {"fill": "zero", "refit": False, "metric": "accuracy_change", "experiment": "mask"}
    return joined(
        probes({"ladder-w256": 0.8}),
        rows_of(
            "ablations",
            row("ladder-w256", frequent, choice="frequent", weights="raw", k=1, **shared),
            row("ladder-w256", random, choice="random", weights="", k=1, **shared),
            row("ladder-w256", -0.3, choice="frequent", weights="raw", k=64, **shared),
        ),
    )


def subspaces(between):
    pairs = {
        (FIRST, "block 1", "block 1"): 0.9,
        (FIRST, "block 2", "block 2"): 0.95,
        (FIRST, "block 1", "block 2"): between,
    }
    return structure(pairs, "subspace_overlap", reference=0.1)


def stability(overlap):
    shared = {"metric": "overlap", "k": 4}
    frequent = ablation(FIRST, overlap, "stability", choice="frequent", **shared)
    chance = ablation(FIRST, 0.03, "stability", choice="random", **shared | {"weights": "", "n": np.nan})
    return rows_of("ablations", *frequent, *chance)


def pictures(pca, other, name):
    shared = {"scaling": "raw", "layers": "all", "quantity": "order_of_layers"}
    return rows_of("quality", row(FIRST, pca, reduction="pca", **shared), row(FIRST, other, reduction=name, **shared))


def transfer(here, there):
    shared = {"trained_on": "here", "metric": "accuracy"}
    chance = {"trained_on": "here", "metric": "chance"}
    return rows_of(
        "transfer",
        *(
            row(FIRST, value, half, texts=texts, **cells)
            for texts, accuracy in (("here", here), ("there", there))
            for value, half, cells in ((accuracy, 0.001, shared), (0.2, 0.0, chance))
        ),
    )


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


def controlled(linear, norm, position):
    alone = (probes(models(norm), classifier="norm_only"), probes(models(position), classifier="position_only"))
    return joined(probes(models(linear)), *alone)


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
        {"better": "pca", "worse": "tsne"},
        pictures(0.9, 0.4, "tsne"),
        pictures(0.4, 0.9, "tsne"),
    ),
    "picture_shows": ({"reduction": "umap", "high": 0.25}, pictures(0.9, 0.1, "umap"), pictures(0.9, 0.8, "umap")),
    "above_chance": (WAY | {"least": 0.3}, probes(models(0.8, 0.7)), probes(models(0.8, 0.4))),
    "at_chance": (
        WAY | {"margin": TENTH, "input_": "mean_removed"},
        joined(probes(models(0.8, 0.8)), probes(models(0.21, 0.2), input="mean_removed")),
        joined(probes(models(0.8, 0.8)), probes(models(0.21, 0.3), input="mean_removed")),
    ),
    "falls_with_size": (
        WAY | {"corrected_for_chance": True},
        probes(models(0.9, 0.85, 0.8, 0.7, 0.6)),
        probes(models(0.6, 0.7, 0.8, 0.85, 0.9)),
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
        {"input_": "unit", "least": 0.5, "model": "gpt2-medium", **WAY},
        joined(probes(models(0.8)), probes(models(0.6), input="unit")),
        joined(probes(models(0.8)), probes(models(0.9), input="unit")),
    ),
    "fails_on_random": (
        {"control": "gaussian", "margin": TENTH, "model": "gpt2-medium"},
        joined(probes(models(0.8)), probes(models(0.21), control="gaussian")),
        joined(probes(models(0.8)), probes(models(0.9), control="gaussian")),
    ),
    "more_than_length": (
        {"margin": TENTH, "model": "gpt2-medium"},
        controlled(0.8, 0.5, 0.2),
        controlled(0.8, 0.78, 0.2),  # above the length, and by less than would matter
    ),
    "early_norms_overlap": ({"least": 0.5, "model": "gpt2-medium"}, overlaps(0.9, 0.1), overlaps(0.2, 0.9)),
    "same_on_new_texts": (
        {"margin": {"share_of_range": 0.02}, "model": "gpt2-medium"},
        joined(probes(models(0.8)), probes(models(0.803), split="vector")),
        joined(probes(models(0.8)), probes(models(0.9), split="vector")),
    ),
    "mask_costs_little": (
        {"dimensions": 4, "margin": TENTH, "model": "gpt2-medium"},
        masks(-0.002, 0.0),
        masks(-0.1, 0.0),
    ),
    "mask_is_special": ({"dimensions": 4, "model": "gpt2-medium"}, masks(-0.05, -0.01), masks(-0.01, -0.05)),
    "subspaces_are_distinct": ({"scaling": "raw"}, subspaces(0.2), subspaces(0.8)),
}


@pytest.mark.parametrize("statistic", CASES)
def test_true_and_false_claims(statistic):
    arguments, true, false = CASES[statistic]
    assert verdict(true, statistic, **arguments)["analogue"] == "holds"
    assert verdict(false, statistic, **arguments)["analogue"] == "fails"


# Their intervals are over splits of the same texts.
OF_SPLITS = {
    "no_dimension_stands_out": (
        {"times": 15, "model": "gpt2-medium"},
        rows_of(
            "ablations", *ablation(FIRST, {"block 1": -8.0, "block 2": 5.0}, "contribution", k=1, metric="percent")
        ),
        8 * 128 / 100,
    ),
    "signs_turn": ({"model": "gpt2-medium"}, signs(0.1, 0.2, 0.8, 0.9), 0.15),
    "counts_are_equal": ({"range_": 0.1, "model": "gpt2-medium"}, counts(30, 31, 30, 31), 1 / 30.5),
    "seeds_agree": ({"dimensions": 4, "model": "gpt2-medium"}, stability(0.8), 0.77),
}


@pytest.mark.parametrize("statistic", OF_SPLITS)
def test_splits_of_the_same_texts_are_no_runs(statistic):
    arguments, frames, value = OF_SPLITS[statistic]
    found = verdict(frames, statistic, **arguments)
    assert found["analogue"] == "not testable" and found["effect"] == pytest.approx(value)
    assert found["detail"].startswith("no interval") and np.isnan([found["ci_low"], found["p"]]).all()


def test_every_statistic_is_tried_or_is_about_something_else():
    others = {"ring_by_tying", "published_runs", "experiment"}  # tested below
    assert set(layer_claims.STATISTICS) == set(CASES) | set(OF_SPLITS) | others
    assert set(layer_claims.KINDS_OF) == set(layer_claims.STATISTICS)
    assert {kind for kinds in layer_claims.KINDS_OF.values() for kind in kinds} <= set(layer_claims.KINDS)


def test_all_widths_are_asked_whichever_the_claim_names():
    """One width nearly fails on random vectors; the others do not."""
    frames = joined(probes(models(0.8, 0.8, 0.8)), probes(models(0.35, 0.22, 0.36), control="scalar_norm"))
    arguments = {"control": "scalar_norm", "margin": TENTH, "model": "gpt2-medium"}
    found = verdict(frames, "fails_on_random", **arguments)
    assert found["analogue"] == "fails" and found["effect"] == pytest.approx(0.16)
    assert found["detail"].startswith("2 of 3 parts are outside") and len(found["models"].split()) == 3
    assert found["runs"] == 1 and found["n"] == 40 and found["over"] == "texts"
    one = {kind: rows[(rows["model"] == "ladder-w256") | (rows["control"] == "none")] for kind, rows in frames.items()}
    found = verdict(one, "fails_on_random", **arguments)
    assert found["analogue"] == "holds" and "of the ladder only ladder-w256 was run this way" in found["detail"]


def test_what_length_or_position_explain_is_not_the_classifiers():
    arguments = {"margin": TENTH, "model": "gpt2-medium"}
    for norm, position, word in ((0.5, 0.5, "holds"), (0.78, 0.2, "fails"), (0.2, 0.78, "fails")):
        found = verdict(controlled(0.8, norm, position), "more_than_length", **arguments)
        assert found["analogue"] == word
        assert ("position only" if position > norm else "norm only") in found["statistic"]
    assert verdict(probes(models(0.8)), "more_than_length", **arguments)["analogue"] == "not testable"


def test_accuracies_at_chance_are_not_compared():
    frames = joined(probes(models(0.2)), probes(models(0.201), split="vector"))
    found = verdict(frames, "same_on_new_texts", margin={"share_of_range": 0.02}, model="gpt2-medium")
    assert found["analogue"] == "at chance"
    noise = probes(models(0.2, 0.2, 0.2, 0.2, 0.2))
    assert verdict(noise, "falls_with_size", way="honest", corrected_for_chance=True)["analogue"] == "at chance"


@pytest.mark.parametrize(("count", "smallest"), [(3, "0.33"), (4, "0.083")])
def test_few_widths_cannot_be_in_order_by_more_than_chance(count, smallest):
    frames = probes(models(*(0.9, 0.8, 0.7, 0.6)[:count]))
    found = verdict(frames, "falls_with_size", way="honest", corrected_for_chance=False)
    assert found["analogue"] == "unresolved" and f"the smallest possible p is {smallest}" in found["detail"]


def test_what_is_said_of_any_model_is_not_reproduced_on_the_ladder():
    frames = structure(models(0.0), "return_2d", scaling="unit", tied="no")
    arguments = {"tied": "no", "least": 0.1, "after_norm": False}
    claim = Claim("X", "words", "all", "models without", "here", "family", "ring_by_tying", "figure", arguments)
    found = layer_claims.ledger([claim], frames, texts="here", other_texts="there").iloc[0]
    assert found["verdict"] == verdicts.NOT_RUN and found["analogue"] == "holds"
    other = {"structure": frames["structure"].assign(suite="gpt2", model="gpt2")}
    found = layer_claims.ledger([claim], other, texts="here", other_texts="there").iloc[0]
    assert found["verdict"] == "reproduced" and found["analogue"] == "not testable"


@pytest.mark.parametrize(("half", "expected"), [(0.001, "holds"), (0.2, "unresolved")])
def test_wide_intervals_leave_a_claim_open(half, expected):
    frames = joined(probes(models(0.8), half=half), probes(models(0.7), split="vector", half=half))
    found = verdict(frames, "same_on_new_texts", margin={"share_of_range": 0.5}, model="gpt2-medium")
    assert found["analogue"] == expected and found["effect"] == pytest.approx(-0.1)
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
        assert verdict(both, "ring_by_tying", tied=name, **arguments)["analogue"] == "holds"
    turned = tied(ladder_w128=(0.0, "yes"), ladder_w256=(0.5, "no"))
    for name in ("yes", "no"):
        assert verdict(turned, "ring_by_tying", tied=name, **arguments)["analogue"] == "fails"
    alone = verdict(tied(ladder_w128=(0.0, "no")), "ring_by_tying", tied="yes", **arguments)
    assert alone["analogue"] == "not testable" and alone["detail"] == "no model whose tables are tied was run."


def test_a_mask_of_four_dimensions_has_no_counterpart_in_a_narrow_model():
    narrow = masks(-0.2, 0.0)["ablations"].assign(model="ladder-w128", width=64)
    found = verdict({"ablations": narrow}, "mask_costs_little", dimensions=4, margin=TENTH, model="gpt2-medium")
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
    arguments = {"texts": "imdb", "margin": {"share_of_range": 0.025}}
    claim = Claim("X", "words", "gpt2", "GPT-2", "imdb", "family", "published_runs", "figure", arguments)

    def found(frame):
        return layer_claims.ledger([claim], {"grid": frame}, texts="imdb", other_texts="ag_news").iloc[0]

    theirs = published_scores.huang().query(
        "model == 'gpt2' and tokens == 30 and texts_count == 1000 and source == 'grid'"
    )
    near = mine.assign(value=mine["value"].where(mine["tokens"] == 50, theirs["value"].iloc[0]))
    near = near.assign(ci_low=near["value"] - 0.003, ci_high=near["value"] + 0.003)
    assert found(near)["verdict"] == "reproduced" and found(near)["published_models"] == "gpt2"
    assert found(mine)["verdict"] == "not reproduced" and "30 tokens" in found(mine)["published_statistic"]


def test_a_run_that_is_in_both_kinds_of_rows_is_set_beside_the_published_one_once():
    run = {"model": "gpt2", "trained_on": "imdb", "texts": "imdb", "tokens": 50, "texts_count": 1000, "n_layers": 13}
    run |= {"classifier": "sgd", "split": "vector", "input": "raw", "control": "none", "seed": "all", "layer": ""}
    run |= {"metric": "accuracy", "value": 0.9, "ci_low": 0.89, "ci_high": 0.91, "n": 100}
    probe_rows = pd.DataFrame([run | {"design": ""}, run | {"design": "", "model": "gpt2-large", "n_layers": 37}])
    grid_rows = pd.DataFrame([run | {"design": "matched", "value": 0.1}, run | {"design": "as_published"}])
    none = layer_claims.read({})["repeated"]

    def beside(probes, grid, repeated=none):
        return layer_claims.beside_published({"probes": probes, "grid": grid, "repeated": repeated})

    both = beside(probe_rows, grid_rows)
    assert sorted(both["model"]) == ["gpt2", "gpt2-large"] and (both["ours"] == 0.9).all()
    told = published_scores.layer_comparison_table(both)
    assert "| gpt2 | imdb | imdb | 50 | 1,000 | raw | 90.0 [89.0, 91.0] | 89.9 | +0.1 |" in told
    assert "1 of 2 published accuracies lie inside" in told
    assert "**not run**" in published_scores.layer_comparison_table(both.head(0))
    assert beside(probe_rows.drop(columns="tokens"), grid_rows.drop(columns="tokens")).empty
    # Runs that were repeated one by one come first, without those whose dimensions were masked.
    again = run | {"suite": "gpt2", "width": 768, "way": "faithful", "masked": "", "value": 0.8}
    pile = again | {"trained_on": "pile", "texts": "pile", "tokens": 10, "texts_count": 5000, "n_layers": 12}
    repeated = [again, again | {"way": "corrected", "value": 0.1}, again | {"masked": "1", "value": 0.2}, pile]
    both = beside(probe_rows, grid_rows, layer_claims.read({"repeated": pd.DataFrame(repeated)})["repeated"])
    found = both.set_index(["model", "texts"])["ours"]
    assert found.to_dict() == {("gpt2", "imdb"): 0.8, ("gpt2", "pile"): 0.8, ("gpt2-large", "imdb"): 0.9}


def test_the_entries_are_sound_and_name_figures_of_the_layers():
    entries = verdicts.load(ENTRIES, layer_claims.STATISTICS)
    assert len({entry.id for entry in entries}) == len(entries) > 40
    assert {entry.suite for entry in entries} == {"gpt2", "all"}
    assert set(layer_claims.STATISTICS) == {entry.statistic for entry in entries}
    assert all(entry.figure.startswith("layer_") for entry in entries)
    with pytest.raises(EmbscaleError, match="no statistic"):
        verdicts.load(ENTRIES, table_claims.STATISTICS)


@pytest.fixture(scope="module")
def not_run():
    """The ledger where nothing was run, by claim."""
    entries = verdicts.load(ENTRIES, layer_claims.STATISTICS)
    return layer_claims.ledger(entries, {}, texts="imdb", other_texts="ag_news").set_index("claim")


@pytest.mark.parametrize(
    ("claim", "effect", "holds"),
    [
        ("L7c", 0.952149, True),
        ("L8c", (0.646 - 1 / 49) / (48 / 49), True),
        ("L12a", 0.829512 - 0.831096, True),
        ("L15a", 0.831096 - 0.662727, True),
    ],
)
def test_the_studys_own_numbers_are_put_to_the_claims(not_run, claim, effect, holds):
    found = not_run.loc[claim]
    assert found["verdict"] == verdicts.NOT_RUN
    assert found["published_detail"] == "no model of the suite gpt2 was run."
    assert found["printed_effect"] == pytest.approx(effect, abs=0.001) and found["printed_holds"] == holds


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
    made = joined(probes(models(0.8, 0.7, 0.6)), transfer(0.8, 0.6), masks(-0.002, 0.0))
    made["probes"] = made["probes"].drop_duplicates(["model", "metric"])
    for kind, rows in made.items():
        (tmp_path / kind).mkdir()
        rows.to_csv(tmp_path / kind / "rows.csv", index=False)
    kinds = [text for kind in made for text in (f"--{kind}", str(tmp_path / kind / "rows.csv"))]
    shared = [*kinds, "--claims", str(ENTRIES), "--texts", "here", "--other-texts", "there"]
    for name in ("a", "b"):
        outputs = ["-o", str(tmp_path / f"{name}.csv"), "--tables", str(tmp_path / name)]
        assert execute("layer-claims", [*shared, *outputs]) == 0
    a, b = (pd.read_csv(tmp_path / f"{name}.csv").drop(columns="command") for name in ("a", "b"))
    pd.testing.assert_frame_equal(a, b)
    assert list(pd.read_csv(tmp_path / "a.csv").columns) == verdicts.COLUMNS and len(a) == 50
    assert (a["analogue"] == "holds").sum() == 4
    ladder = a.set_index("claim")
    assert ladder.loc[["L7b", "L12a", "L12b", "L15a"], "analogue"].tolist() == ["holds"] * 4
    # Three widths in this order are no evidence.
    assert ladder.loc["L8b", "analogue"] == "unresolved"
    assert ladder.loc["L12a", "models"] == "ladder-w256" and ladder.loc["L12a", "rows"] == "ablations/; probes/"
