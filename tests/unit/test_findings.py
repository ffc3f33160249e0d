"""The title, abstract and answers of the report follow the verdicts: other numbers, another sentence."""

import pandas as pd
import pytest

from embscale.report import findings

COLUMNS = {"suite": "ladder", "treatment": "full", "against": "random", "metric": "ndcg_at_10", "length": "64"}


def differences(*intervals, treatment="full"):
    """A row for each width, from the ends of its interval in hundredths."""
    rows = [
        COLUMNS
        | {"width": 16 * 2**place, "value": (low + high) / 200, "ci_low": low / 100, "ci_high": high / 100}
        | {"treatment": treatment}
        for place, (low, high) in enumerate(intervals)
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "width", "value", "ci_low", "ci_high"])


ABOVE, BELOW, AROUND = (1, 3), (-3, -1), (-1, 1)


@pytest.mark.parametrize(
    ("intervals", "title", "answer"),
    [
        ([ABOVE, ABOVE], "retrieve better than random ones at all 2 widths", "Yes. Trained tables score above"),
        ([BELOW, AROUND], "retrieve worse than random ones at 1 of 2 widths", "No. Trained tables score below"),
        ([BELOW, ABOVE], "retrieve better than random ones at 1 and worse at 1 of 2 widths", "Only at some widths."),
        ([AROUND, AROUND], "cannot be distinguished from random ones", "Unresolved. At all 2 widths"),
        ([BELOW], "retrieve worse than random ones at the only width", "No. Trained tables score below"),
        ([], findings.OTHER_TITLE, "Not run"),
    ],
)
def test_title_and_answer_follow_the_intervals(intervals, title, answer):
    rows = differences(*intervals)
    assert findings.title(rows).endswith(title)
    assert findings.training_answer(rows).startswith(answer)


def test_widths_within_the_uncertainty_are_counted_too():
    answer = findings.training_answer(differences(BELOW, AROUND, AROUND))
    assert answer.endswith("at 1 of 3 widths; the difference at the others is within the uncertainty.")


def crossings(*statuses, tokens=(1e6, 3e6)):
    return pd.DataFrame(
        [
            {"suite": "ladder", "run": "all", "against": "random", "status": status, "tokens": at, "last_tokens": 12e6}
            for status, at in zip(statuses, tokens, strict=False)
        ]
    )


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        (
            ["crossed", "crossed"],
            "Yes. All 2 widths rise above random tables for good, between 1 million and 3 million",
        ),
        (["crossed", "not before"], "At some widths. 1 of 2 widths rise above random tables for good, from 1 million"),
        (["not before", "not before"], "Not within this training. No width is above random tables for good after 12 m"),
        (["from the start", "from the start"], "Tables need none of it. All 2 widths are above random tables from the"),
    ],
)
def test_longer_training_is_answered_by_the_crossings(statuses, words):
    assert findings.longer_answer(crossings(*statuses), curves([0.0, 0.0])).startswith(words)


def test_a_recorded_study_is_named():
    rows = crossings("crossed", "crossed")
    assert "In the recorded study `ladder`, all 2 widths" in findings.longer_answer(rows, curves([0.0, 0.0]), "ladder")
    assert "ladder" not in findings.longer_answer(rows, curves([0.0, 0.0]))


def test_runs_and_other_suites_do_not_count():
    others = pd.concat(
        [
            crossings("crossed").assign(run="1"),
            crossings("crossed").assign(suite="ladder-tied"),
            crossings("not before"),
        ]
    )
    assert findings.longer_answer(others, curves([0.0, 0.0])).startswith("Not within this training")


