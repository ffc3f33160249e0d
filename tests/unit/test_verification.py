"""Results computed again beside recorded ones: a change of each kind gets its own word."""

import json
from pathlib import Path

import pandas as pd
import pytest

from embscale.provenance import costs, verification
from embscale.provenance.artifacts import file_sha256
from embscale.provenance.costs import is_cost
from embscale.provenance.verification import CHANGED, EQUAL, OFF, UNKNOWN, WITHIN, compare_jobs, compare_tables, summary
from embscale.rows import tidy

RECORDED = {
    "model": ["w16", "w32", "w64"],
    "runs": [3, 3, 3],
    "value": [0.10, 0.20, 0.30],
    "ci_low": [0.08, 0.16, 0.28],
    "ci_high": [0.12, 0.24, 0.32],
    "p": [0.001, 0.20, 0.01],
    "loss": [4.0, 3.0, 2.0],
    "limit": [1, "inf", "-inf"],
    "tokens": [1000, 2000, 3.5],
    "seconds": [7.0, 8.0, 9.0],
    "longest_job": ["a", "b", "c"],
    "detail": ["0.10 of 3 runs", "0.20 of 3 runs", "0.30 of 3 runs"],
    "verdict": ["holds", "fails", "unresolved"],
    "table_sha256": ["a", "b", "c"],
}


def table(**changed):
    return pd.DataFrame(RECORDED | changed).astype(str)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({}, EQUAL),
        ({"value": [0.119, 0.20, 0.30]}, WITHIN),  # half of its interval is 0.02
        ({"value": [0.121, 0.20, 0.30]}, OFF),
        ({"value": [0.10, 0.20, 0.321]}, OFF),  # of another row
        ({"ci_low": [0.08, 0.125, 0.28]}, WITHIN),
        ({"ci_high": [0.08, 0.24, 0.32]}, OFF),
        ({"p": [0.04, 0.24, 0.05]}, WITHIN),
        ({"p": [0.06, 0.20, 0.01]}, OFF),
        ({"loss": [4.19, 3.0, 2.0]}, WITHIN),  # 5 %
        ({"loss": [4.21, 3.0, 2.0]}, OFF),
        ({"runs": [3, 3, 2]}, OFF),  # what a row is about has no tolerance
        ({"seconds": [70.0, 80.0, 90.0]}, WITHIN),  # what a job took is another number each time
        ({"longest_job": ["b", "b", "b"]}, WITHIN),
        ({"tokens": [1001, 2000, 3.5]}, OFF),  # a count
        ({"tokens": [1000, 2000, 3.6]}, WITHIN),  # an estimate
        ({"limit": [1.0, "inf", "-inf"]}, WITHIN),
        ({"limit": [1.0, "inf", "inf"]}, OFF),
        ({"limit": [1.0, "nan", "-inf"]}, OFF),
        ({"limit": [1.0, 5, "-inf"]}, OFF),
        ({"limit": [1.0, "", "-inf"]}, OFF),
        ({"model": ["w16", "w32", "w128"]}, OFF),  # a row of another model
        ({"model": ["w64", "w32", "w16"]}, CHANGED),  # rows are compared with those of the same model
        ({"model": ["w16", "w32", "wide"]}, OFF),
        ({"detail": ["0.11 of 3 runs", "0.20 of 3 runs", "0.30 of 3 runs"]}, WITHIN),
        ({"detail": ["0.11 of no run", "0.20 of 3 runs", "0.30 of 3 runs"]}, OFF),
        ({"value": [0.10, 0.20, float("nan")]}, OFF),
        ({"verdict": ["holds", "holds", "unresolved"]}, CHANGED),
        ({"verdict": ["holds", "holds", "unresolved"], "value": [9, 9, 9]}, CHANGED),
        ({"table_sha256": ["x", "y", "z"]}, WITHIN),
    ],
)
def test_each_change_has_its_word(changed, word):
    found = compare_tables(table(**changed), table())
    assert found.word == word
    assert (found.worst > 1) == (word in (OFF, CHANGED))


def test_an_interval_of_rounding_errors_is_none():
    ends = {"ci_low": [0.1 - 1e-16, 0.2, 0.3], "ci_high": [0.1, 0.2, 0.3]}
    assert compare_tables(table(**ends, value=[0.1 + 1e-15, 0.2, 0.3]), table(**ends)).word == WITHIN


def test_rows_in_another_order_are_the_same_rows():
    found = compare_tables(table().iloc[::-1].reset_index(drop=True), table())
    assert found.word == WITHIN and found.same


