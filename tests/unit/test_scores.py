"""Score rows: means, order, missing and doubled scores, damaged files."""

import numpy as np
import pandas as pd
import pytest

from embscale.errors import EmbscaleError
from embscale.scoring import scores

KEYS = dict.fromkeys(scores.KEYS, "x") | {"step": 4, "variant_dims": scores.NONE, "seed": scores.NONE, "dim": 8}


@pytest.fixture
def per_query():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"ndcg_at_10": generator.random(30), "map_at_100": generator.random(30)})
    frame.index = pd.Index([f"q{i}" for i in range(30)], name="query")
    keys = {key: value for key, value in KEYS.items() if key != "metric"}
    other = scores.long_rows(frame / 2, keys | {"model": "y"}, list(frame))
    return pd.concat([scores.long_rows(frame, keys, list(frame)), other], ignore_index=True)


def test_a_row_per_score_with_mean_interval_and_n(per_query):
    rows = scores.summarise(per_query, resamples=200, seed=0)
    assert list(rows.columns) == scores.COLUMNS and len(rows) == 4 and set(rows["n"]) == {30}
    whole = per_query[(per_query["model"] == "x") & (per_query["metric"] == "ndcg_at_10")]["score"].mean()
    row = rows[(rows["model"] == "x") & (rows["metric"] == "ndcg_at_10")].iloc[0]
    assert row["value"] == pytest.approx(whole) and row["ci_low"] < whole < row["ci_high"]
    assert rows["seed"].isna().all() and set(rows["step"]) == {4}


def test_the_order_of_rows_does_not_matter(per_query):
    shuffled = per_query.sample(frac=1, random_state=1)
    expected = scores.summarise(per_query, resamples=200, seed=0)
    pd.testing.assert_frame_equal(scores.summarise(shuffled, resamples=200, seed=0), expected)


def test_a_missing_score_stops(per_query):
    with pytest.raises(EmbscaleError, match="different queries, or some are missing"):
        scores.summarise(per_query.iloc[1:], resamples=10, seed=0)


def test_a_doubled_score_stops(per_query):
    with pytest.raises(EmbscaleError, match="occurs twice"):
        scores.summarise(pd.concat([per_query, per_query.iloc[:1]]), resamples=10, seed=0)


@pytest.mark.parametrize("where", ["data", "end"])
def test_a_damaged_file_is_reported(per_query, tmp_path, where):
    path = tmp_path / "scores.parquet"
    scores.write_parquet(per_query, path)
    pd.testing.assert_frame_equal(scores.read_parquet(path), per_query)
    content = bytearray(path.read_bytes())
    if where == "end":
        content = content[:-9]
    else:
        content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(EmbscaleError, match="remove it and make it again"):
        scores.read_parquet(path)