def curves(*lines):
    """Differences from random tables along training, a line for each width from 16 on, with intervals of 0.02."""
    rows = [
        {"suite": "ladder", "width": 16 * 2**i, "tokens": 1e5 * 4**j, "treatment": "full", "against": "random"}
        | {"value": value, "ci_low": value - 0.01, "ci_high": value + 0.01}
        for i, line in enumerate(lines)
        for j, value in enumerate(line)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            [[-0.01, -0.012, -0.01], [-0.01, -0.06, -0.03]],
            "The gap narrows at 1 of 2 widths; at width 32 from −6.00 after 400,000 tokens to −3.00.",
        ),
        ([[-0.05, -0.03], [-0.09, -0.02]], "The gap narrows at all 2 widths; at width 32 from −9.00 after 100,000"),
        ([[-0.01, -0.04], [-0.03, -0.035]], ""),
        ([[-0.01, -0.04, 0.02]], ""),  # it closes: that is for the crossings to say
    ],
)
def test_the_gap_narrows_where_it_ends_above_its_lowest_point(lines, words):
    found = findings.narrowing(curves(*lines))
    assert found.startswith(words) and bool(found) == bool(words)
    answer = findings.longer_answer(crossings("not before", "not before"), curves(*lines))
    assert answer.startswith("It narrows the gap" if words else "Not within this training") and answer.endswith(found)


def estimates(full, idf):
    rows = [
        {"suite": "ladder", "model": "ladder-w16", "step": 400, "table": "input", "treatment": treatment, "dim": 16}
        | {"width": 16, "value": value, "ci_low": value, "ci_high": value, "runs": 3, "n": 100, "metric": "ndcg_at_10"}
        | {"task": "Docs", "length": "64", "tokenizer": "bpe", "queries": "all"}
        for treatment, value in (("full", full), ("idf", idf))
    ]
    bm25 = rows[0] | {"suite": "bm25", "model": "bm25", "table": "reference", "treatment": "bm25", "value": 0.4}
    return pd.DataFrame([*rows, bm25])


def test_weights_are_compared_with_what_training_changes():
    rows = pd.concat([differences(BELOW), differences(AROUND, treatment="idf")])
    assert findings.weights_answer(estimates(0.10, 0.20), rows).startswith("Yes, more than training does: ")
    assert findings.weights_answer(estimates(0.10, 0.11), rows).startswith("Less than training does: ")
    assert "from 10.00 to 20.00" in findings.weights_answer(estimates(0.10, 0.20), rows)
    assert findings.weights_answer(estimates(0.10, 0.20).iloc[:1], rows) == "Not run."


def test_the_abstract_says_on_which_side_the_widest_table_is():
    for interval, word in ((BELOW, "below random"), (ABOVE, "above random"), (AROUND, "not clearly apart from random")):
        words = findings.tables_sentence(estimates(0.10, 0.20), differences(interval), 1e6)
        assert word in words and words.count("[") == 1 and "scores 40.00" in words


def ledger(analogues, verdict="published models not run", same_as=""):
    return pd.DataFrame({"verdict": verdict, "analogue": analogues, "same_as": same_as})


def test_claims_are_counted_without_those_that_repeat_another():
    own = ledger(["holds", "fails", "fails", "not testable"])
    words = findings.claims_answer([own, ledger(["see C1"], same_as="C1")])
    assert words.startswith("Open, as the published models were not run. Of 4 claims asked of our models, ")
    assert words.endswith(", 1 hold, 2 fail and 1 could not be tested.")
    tried = findings.claims_answer([ledger(["holds"], verdict="reproduced")])
    assert tried.startswith("On the published models, 1 reproduced of 1.")


def test_layers_are_recognised_only_above_chance():
    def probes(low):
        base = {"suite": "ladder", "texts": "t", "tokens": 32, "texts_count": 200, "trained_on": "t", "seed": "all"}
        base |= {"classifier": "logistic_regression", "split": "text", "input": "raw", "control": "none", "layer": None}
        return pd.DataFrame(
            [
                base | {"model": "a", "metric": "accuracy", "value": 0.5, "ci_low": low},
                base | {"model": "a", "metric": "chance", "value": 0.2, "ci_low": None},
            ]
        )

    assert findings.layers_answer(probes(0.4)).startswith("Yes. It is right in 50.0 to 50.0 %")
    assert findings.layers_answer(probes(0.1)).startswith("No.")
