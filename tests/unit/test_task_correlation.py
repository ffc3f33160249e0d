"""Rank correlation between tasks: made-up scores whose order is known, scipy, and the figure."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.figures import NothingToShow
from embscale.figures import task_correlation as figure
from embscale.scoring import scores, task_correlation

SHARED = {"tokenizer": "t", "variant_dims": -1, "strength": -1, "pooling": "mean", "special_tokens": "exclude"}
SETTINGS = {"resamples": 300, "seed": 1}
WIDTHS = (8, 16, 32, 64)


def rows_of(task, means, *, queries=60, noise=0.002, seed=0):
    """Scores of queries around a mean for each table: ``(suite, model, run, seed, width) -> mean``."""
    generator = np.random.default_rng(seed)
    shift = generator.normal(size=queries) * 0.02  # of the queries, the same for all tables
    shift -= shift.mean()
    frames = []
    for (suite, model, run, draw, width), mean in means.items():
        own = noise * generator.normal(size=queries)
        keys = {"suite": suite, "model": model, "run": run, "seed": draw, "width": width, "dim": width}
        variant = "random" if suite == "random" else "full"
        frame = pd.DataFrame({
            "query": [f"{task}{i}" for i in range(queries)], "cluster": np.arange(queries) // 2,
            "score": mean + shift + own - own.mean(),
        })  # fmt: skip
        frames.append(frame.assign(**SHARED, **keys, variant=variant, step=-1 if suite == "random" else 40))
    return pd.concat(frames, ignore_index=True).assign(task=task, length="64", metric="ndcg_at_10")


def tables(ladder, random=lambda width: width / 200):
    means = {("ladder", f"ladder-w{w}", run, -1, w): ladder(w, run) for w, run in itertools.product(WIDTHS, (1, 2, 3))}
    return means | {("random", "random", -1, s, w): random(w) + s / 1000 for w, s in itertools.product(WIDTHS, (1, 2))}


def both(one, other, **options):
    return pd.concat([rows_of("A", one, **options), rows_of("B", other, seed=5, **options)], ignore_index=True)


def correlation(found, population, quantity="kendall"):
    chosen = found[(found["population"] == population) & (found["quantity"] == quantity)]
    assert len(chosen) == 1
    return chosen.iloc[0]


def test_the_same_order_is_one_and_has_no_interval():
    order = tables(lambda width, run: width / 100 + run / 50)
    found = task_correlation.correlations(both(order, order, noise=0), **SETTINGS)
    assert list(found.columns) == task_correlation.COLUMNS
    for population, count in (("ladder", 12), ("ladder, mean of runs", 4), ("random", 8)):
        row = correlation(found, population)
        assert row["value"] == pytest.approx(1) and row["tables"] == count
        assert np.isnan(row["ci_low"]) and np.isnan(row["ci_high"])  # every resample has this order
    # Four widths in the same order: one of 24 orders, and its reverse.
    assert correlation(found, "ladder, mean of runs")["p"] == pytest.approx(2 / 24)
    assert correlation(found, "ladder, mean of runs")["smallest_p"] == pytest.approx(2 / 24)


def test_opposite_orders_above_random_are_seen_although_width_alone_correlates():
    """Both tasks rise with width as random tables do; what is above them rises on one and falls on the other."""
    one = tables(lambda width, run: width / 200 + width / 4000 + run / 10_000)
    other = tables(lambda width, run: width / 200 - width / 4000 - run / 10_000)
    found = task_correlation.correlations(both(one, other, noise=0.0005), **SETTINGS)
    assert correlation(found, "ladder, mean of runs")["value"] == pytest.approx(1)
    assert correlation(found, "ladder above random")["value"] < -0.9
    points = found[(found["population"] == "ladder above random") & (found["quantity"] == "score")]
    first = points[(points["task"] == "A") & (points["model"] == "ladder-w8")]["value"].mean()
    assert first == pytest.approx(8 / 4000 + 2 / 10_000 - 1.5 / 1000, abs=1e-3)


def test_correlations_are_scipys():
    generator = np.random.default_rng(2)
    one, other = (tables(lambda *_: generator.uniform(0.1, 0.5)) for _ in "AB")
    found = task_correlation.correlations(both(one, other, noise=0.2), **SETTINGS)
    points = found[(found["population"] == "ladder") & (found["quantity"] == "score")]
    x, y = (points[points["task"] == task]["value"].to_numpy() for task in "AB")
    kendall = correlation(found, "ladder")
    expected = stats.kendalltau(x, y, method="exact")
    assert (kendall["value"], kendall["p"]) == pytest.approx((expected.statistic, expected.pvalue))
    assert kendall["ci_low"] <= kendall["value"] <= kendall["ci_high"]
    assert correlation(found, "ladder", "spearman")["value"] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_scores_are_means_over_queries_and_one_cluster_gives_no_interval():
    rows = both(tables(lambda width, _: width / 100), tables(lambda width, _: width / 100))
    found = task_correlation.correlations(rows, **SETTINGS)
    score = found[(found["quantity"] == "score") & (found["model"] == "ladder-w8")].iloc[0]
    assert score["value"] == pytest.approx(0.08) and score["ci_low"] < 0.08 < score["ci_high"]
    assert (score["n"], score["clusters"]) == (60, 30)
    linked = task_correlation.correlations(rows.assign(cluster=0), **SETTINGS)
    assert linked[["ci_low", "ci_high"]].isna().all(axis=None) and linked["value"].notna().all()


def test_only_tables_scored_on_both_tasks_count_and_two_have_no_correlation():
    rows = both(tables(lambda width, _: width / 100), tables(lambda width, _: width / 100))
    few = rows[(rows["task"] == "A") | (rows["run"] == 1) & rows["width"].isin([8, 16])]
    found = task_correlation.correlations(few, **SETTINGS)
    assert set(found["population"]) == {"ladder"} and set(found["quantity"]) == {"score"} and len(found) == 4


def test_what_cannot_be_correlated_is_reported(tmp_path, capsys):
    rows = both(tables(lambda width, _: width / 100), tables(lambda width, _: width / 100))
    with pytest.raises(EmbscaleError, match="scores of the tasks A: expected two"):
        task_correlation.correlations(rows[rows["task"] == "A"], **SETTINGS)
    with pytest.raises(EmbscaleError, match="task A: a table was scored twice"):
        task_correlation.correlations(pd.concat([rows, rows]), **SETTINGS)
    scores.write_parquet(rows, tmp_path / "s.parquet")
    given = [str(tmp_path / "s.parquet"), "--bootstrap-resamples", "100", "--bootstrap-seed", "1"]
    given += ["-o", str(tmp_path / "rows.csv")]
    assert execute("task-correlation", [*given, "--where", "length=64"]) == 0
    assert correlation(pd.read_csv(tmp_path / "rows.csv"), "ladder, mean of runs")["value"] == pytest.approx(1)
    assert execute("task-correlation", [*given, "--where", "length=all"]) == 1
    assert "no rows with length=all; check --where" in capsys.readouterr().err


def test_the_figure_shows_the_numbers():
    rows = both(tables(lambda width, run: width / 100 + run), tables(lambda width, _: width / 90), noise=0.1)
    found = task_correlation.correlations(rows, **SETTINGS)
    assert len(figure.draw(found).axes) == 2
    text = figure.describe(found)
    value = correlation(found, "ladder")["value"]
    assert f"ladder: {value:.2f}" in text and "nan" not in text
    assert "ladder, mean of runs: 1.00 over 4 tables, p 0.083, as many tables reach no p below 0.08" in text
    with pytest.raises(NothingToShow):
        figure.draw(found[found["task"] == "A"])
