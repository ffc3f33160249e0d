"""Means over runs and differences from controls, compared with numpy on made-up scores."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from embscale.cli import execute
from embscale.scoring import scores
from embscale.scoring.estimates import COLUMNS, DIFFERENCES, estimates
from embscale.scoring.scores import NONE, TaskScores

KEYS = {
    "suite": "ladder", "model": "m", "run": 1, "step": 400, "tokenizer": "t", "variant": "full", "variant_dims": NONE,
    "strength": NONE, "seed": NONE, "dim": 8, "width": 8, "pooling": "mean", "special_tokens": "exclude", "task": "T",
    "length": "64", "metric": "ndcg_at_10", "table_sha256": "x", "tokenizer_sha256": "y", "data_sha256": "z",
}  # fmt: skip
RANDOM = {"suite": "random", "model": "random", "run": NONE, "step": NONE, "variant": "random", "variant_dims": 8}
CHANCE = RANDOM | {
    "suite": "reference", "model": "chance", "variant": "chance", "variant_dims": NONE, "dim": NONE, "width": NONE,
}  # fmt: skip
RUNS, DRAWS, QUERIES = (1, 2, 3), (42, 43, 44, 45, 46), 120
TABLES = [
    *(KEYS | {"run": run, "step": step} for run in RUNS for step in (0, 400)),
    *(KEYS | {"run": run, "step": step, "variant": "idf"} for run in RUNS for step in (0, 400)),
    *(KEYS | {"run": run, "variant": variant} for run in RUNS for variant in ("shuffled", "shuffled+idf")),
    *(KEYS | {"run": run, "variant": "pad", "variant_dims": 16, "seed": 7, "dim": 16} for run in RUNS),
    *(KEYS | RANDOM | {"seed": seed} for seed in DRAWS),
    *(KEYS | RANDOM | {"seed": seed, "variant": "random+idf", "variant_dims": NONE} for seed in DRAWS),
    *(
        KEYS | RANDOM | {"seed": seed, "variant": "random+pad", "variant_dims": 16, "dim": 16} for seed in DRAWS
    ),
    # Another width, with which nothing here is compared.
    *(KEYS | RANDOM | {"seed": seed, "variant_dims": 4, "dim": 4, "width": 4} for seed in DRAWS),
    KEYS | CHANCE,
]  # fmt: skip


def task(tables=TABLES, queries=QUERIES, clusters=None, heldout=None, seed=0):
    """Random scores, higher of trained tables."""
    rng = np.random.default_rng(seed)
    level = np.array([0.5 if keys["step"] == 400 and "shuffled" not in keys["variant"] else 0.3 for keys in tables])
    found = np.clip(rng.normal(level, 0.1, (queries, len(tables))) + rng.normal(0, 0.1, (queries, 1)), 0, 1)
    clusters = np.arange(queries) // 2 if clusters is None else np.asarray(clusters)
    heldout = np.zeros(queries, bool) if heldout is None else heldout
    return TaskScores("T", pd.DataFrame(tables), found, clusters, heldout)


def members(scored, **keys):
    """Scores ``[runs, queries]`` of the tables with these keys."""
    return scored.scores[:, (scored.keys[list(keys)] == pd.Series(keys)).all(axis=1).to_numpy()].T


def only(rows, **keys):
    (row,) = rows[(rows[list(keys)].astype(object) == pd.Series(keys)).all(axis=1)].to_dict("records")
    return row


@pytest.fixture(scope="module")
def made():
    scored = task()
    return scored, *estimates([scored], resamples=4000, seed=1)


OF = {
    "trained": ({"step": 400, "variant": "full"}, {"table": "input", "step": 400, "treatment": "full"}, 3),
    "untrained": ({"step": 0, "variant": "full"}, {"table": "input", "step": 0, "treatment": "full"}, 3),
    "with idf": ({"step": 400, "variant": "idf"}, {"table": "input", "step": 400, "treatment": "idf"}, 3),
    "shuffled": ({"variant": "shuffled"}, {"table": "shuffled", "treatment": "full"}, 3),
    "random": ({"variant": "random", "width": 8}, {"table": "random", "treatment": "full", "width": 8}, 5),
    "random with idf": ({"variant": "random+idf"}, {"table": "random", "treatment": "idf"}, 5),
    "chance": ({"variant": "chance"}, {"table": "reference", "treatment": "chance"}, 1),
}


@pytest.mark.parametrize(("tables", "cell", "runs"), OF.values(), ids=OF)
def test_an_estimate_is_the_mean_over_runs_and_queries(made, tables, cell, runs):
    scored, found, _ = made
    row, values = only(found, **cell), members(scored, **tables)
    assert values.shape == (runs, QUERIES) == (row["runs"], row["n"]) and row["clusters"] == QUERIES // 2
    assert row["value"] == pytest.approx(values.mean()) and row["ci_low"] < row["value"] < row["ci_high"]


def test_there_is_a_row_for_each_kind_of_table(made):
    _, found, differences = made
    assert list(found.columns) == COLUMNS and list(differences.columns) == DIFFERENCES
    assert len(found) == 12 and set(found["queries"]) == {"all"}
    assert found["step"].isna().sum() == 5 and found["width"].isna().sum() == 1  # random tables and chance


@pytest.mark.parametrize(
    ("against", "treatment", "control"),
    [
        ("untrained", "full", {"step": 0, "variant": "full"}),
        ("untrained", "idf", {"step": 0, "variant": "idf"}),
        ("shuffled", "full", {"variant": "shuffled"}),
        ("shuffled", "idf", {"variant": "shuffled+idf"}),
        ("random", "full", {"variant": "random", "width": 8}),
        ("random", "idf", {"variant": "random+idf"}),
        ("random", "pad:16", {"variant": "random+pad"}),
        ("chance", "full", {"variant": "chance"}),
        ("chance", "idf", {"variant": "chance"}),
    ],
)
def test_a_control_went_through_the_same_treatment(made, against, treatment, control):
    scored, _, differences = made
    row = only(differences, against=against, treatment=treatment, step=400, table="input")
    ours, theirs = members(scored, step=400, variant=treatment.partition(":")[0]), members(scored, **control)
    assert row["value"] == pytest.approx(ours.mean() - theirs.mean())
    assert (row["score"], row["control_score"]) == pytest.approx((ours.mean(), theirs.mean()))
    assert (row["runs"], row["control_runs"]) == (3, len(theirs))
    assert row["ci_low"] < row["value"] < row["ci_high"] and 0 < row["p"] < 0.05


def test_an_untrained_table_is_compared_with_random_ones_and_chance_alone(made):
    _, _, differences = made
    untrained = differences[differences["step"] == 0]
    assert sorted(untrained["against"]) == ["chance", "chance", "random", "random"]
    assert set(differences["table"]) == {"input"}


def spread(scored, values):
    """Interval of a mean of queries, by the formula of a normal distribution over clusters."""
    apart = np.bincount(scored.clusters, values - values.mean())
    return 2 * 1.96 * np.sqrt(np.square(apart).sum()) / len(values)


def width(row):
    return row["ci_high"] - row["ci_low"]


def alike(tables, *, shift):
    """Scores in which runs differ by what `shift` says of their keys, and by nothing else."""
    scored = task(tables)
    values = np.tile(scored.scores[:, :1] / 2, len(tables)) + [shift(keys) for keys in tables]
    return TaskScores("T", scored.keys, values, scored.clusters, scored.heldout)


TRAINED = [keys for keys in TABLES if keys["suite"] == "ladder" and keys["variant"] in ("full", "shuffled")]


def test_differences_from_controls_of_the_same_runs_are_paired():
    """A run that is lucky in both is in neither difference, and the scores of a query cancel."""
    scored = alike(TRAINED, shift=lambda keys: 0.1 * keys["run"] + 0.2 * (keys["variant"] == "full"))
    found, differences = estimates([scored], resamples=2000, seed=1)
    assert width(only(found, step=400, table="input")) > 0.3  # three runs apart by 0.1
    row = only(differences, against="shuffled", step=400)
    assert [row["value"], row["ci_low"], row["ci_high"]] == pytest.approx([0.2] * 3, abs=1e-9)
    row = only(differences, against="untrained", step=400)
    assert [row["value"], row["ci_low"], row["ci_high"]] == pytest.approx([0] * 3, abs=1e-9) and row["p"] == 1


def test_differences_from_random_draws_are_not_paired():
    """The third run and the third draw have nothing in common."""
    some = [*TRAINED, *(KEYS | RANDOM | {"seed": seed} for seed in RUNS)]
    scored = alike(some, shift=lambda keys: 0.1 * max(keys["run"], keys["seed"]))
    _, differences = estimates([scored], resamples=2000, seed=1)
    # Welch's interval of two means of three with equal deviations: t with four degrees of freedom.
    expected = 2 * stats.t.ppf(0.975, 4) * 0.1 * np.sqrt(2 / 3)
    assert width(only(differences, against="random", step=400)) == pytest.approx(expected, rel=0.1)


def test_against_chance_only_the_queries_of_the_score_vary():
    tables = [TABLES[1], KEYS | CHANCE]
    scored = task(tables, clusters=np.arange(QUERIES))
    scored.scores[:, 1] = 0.01
    found, differences = estimates([scored], resamples=4000, seed=1)
    assert width(only(differences, against="chance")) == pytest.approx(width(only(found, step=400)))
    assert width(only(found, table="reference")) == pytest.approx(0, abs=1e-12)


def test_of_one_run_the_interval_is_over_clusters_of_queries():
    scored = task([TABLES[1]], queries=1000, clusters=np.arange(1000) // 2)
    row = only(estimates([scored], resamples=10_000, seed=1)[0], step=400)
    assert row["runs"] == 1 and width(row) == pytest.approx(spread(scored, scored.scores[:, 0]), rel=0.05)


def test_queries_held_out_are_estimated_beside_the_others():
    heldout = np.arange(QUERIES) % 3 == 0
    scored = task(heldout=heldout)
    found, differences = estimates([scored], resamples=200, seed=1)
    for name, chosen in (("all", np.ones(QUERIES, bool)), ("heldout", heldout), ("trained on", ~heldout)):
        row = only(found, queries=name, step=400, table="input", treatment="full")
        assert row["n"] == chosen.sum()
        assert row["value"] == pytest.approx(members(scored, step=400, variant="full")[:, chosen].mean())
        assert only(differences, queries=name, step=400, against="shuffled", treatment="full")["n"] == chosen.sum()
    # Of tables as they are.
    assert set(found[found["queries"] != "all"]["treatment"]) == {"full", "chance"}


def test_if_all_queries_are_held_out_they_are_not_estimated_twice():
    found, _ = estimates([task(heldout=np.ones(QUERIES, bool))], resamples=20, seed=1)
    assert set(found["queries"]) == {"all"}


@pytest.mark.parametrize("queries", [1, QUERIES])
def test_without_independent_units_there_is_no_interval(queries):
    """One query, or queries that all belong together."""
    found, differences = estimates([task(queries=queries, clusters=[0] * queries)], resamples=50, seed=1)
    for rows in (found, differences):
        assert rows[["ci_low", "ci_high"]].isna().to_numpy().all() and rows["value"].notna().all()
        assert set(rows["clusters"]) == {1} and set(rows["n"]) == {queries}
    assert differences["p"].isna().all()


def test_the_order_of_tables_does_not_matter():
    scored, order = task(), np.random.default_rng(2).permutation(len(TABLES))
    other = TaskScores(
        "T", scored.keys.iloc[order].reset_index(drop=True), scored.scores[:, order], scored.clusters, scored.heldout
    )
    for one, two in zip(*(estimates([some], resamples=50, seed=1) for some in (scored, other)), strict=True):
        pd.testing.assert_frame_equal(one, two)


def test_the_command_reads_files_and_writes_both_tables(tmp_path, made):
    scored, found, differences = made
    queries = [f"q{number:03}" for number in range(QUERIES)]
    known = pd.DataFrame({"cluster": scored.clusters, "heldout": scored.heldout}, index=queries)
    frame = pd.DataFrame(index=pd.Index(queries, name="query"))
    files = {}
    for place, keys in enumerate(scored.keys.to_dict("records")):
        own = {name: value for name, value in keys.items() if name != "metric"}
        rows = scores.long_rows(frame.assign(ndcg_at_10=scored.scores[:, place]), own, ["ndcg_at_10"], known)
        files.setdefault(keys["suite"], []).append(rows)
    for name, parts in files.items():
        scores.write_parquet(pd.concat(parts, ignore_index=True), tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in files]
    outputs = ["--estimates", str(tmp_path / "e.csv"), "--differences", str(tmp_path / "d.csv")]
    flags = ["--bootstrap-resamples", "4000", "--bootstrap-seed", "1"]
    assert execute("estimates", [*paths, *flags, *outputs]) == 0
    for name, expected in (("e", found), ("d", differences)):
        read = pd.read_csv(tmp_path / f"{name}.csv", dtype={"length": str})
        pd.testing.assert_frame_equal(read, expected, check_dtype=False)
    assert set(json.loads((tmp_path / "e.csv.note.json").read_text())["inputs"]) == set(paths)
