"""The rules of verdicts on made-up quantities of which the right verdict is known."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from embscale.claims import table_claims, verdicts
from embscale.claims.verdicts import Claim, Outcome, Part, Trend
from embscale.errors import EmbscaleError
from embscale.statistics import resampling


def part(value, spread, low=0.0, high=np.inf, words="x", **given):
    draws = np.random.default_rng(len(words)).normal(value, spread, size=4000)
    return Part(words, np.concatenate([[value], draws]), low, high, **given)


def side(value, spread):
    return part(value, spread).draws


def test_a_claim_is_as_sure_as_its_least_sure_part():
    sure, unsure = part(5, 1, words="sure"), part(1.5, 1, words="unsure")
    assert verdicts.decide([sure, unsure]).part is unsure
    # One part against it is enough, and pays for having been chosen among three.
    against = part(-3, 1, words="against")
    found = verdicts.decide([sure, unsure, against])
    assert found.part is against and found.estimate.p == pytest.approx(3 * against.estimate().p)
    barely = part(-0.1, 1, words="barely")
    assert verdicts.decide([sure, barely]).estimate.p == 1


def test_a_range_is_tested_at_the_end_in_question():
    assert part(0.5, 0.1, 0, 1).estimate().p < 0.001
    assert part(0.9, 0.1, 0, 1).estimate().p == pytest.approx(2 * 0.159, abs=0.03)
    assert part(1.2, 0.1, 0, 1).estimate().p == pytest.approx(2 * 0.0228, abs=0.02)
    assert not part(1.2, 0.1, 0, 1).holds and part(1.2, 0.1, 0, 1).excess == pytest.approx(-0.2)


def test_a_false_claim_is_seldom_called_true():
    """A peak among four equal models: the rate of either sure verdict stays near its level."""
    generator = np.random.default_rng(0)
    sure = 0
    for _ in range(300):
        values = generator.normal(size=(100, 4))
        means = np.vstack([values.mean(axis=0), resampling.bootstrap_means(values, resamples=300, seed=1)])
        parts = [Part(str(i), means[:, 0] - means[:, i]) for i in (1, 2, 3)]
        sure += verdicts.decide(parts).estimate.p < 0.05
    assert sure / 300 < 0.08


def test_either_side_at_chance_gives_no_verdict():
    clear, noise = side(0.1, 0.01), side(0.01, 0.01)
    for sides, expected in (((clear, clear), "holds"), ((clear, noise), "at chance"), ((noise, noise), "at chance")):
        found = verdicts.decide([part(0.2, 0.01, above_chance=sides)])
        assert found.word == expected
        assert np.isnan(found.estimate.p) == (expected == "at chance")
    # Of a trend it is enough if so many exceed chance.
    assert verdicts.decide([part(0.2, 0.01, above_chance=(clear, clear, clear, noise), needed=3)]).word == "holds"
    assert verdicts.decide([part(0.2, 0.01, above_chance=(clear, clear, noise, noise), needed=3)]).word == "at chance"


def test_a_value_without_independent_units_is_shown_and_not_tested():
    found = verdicts.decide([Part("x", np.array([3.0, np.nan, np.nan]))])
    assert found.word == "not testable" and found.estimate.value == 3 and np.isnan(found.estimate.low)


def test_a_fact_needs_no_resampling():
    assert verdicts.decide([Part("x", np.array([1.0]), 0.5)]).word == "holds"
    found = verdicts.decide([Part("x", np.array([0.0]), 0.5)])
    assert found.word == "fails" and np.isnan(found.estimate.p)  # by a p-value of 1 the ledger would leave it open


def trend(sizes, scores, *, ranks=True):
    return Trend(tuple(map(float, sizes)), np.asarray(scores, float)[None, :], ranks)


def test_the_p_value_of_ranks_is_the_exact_one():
    scores = [0.3, 0.1, 0.5, 0.4, 0.7, 0.6]
    sizes = [1, 2, 4, 8, 16, 32]
    exact = stats.kendalltau(sizes, scores, method="exact").pvalue
    assert trend(sizes, scores).p() == pytest.approx(exact)
    assert trend(sizes, scores[::-1]).p() == pytest.approx(exact)


def test_the_p_value_of_a_rise_is_that_of_all_permutations():
    sizes, scores = [1, 2, 4, 8, 16], np.array([0.1, 0.15, 0.2, 0.18, 0.4])
    x = np.log2(sizes)

    def rise(y):
        return np.polyfit(x, y, 1)[0]

    exact = stats.permutation_test((scores,), rise, permutation_type="pairings", n_resamples=np.inf).pvalue
    assert trend(sizes, scores, ranks=False).p() == pytest.approx(exact)
    # Of another hypothesis: no different rise than 0.05 for each doubling.
    found = stats.permutation_test((scores - 0.05 * x,), rise, permutation_type="pairings", n_resamples=np.inf).pvalue
    assert trend(sizes, scores, ranks=False).p(0.05) == pytest.approx(found)


@pytest.mark.parametrize("ranks", [True, False])
def test_runs_of_one_width_are_interchangeable(ranks):
    sizes = [1, 4, 1, 4, 16, 1]
    scores = np.array([0.1, 0.5, 0.2, 0.4, 0.7, 0.15])
    assert len(verdicts.arrangements(sizes)) == 60  # 6! / (3! 2! 1!)
    function = resampling.kendall if ranks else resampling.slope
    found = function(sizes, np.array([scores[list(order)] for order in itertools.permutations(range(6))]))
    observed = function(sizes, scores)
    exact = 2 * min((found <= observed + 1e-12).mean(), (found >= observed - 1e-12).mean())
    assert trend(sizes, scores, ranks=ranks).p() == pytest.approx(exact)


def test_four_widths_of_three_runs_have_so_many_orders():
    sizes = [16, 32, 64, 128] * 3
    listed = verdicts.arrangements(sizes)
    assert listed.shape == (369_600, 12) and (np.sort(listed, axis=1) == np.arange(12)).all()
    made = trend(sizes, np.arange(12))
    assert made.smallest_p == pytest.approx(2 / 369_600) and "all 369,600 orders of 12" in made.words


def test_of_too_many_orders_some_are_drawn():
    sizes = np.repeat([16, 32, 64, 128, 256], 3)
    scores = np.random.default_rng(1).normal(size=15)
    assert "random" not in trend([1, 2, 3], [1, 2, 3]).words
    listed = verdicts.arrangements(sizes)
    assert (listed[0] == np.arange(15)).all() and (np.sort(listed, axis=1) == np.arange(15)).all()
    z = 3 * np.sqrt(0.25 / len(listed))
    whole = stats.kendalltau(sizes, scores, method="asymptotic").pvalue
    assert trend(sizes, scores).p() == pytest.approx(whole, abs=0.05 + z)
    assert "10,000 random orders of 15" in trend(sizes, scores).words


@pytest.mark.parametrize(("models", "smallest"), [(3, 1 / 3), (4, 1 / 12), (5, 1 / 60)])
def test_the_smallest_p_of_few_models_is_told_where_it_is_too_large(models, smallest):
    ordered = trend(range(1, models + 1), range(models))
    assert ordered.p() == ordered.smallest_p == pytest.approx(smallest)
    assert ("none could be significant" in ordered.words) == (smallest > 0.05)


def test_a_trend_must_be_beyond_queries_and_models_both():
    order = trend([1, 2, 4, 8, 16], [1, 2, 3, 4, 5])
    sure = part(1, 0.01, unit="tau", trend=order)
    assert sure.estimate().p == pytest.approx(1 / 60)
    assert part(1, 3, unit="tau", trend=order).estimate().p > 0.5


def test_a_flat_truth_has_a_trend_in_one_of_twenty():
    generator = np.random.default_rng(7)
    sizes = np.repeat([16, 32, 64], 3)
    found = [trend(sizes, generator.normal(size=9)).p() < 0.05 for _ in range(400)]
    assert np.mean(found) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    steep = [trend(sizes, np.log2(sizes) + generator.normal(0, 0.3, size=9)).p() < 0.05 for _ in range(50)]
    assert np.mean(steep) > 0.9


def row(name, *, p=0.01, family="f", parts=None, published=None, **given):
    claim = Claim(name, "w", "s", "two models", "T", family, "difference", "figure", **given)
    found = parts or [part(1, 0.2, words=f"{name} {p}")]
    other = published or Outcome("no model of the suite was scored", ran=False)
    made = verdicts.ledger_row(
        claim, other, Outcome(found, ["m"], 7, "queries", 3), "not printed", help_="Help.", rows="r/", command="c"
    )
    return made | ({} if parts else {"p": p})


def test_what_the_ladder_shows_is_no_verdict_on_published_models():
    made = verdicts.ledger([row("A")], {}).iloc[0]
    assert made["verdict"] == "published models not run" and made["analogue"] == "holds"
    assert made["population"] == "two models, on T"
    assert [made[name] for name in ("figure", "rows", "command")] == ["figure", "r/", "c"]
    both = row("A", published=Outcome([part(-1, 0.1)], ["x"], 9, "queries", 1))
    made = verdicts.ledger([both], {}).iloc[0]
    assert made["verdict"] == "not reproduced" and made["published_effect"] == -1 and made["analogue"] == "holds"


def test_models_that_were_run_and_cannot_tell_are_not_called_missing():
    assert row("A", published=Outcome("no such checkpoint"))["verdict"] == "not testable"
    assert row("A", published=Outcome("x was not scored", ran=False))["verdict"] == "published models not run"


def test_families_are_corrected_for_themselves():
    rows = [row("A", p=0.03), row("B", p=0.04), row("C", p=0.04, family="g"), row("D", p=0.2, family="g")]
    table = verdicts.ledger(rows, {}).set_index("claim")
    assert table["p_holm"].to_dict() == pytest.approx({"A": 0.06, "B": 0.06, "C": 0.08, "D": 0.2})
    assert set(table["analogue"]) == {"unresolved"}
    alone = verdicts.ledger([row("A", p=0.03), row("C", p=0.04, family="g")], {}).set_index("claim")
    assert alone["analogue"].to_dict() == {"A": "holds", "C": "holds"}


def test_the_same_test_stands_once_and_does_not_count_twice():
    one, other = [part(1, 0.3, words="a")], [part(1, 0.3, words="b")]
    wider = [Part("c", one[0].draws, -1.0)]
    same = verdicts.same_tests({"A": one, "B": other, "C": wider, "D": "no score", "E": list(one)})
    assert same == {"B": "A", "E": "A"}
    table = verdicts.ledger([row("A", p=0.03), row("B", p=0.03)], {"B": "A"}).set_index("claim")
    assert table.loc["A", "p_holm"] == pytest.approx(0.03) and table.loc["A", "analogue"] == "holds"
    assert table.loc["B", "analogue"] == "see A" and table.loc["B", "same_as"] == "A"
    assert table.loc["B", ["effect", "p", "p_holm", "statistic"]].isna().all()


def test_the_table_tells_why_a_claim_was_not_tested():
    untested = row("B")
    untested |= dict.fromkeys(verdicts.TEST) | {"analogue": "not testable", "detail": "why."}
    table = verdicts.ledger([row("A"), untested], {})
    missing = verdicts.not_run_table(table)
    assert "**B**" in missing and "| **not testable** Why\\. |" in missing and "**A**" not in missing
    assert verdicts.not_run_table(table.head(1)) == "Every claim was tested.\n"
    assert pd.read_csv(pd.io.common.StringIO(table.to_csv())).shape[0] == 2


ENTRY = "C1: {words: w, suite: s, population: p, task: t, family: f, figure: f, statistic: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected claims by their id"),
        ("C1: {words: w, suite: s, population: p, task: t, family: f, figure: f}", "C1: lacks statistic"),
        ("C1: {words: w, suite: s, task: t, family: f, figure: f, statistic: trend}", "C1: lacks population"),
        (ENTRY + "guess}", "no statistic 'guess'; known are difference"),
        (ENTRY + "peak}", "arguments of peak: missing a required argument"),
        (ENTRY + "trend, hue: 1}", "unknown key hue"),
        (ENTRY + "no_rise, arguments: {margin: 0.01}}", "margin 0.01: expected {share_of_range: NUMBER or"),
        (ENTRY + "no_rise, arguments: {margin: {points: 1}}}", "never points of a score"),
        ("C1: [", "not YAML"),
    ],
)  # fmt: skip
def test_a_broken_entry_is_reported(tmp_path, text, message):
    path = tmp_path / "claims.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(EmbscaleError, match=re.escape(message)):
        verdicts.load(path, table_claims.STATISTICS)
