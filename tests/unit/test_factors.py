"""Differences between ways of scoring, against arithmetic by hand."""

import numpy as np
import pandas as pd
import pytest

from embscale.errors import EmbscaleError
from embscale.scoring import factors
from embscale.scoring.scores import NONE

AGAINST = {"variant": "full", "pooling": "mean", "special_tokens": "exclude"}
SAME = {"suite": "s", "model": "m", "step": 400, "tokenizer": "t", "task": "T", "metric": "ndcg_at_10"}


def rows(scores, **way):
    keys = SAME | AGAINST | way
    return pd.DataFrame([keys | {"query": f"q{i}", "cluster": i, "score": score} for i, score in enumerate(scores)])


def differences(*parts):
    return factors.differences(pd.concat(parts), against=AGAINST, resamples=200, seed=1)


def test_a_difference_is_that_of_the_means_with_its_factor_and_level():
    found = differences(rows([0.0, 0.5, 1.0]), rows([0.5, 0.5, 0.8], pooling="max"))
    (row,) = found.to_dict("records")
    assert (row["factor"], row["level"], row["against"], row["n"]) == ("pooling", "max", "mean", 3)
    assert row["value"] == pytest.approx(0.6) and row["difference"] == pytest.approx(0.1)
    assert row["ci_low"] <= row["difference"] <= row["ci_high"]


def test_a_constant_difference_has_an_interval_of_no_width():
    base = np.array([0.1, 0.4, 0.3, 0.6])
    (row,) = differences(rows(base), rows(base + 0.25, variant="output")).to_dict("records")
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([0.25, 0.25])


def test_queries_of_one_cluster_are_resampled_together():
    generator = np.random.default_rng(1)
    base, other = generator.random(40), generator.random(40)
    alone = differences(rows(base), rows(other, variant="output")).iloc[0]
    # Each query four times over, in one cluster with its copies, says no more than once.
    parts = [rows(np.repeat(values, 4), **way) for values, way in ((base, {}), (other, {"variant": "output"}))]
    copied = differences(*(part.assign(cluster=part["cluster"] // 4) for part in parts)).iloc[0]
    assert copied[["ci_low", "ci_high"]].tolist() == pytest.approx(alone[["ci_low", "ci_high"]].tolist())
    (none,) = differences(*(part.assign(cluster=0) for part in parts)).to_dict("records")
    assert np.isnan([none["ci_low"], none["ci_high"]]).all() and none["difference"] == pytest.approx(
        alone["difference"]
    )


def test_rows_that_differ_in_two_factors_are_left_out():
    both = rows([0.0, 1.0], pooling="max", variant="output")
    assert differences(rows([0.0, 1.0]), both).empty


def test_the_order_of_queries_does_not_matter():
    other = rows([0.5, 0.2, 0.9], pooling="max")
    first = differences(rows([0.0, 0.5, 1.0]), other)
    pd.testing.assert_frame_equal(first, differences(rows([0.0, 0.5, 1.0]), other.iloc[::-1]))


def test_a_step_that_is_not_known_is_missing():
    parts = [rows(scores).assign(step=NONE) for scores in ([0.0, 1.0],)]
    parts.append(rows([1.0, 1.0], pooling="max").assign(step=NONE))
    assert differences(*parts)["step"].isna().all()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([rows([0.1], pooling="max")], "no score with variant full, pooling mean"),
        ([rows([0.1]), rows([0.2])], "scored twice in one way"),
        ([rows([0.1]), rows([0.1, 0.2], pooling="max")], "on other queries than another"),
    ],
)
def test_what_cannot_be_compared_is_refused(parts, words):
    with pytest.raises(EmbscaleError, match=words):
        differences(*parts)
