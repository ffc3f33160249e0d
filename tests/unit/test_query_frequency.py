"""Scores by frequency of the queries' tokens: made-up scores whose answer is known, and the figure of them."""

import numpy as np
import pandas as pd
import pytest
from small_corpus import MADE_OF

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.figures import NothingToShow
from embscale.figures import query_frequency as figure
from embscale.scoring import query_frequency, scores
from embscale.texts import beir, tokens
from embscale.texts.tokens import TokenisedTexts

QUERIES = [f"q{i:02}" for i in range(40)]
SHARED = {
    "tokenizer": "t", "variant_dims": -1, "strength": -1, "pooling": "mean", "special_tokens": "exclude", "task": "T",
    "length": "64", "metric": "ndcg_at_10", "dim": 8, "width": 8,
}  # fmt: skip
SETTINGS = {"resamples": 500, "seed": 1}


def scored(values, **keys):
    frame = pd.DataFrame({"query": QUERIES, "cluster": np.arange(40) // 2, "score": values})
    return frame.assign(**SHARED).assign(**{"run": -1, "step": -1, "seed": -1} | keys)


def per_query(gain=0.2, runs=3, noise=0.01):
    """Training adds `gain` to the ten queries with the most frequent tokens, and nothing to others."""
    generator = np.random.default_rng(0)
    base = generator.uniform(0.1, 0.5, 40)
    frames = [
        scored(base + noise * generator.normal(size=40), suite="random", model="random", variant=variant, seed=seed)
        for variant in ("random", "random+unit")
        for seed in (1, 2, 3, 4, 5)
    ]
    for run in range(1, runs + 1):
        for step, added in ((0, 0.0), (40, gain)):
            for variant in ("full", "unit"):
                values = base + added * (np.arange(40) >= 30) + noise * generator.normal(size=40)
                keys = {"suite": "ladder", "model": "ladder-w8", "variant": variant, "run": run, "step": step}
                frames.append(scored(values, **keys))
    return pd.concat(frames, ignore_index=True)


FREQUENCY = pd.Series(np.linspace(1, 5, 40), index=QUERIES)


def test_the_frequency_is_the_mean_of_logarithms():
    documents = TokenisedTexts(np.array([0, 0, 1, 1, 2], np.int32), np.array([0, 3, 4, 5]))  # in 1, 2 and 1 documents
    queries = TokenisedTexts(np.array([0, 1, 1, 7], np.int32), np.array([0, 3, 4, 4]))
    found = query_frequency.mean_log_frequency(documents, queries)
    assert found == pytest.approx([(np.log(2) + 2 * np.log(3)) / 3, 0, 0])  # of no document, and without tokens


def test_quarters_are_of_equal_size_in_order():
    parts = query_frequency.quarters(FREQUENCY.sample(frac=1, random_state=0))
    assert parts.value_counts().to_dict() == {1: 10, 2: 10, 3: 10, 4: 10}
    assert parts[QUERIES].tolist() == sorted(parts)


def test_a_gain_for_frequent_tokens_is_found_in_their_quarter_alone():
    rows = query_frequency.by_quarter(per_query(), FREQUENCY, variants=["full", "unit"], **SETTINGS)
    assert list(rows.columns) == query_frequency.COLUMNS and len(rows) == 2 * 5 * 3
    of = rows[rows["variant"] == "full"].set_index(["table", "quarter"])
    for quarter, expected in ((1, 0), (2, 0), (3, 0), (4, 0.2), ("all", 0.05)):
        row = of.loc["difference", quarter]
        assert row["value"] == pytest.approx(expected, abs=0.01)
        assert row["ci_low"] < row["value"] < row["ci_high"]
        assert (row["ci_low"] > 0) == (expected > 0)
        both = of.loc["trained", quarter]["value"] - of.loc["random", quarter]["value"]
        assert row["value"] == pytest.approx(both)
        assert (row["runs"], row["draws"]) == (3, 5)
    last = of.loc["difference", 4]
    assert (last["n"], last["clusters"]) == (10, 5)
    assert last["frequency_low"] == pytest.approx(np.expm1(FREQUENCY.iloc[30]))


def test_one_run_has_the_interval_of_its_queries_and_one_cluster_none():
    rows = per_query(runs=1)
    one = query_frequency.by_quarter(rows, FREQUENCY, variants=["full"], **SETTINGS)
    assert (one["runs"] == 1).all() and one["ci_low"].notna().all()
    linked = query_frequency.by_quarter(rows.assign(cluster=0), FREQUENCY, variants=["full"], **SETTINGS)
    assert linked[["ci_low", "ci_high"]].isna().all(axis=None) and (linked["clusters"] == 1).all()


def test_what_cannot_be_compared_is_reported():
    rows = per_query()
    with pytest.raises(EmbscaleError, match="no model has a table idf and random tables of its width"):
        query_frequency.by_quarter(rows, FREQUENCY, variants=["idf"], **SETTINGS)
    with pytest.raises(EmbscaleError, match="query 'q39' is not in the task"):
        query_frequency.by_quarter(rows, FREQUENCY.drop("q39"), variants=["full"], **SETTINGS)
    short = rows[(rows["run"] != 2) | (rows["query"] != "q00")]
    with pytest.raises(EmbscaleError, match="ladder-w8, full: a run was scored on other queries"):
        query_frequency.by_quarter(short, FREQUENCY, variants=["full"], **SETTINGS)
    with pytest.raises(EmbscaleError, match="a score of a run occurs twice; check --where"):
        query_frequency.by_quarter(pd.concat([rows, rows.iloc[-40:]]), FREQUENCY, variants=["full", "unit"], **SETTINGS)


def write_task(folder):
    (folder / "qrels").mkdir(parents=True)
    lines = [{"_id": f"d{i:02}", "title": "", "text": "word " * (i + 1)} for i in range(40)]
    (folder / "corpus.jsonl").write_bytes(beir.jsonl_bytes(lines))
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes([{"_id": q, "text": q} for q in QUERIES]))
    labels = "".join(f"{query}\td{i:02}\t1\n" for i, query in enumerate(QUERIES))
    (folder / "qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{labels}", "utf-8")


def test_the_command_chooses_rows_and_checks_the_texts(tmp_path, capsys):
    write_task(tmp_path / "T")
    # Query i has the token i, which is in documents 0 to i.
    offsets = np.concatenate([[0], np.cumsum(np.arange(40, 0, -1))])
    documents = TokenisedTexts(np.concatenate([np.arange(i, 40, dtype=np.int32) for i in range(40)]), offsets)
    groups = {"documents": documents, "queries": TokenisedTexts(np.arange(40, dtype=np.int32), np.arange(41))}
    tokens.save(tmp_path / "t.safetensors", groups, MADE_OF | {"data_sha256": beir.load(tmp_path / "T").sha256})
    rows = pd.concat([per_query(), per_query().assign(length="all", score=0.0)])
    scores.write_parquet(rows, tmp_path / "s.parquet")
    given = [str(tmp_path / "s.parquet"), "--beir", str(tmp_path / "T"), "--tokens", str(tmp_path / "t.safetensors")]
    given += ["--variants", "full", "--bootstrap-resamples", "200", "--bootstrap-seed", "1"]
    given += ["-o", str(tmp_path / "rows.csv")]
    assert execute("query-frequency", [*given, "--where", "length=64"]) == 0
    found = pd.read_csv(tmp_path / "rows.csv")
    assert set(found["length"]) == {64}
    last = found[(found["quarter"] == "4") & (found["table"] == "difference")].iloc[0]
    assert last["value"] == pytest.approx(0.2, abs=0.01)
    assert (last["frequency_low"], last["frequency_high"]) == pytest.approx((31, 40))
    assert execute("query-frequency", [*given, "--where", "length=7"]) == 1
    assert "no rows with task=T and length=7; check --where" in capsys.readouterr().err
    tokens.save(tmp_path / "t.safetensors", groups, MADE_OF | {"data_sha256": "other"})
    assert execute("query-frequency", given) == 1
    assert "tokens of other texts" in capsys.readouterr().err


def test_the_figure_shows_the_numbers():
    rows = query_frequency.by_quarter(per_query(), FREQUENCY, variants=["full", "unit"], **SETTINGS)
    assert len(figure.draw(rows).axes) == 2
    last = rows[(rows["quarter"] == 4) & (rows["table"] == "difference") & (rows["variant"] == "unit")].iloc[0]
    assert f"and {last['value'] * 100:.2f} ({last['ci_low'] * 100:.2f} to" in figure.describe(rows)
    without = rows.assign(ci_low=np.nan, ci_high=np.nan)
    assert figure.draw(without) and "nan" not in figure.describe(without)
    with pytest.raises(NothingToShow):
        figure.draw(rows[rows["table"] == "trained"])
