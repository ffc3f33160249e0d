"""Comparisons averaged over runs: means and intervals by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from embscale.scoring import compared_estimates, compared_tables


def similarity_rows(pairs):
    """Rows of pairs of runs: first run, second run, calibrated value."""
    return pd.DataFrame(
        [
            {
                "relation": "seeds", "table": "input", "model": "m", "run": one, "step": 4, "width": 8,
                "other_model": "m", "other_run": other, "other_step": 4, "other_width": 8, "other_table": "input",
                "measure": "cka", "value": value + 0.1, "null": 0.02, "threshold": 0.1, "calibrated": value, "p": 0.05,
                "n": 100,
            }
            for one, other, value in pairs
        ],
        columns=compared_tables.SIMILARITY,
    )  # fmt: skip


def run_rows(values):
    return pd.DataFrame(
        [
            {
                "model": "m", "run": run, "step": 4, "width": 8, "tied": "no", "indicator": "input_norm",
                "chosen": True, "metric": "auc", "value": value, "chance": 0.5, "unseen": 9, "n": 90,
            }
            for run, value in enumerate(values, 1)
        ],
        columns=compared_tables.UNDERTRAINED,
    )  # fmt: skip


NONE = pd.DataFrame(columns=compared_tables.DIMENSION)


def estimated(pairs=(), values=(), dimension=NONE):
    rows = compared_estimates.estimates(similarity_rows(pairs), dimension, run_rows(values))
    assert list(rows.columns) == compared_estimates.COLUMNS
    return rows


def test_what_is_measured_of_each_run_has_students_interval_of_a_mean():
    row = estimated(values=[0.7, 0.8, 0.6]).iloc[0]
    low, high = stats.t.interval(0.95, 2, 0.7, 0.1 / np.sqrt(3))
    assert (row["value"], row["ci_low"], row["ci_high"]) == pytest.approx((0.7, low, high))
    assert (row["chance"], row["runs"], row["n"], row["quantity"]) == (0.5, 3, 90, "auc")
    alone = estimated(values=[0.7]).iloc[0]
    assert alone["value"] == 0.7 and np.isnan(alone["ci_low"]) and alone["runs"] == 1


def test_pairs_are_left_out_with_their_run():
    pairs = [(1, 2, 0.1), (1, 3, 0.2), (2, 3, 0.6)]
    row = estimated(pairs).iloc[0]
    without = np.array([0.6, 0.2, 0.1])
    half = stats.t.ppf(0.975, 2) * np.sqrt(2 / 3 * np.square(without - without.mean()).sum())
    assert row["value"] == pytest.approx(0.3) and row["raw"] == pytest.approx(0.4)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.3 - half, 0.3 + half))
    assert (row["chance"], row["runs"], row["n"], row["relation"]) == (pytest.approx(0.02), 3, 100, "seeds")


def test_one_pair_of_two_runs_has_no_interval():
    row = estimated([(1, 2, 0.4)]).iloc[0]
    assert row["value"] == 0.4 and row["runs"] == 2 and np.isnan(row["ci_low"]) and np.isnan(row["ci_high"])


def test_a_dimension_keeps_the_interval_over_its_rows():
    keys = {"model": "m", "step": 4.0, "width": 8, "table": "input", "n": 50}
    dimension = pd.DataFrame(
        [
            keys | {"run": 1, "value": 6, "ci_low": 5, "ci_high": 7},
            keys | {"run": 2, "value": 8, "ci_low": 7, "ci_high": 10},
            keys | {"run": 1, "value": 9, "ci_low": 8, "ci_high": 10, "table": "random", "step": np.nan},
        ],
        columns=compared_tables.DIMENSION,
    )
    rows = estimated(dimension=dimension).set_index("table")
    assert rows.loc["input", ["value", "ci_low", "ci_high", "runs"]].tolist() == [7, 6, 8.5, 2]
    assert rows.loc["random", ["value", "runs", "n"]].tolist() == [9, 1, 50]


def test_no_comparisons_give_no_estimates():
    assert estimated().empty
