"""Score rows: means, order, missing and doubled scores, damaged files."""

import numpy as np
import pandas as pd
import pytest

from embscale.errors import EmbscaleError
from embscale.scoring import scores

NUMBERS = dict.fromkeys(("run", "variant_dims", "strength", "seed", "width"), scores.NONE)
KEYS = dict.fromkeys(scores.KEYS, "x") | NUMBERS | {"step": 4, "dim": 8}
QUERIES = [f"q{i}" for i in range(30)]
KNOWN = pd.DataFrame({"cluster": np.arange(30) // 3, "heldout": np.arange(30) % 5 == 0}, index=QUERIES)


@pytest.fixture
def per_query():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"ndcg_at_10": generator.random(30), "map_at_100": generator.random(30)})
    frame.index = pd.Index(QUERIES, name="query")
    keys = {key: value for key, value in KEYS.items() if key != "metric"}
    other = scores.long_rows(frame / 2, keys | {"model": "y"}, list(frame), KNOWN)
    return pd.concat([scores.long_rows(frame, keys, list(frame), KNOWN), other], ignore_index=True)


def summarise(*frames):
    return scores.summarise(scores.by_task(frames), resamples=200, seed=0)


def test_a_row_per_score_with_mean_interval_and_n(per_query):
    rows = summarise(per_query)
    assert list(rows.columns) == scores.COLUMNS and len(rows) == 4
    assert set(rows["n"]) == {30} and set(rows["clusters"]) == {10}
    whole = per_query[(per_query["model"] == "x") & (per_query["metric"] == "ndcg_at_10")]["score"].mean()
    row = rows[(rows["model"] == "x") & (rows["metric"] == "ndcg_at_10")].iloc[0]
    assert row["value"] == pytest.approx(whole) and row["ci_low"] < whole < row["ci_high"]
    assert rows["seed"].isna().all() and set(rows["step"]) == {4}


def test_the_order_of_rows_and_frames_does_not_matter(per_query):
    shuffled = per_query.sample(frac=1, random_state=1)
    expected = summarise(per_query)
    pd.testing.assert_frame_equal(summarise(shuffled), expected)
    parts = [shuffled[shuffled["model"] == model] for model in ("y", "x")]
    pd.testing.assert_frame_equal(summarise(*parts), expected)


def test_names_may_be_categories_as_files_are_read(per_query):
    names = [name for name, column in per_query.items() if not pd.api.types.is_numeric_dtype(column)]
    categories = per_query.astype(dict.fromkeys(names, "category"))
    assert "query" in names and "model" in names
    pd.testing.assert_frame_equal(summarise(categories), summarise(per_query))
    parts = [categories[categories["model"] == model] for model in ("x", "y")]  # categories that do not occur
    pd.testing.assert_frame_equal(summarise(*parts), summarise(per_query))


def test_a_task_is_a_matrix_of_queries_and_scores(per_query):
    (task,) = scores.by_task([per_query])
    assert task.task == "x" and task.scores.shape == (30, 4) and list(task.keys.columns) == scores.KEYS
    order = KNOWN.sort_index()  # of the queries' names
    assert task.clusters.tolist() == order["cluster"].tolist() and task.heldout.tolist() == order["heldout"].tolist()
    assert task.heldout.dtype == bool
    for place, (model, metric) in enumerate(zip(task.keys["model"], task.keys["metric"], strict=True)):
        chosen = per_query[(per_query["model"] == model) & (per_query["metric"] == metric)]
        assert task.scores[:, place].tolist() == chosen.set_index("query")["score"][order.index].tolist()


def test_tasks_have_queries_of_their_own(per_query):
    other = per_query.assign(task="z", query="z" + per_query["query"])
    found = scores.by_task([pd.concat([per_query, other])])
    assert [task.task for task in found] == ["x", "z"] and (found[0].scores == found[1].scores).all()


@pytest.mark.parametrize(("clusters", "units"), [([0] * 30, 1), (range(30), 30)])
def test_an_interval_needs_two_clusters(per_query, clusters, units):
    place = dict(zip(QUERIES, clusters, strict=True))
    rows = summarise(per_query.assign(cluster=per_query["query"].map(place)))
    assert set(rows["clusters"]) == {units} and rows["value"].notna().all()
    assert rows[["ci_low", "ci_high"]].isna().to_numpy().all() == (units == 1)


def test_of_one_query_there_is_no_interval(per_query):
    rows = summarise(per_query[per_query["query"] == "q0"])
    assert set(rows["n"]) == {1} and rows[["ci_low", "ci_high"]].isna().to_numpy().all()


def test_a_missing_score_stops(per_query):
    with pytest.raises(EmbscaleError, match="different queries, or some are missing"):
        summarise(per_query.iloc[1:])
    parts = [per_query[(per_query["model"] == "x")], per_query[(per_query["model"] == "y")].iloc[1:]]
    with pytest.raises(EmbscaleError, match="different queries, or some are missing"):
        summarise(*parts)


def test_a_score_that_is_no_number_stops(per_query):
    """It would count as 0 otherwise."""
    per_query.loc[3, "score"] = np.nan
    with pytest.raises(EmbscaleError, match="task x: a score is not a number"):
        summarise(per_query)


def test_a_doubled_score_stops(per_query):
    for frames in ([per_query, per_query.iloc[:1]],), ([per_query], [per_query]):
        with pytest.raises(EmbscaleError, match=r"occurs twice|some are missing"):
            summarise(*map(pd.concat, frames))


@pytest.mark.parametrize("where", ["data", "end"])
def test_a_damaged_file_is_reported(per_query, tmp_path, where):
    path = tmp_path / "scores.parquet"
    scores.write_parquet(per_query, path)
    pd.testing.assert_frame_equal(scores.read_parquet(path).astype(per_query.dtypes), per_query)
    content = bytearray(path.read_bytes())
    if where == "end":
        content = content[:-9]
    else:
        content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(EmbscaleError, match="remove it and make it again"):
        scores.read_parquet(path)