def test_rows_chosen_from_others_are_compared():
    chosen = table().iloc[1:]
    assert compare_tables(chosen, chosen).word == EQUAL


def test_no_cost_but_a_cost_counts_as_one():
    """Over the tables in the repository: a column's name says what is left out of a comparison."""
    recorded = Path(__file__).parents[2] / "recorded"
    columns = {name for path in recorded.rglob("*.csv") for name in tidy.load_text(path)}
    assert {name for name in columns if is_cost(name)} == {"seconds"}
    assert [name for name in costs.COLUMNS if not is_cost(name)] == ["step", "jobs"]


def test_a_training_that_took_longer_is_the_recorded_one():
    path = Path(__file__).parents[2] / "recorded/desk/ladder/costs.csv"
    recorded = tidy.load_text(path)
    slower = recorded.assign(seconds=(recorded["seconds"].astype(float) * 7).astype(str))
    found = compare_tables(slower, recorded)
    assert found.word == WITHIN and found.same
    assert compare_tables(slower.assign(tokens="1"), recorded).word == OFF


@pytest.mark.parametrize("name", ["layers", "ladder/crossings"])
def test_every_changed_number_of_a_recorded_table_is_seen(name):
    recorded = tidy.load_text(Path(__file__).parents[2] / f"recorded/desk/{name}.csv").head(3)
    assert compare_tables(recorded, recorded).word == EQUAL
    for column in recorded:
        numbers = pd.to_numeric(recorded[column], errors="coerce")
        if numbers.notna().any():
            first = recorded.index == int(numbers.notna().argmax())
            other = recorded.assign(**{column: recorded[column].mask(first, str(numbers[first].item() * 7 + 7))})
            assert compare_tables(other, recorded).word == OFF, column


def test_rows_that_are_missing_or_more_are_off():
    assert compare_tables(table().head(2), table()).word == OFF
    assert compare_tables(table().assign(more="1"), table()).word == OFF


def test_what_is_worst_is_named():
    found = compare_tables(table(value=[0.10, 0.26, 0.30]), table())
    assert found.where == "w32: value '0.26', recorded '0.2'"
    assert found.worst == pytest.approx(1.5)


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    note = {"command": "made", "outputs": {name: file_sha256(path)}, "inputs": {}, "sources": {}}
    path.with_name(path.name + ".note.json").write_text(json.dumps(note), "utf-8")


@pytest.fixture
def folders(tmp_path):
    computed, recorded = tmp_path / "computed", tmp_path / "recorded"
    for folder in (computed, recorded):
        write(folder, "scores/same.csv", "value\n1\n")
        write(folder, "tables/a.safetensors", str(folder))
    write(computed, "scores/near.csv", "value\n1.0\n")
    write(recorded, "scores/near.csv", "value\n1.01\n")
    write(computed, "new.csv", "value\n1\n")
    write(recorded, "not_computed.csv", "value\n1\n")
    return computed, recorded


def test_outputs_of_both_are_compared(folders):
    found = {one.path: one.word for one in compare_jobs(*folders)}
    assert found == {"scores/same.csv": EQUAL, "scores/near.csv": WITHIN, "tables/a.safetensors": UNKNOWN}


def test_tensors_need_not_be_there(folders):
    computed, recorded = folders
    write(recorded, "tables/a.safetensors", str(computed))
    (recorded / "tables/a.safetensors").unlink()
    assert {one.word for one in compare_jobs(*folders) if one.path.startswith("tables")} == {EQUAL}


def test_one_value_that_is_off_is_enough(folders):
    computed, recorded = folders
    chapters = {"scores": "scores", "tables": "training"}
    fine = summary(compare_jobs(computed, recorded), chapters)
    assert fine["reproduced"] and fine["outputs"] == 3 and fine["numbers"] == 1
    assert fine["by_chapter"]["training"][UNKNOWN] == 1
    assert [one["path"] for one in fine["worst"]] == ["scores/near.csv"]
    write(computed, "scores/near.csv", "value\n2.0\n")
    bad = summary(compare_jobs(computed, recorded), chapters)
    assert not bad["reproduced"] and bad["by_chapter"]["scores"] == dict.fromkeys(verification.WORDS, 0) | {
        EQUAL: 1,
        OFF: 1,
    }


def test_nothing_is_no_reproduction():
    assert not summary([], {})["reproduced"]


def test_outputs_without_values_are_no_reproduction(folders):
    tensors = [one for one in compare_jobs(*folders) if one.path.startswith("tables")]
    found = summary(tensors, {})
    assert found["by_chapter"]["other"][UNKNOWN] == found["outputs"] == 1 and not found["reproduced"]
