"""What a score is of, read from its row."""

import pandas as pd
import pytest

from embscale.rows.treatments import split, treatments

ROWS = [
    ("ladder", "full", -1, -1, "input", "full"),
    ("ladder", "crop", 16, -1, "input", "crop:16"),
    ("ladder", "crop_pca", 16, -1, "input", "crop_pca:16"),
    ("ladder", "sif", -1, 0.001, "input", "sif:0.001"),
    ("ladder", "all_but_top", -1, 2.0, "input", "all_but_top:2"),
    ("ladder", "pad_ratio", -1, 0.0, "input", "pad_ratio:0"),
    ("ladder", "idf", None, None, "input", "idf"),
    ("ladder", "output", -1, -1, "output", "full"),
    ("ladder", "output+idf", -1, -1, "output", "idf"),
    ("ladder", "effective", -1, -1, "effective", "full"),
    ("ladder", "shuffled", -1, -1, "shuffled", "full"),
    ("ladder", "shuffled+crop", 16, -1, "shuffled", "crop:16"),
    ("random", "random", 32, -1, "random", "full"),
    ("random", "random+crop", 16, -1, "random", "crop:16"),
    ("random", "random_legacy", 32, -1, "random_legacy", "full"),
    ("reference", "bm25", -1, -1, "reference", "bm25"),
    ("reference", "chance", -1, -1, "reference", "chance"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_a_table_and_its_treatment(row):
    suite, variant, dims, strength, table, treatment = row
    rows = pd.DataFrame([{"suite": suite, "variant": variant, "variant_dims": dims, "strength": strength, "value": 1}])
    (found,) = treatments(rows).to_dict("records")
    assert (found["table"], found["treatment"], found["value"]) == (table, treatment, 1)
    if suite != "reference":
        assert split(variant) == (table, treatment.partition(":")[0])


def test_rows_keep_their_order():
    rows = pd.DataFrame(
        [row[:4] for row in [*ROWS, *ROWS[::-1]]], columns=["suite", "variant", "variant_dims", "strength"]
    ).fillna(-1)
    found = treatments(rows)
    assert found["treatment"].tolist() == [row[5] for row in [*ROWS, *ROWS[::-1]]]
    pd.testing.assert_frame_equal(found[list(rows)], rows)
