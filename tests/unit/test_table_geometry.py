"""Measures of tables against the formulas on whole matrices, and on tables whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from small_corpus import MADE_OF

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.scoring import table_geometry
from embscale.statistics import spectra
from embscale.tables import table_files
from embscale.texts import tokens


def measured(folder, table, masks=None):
    path = folder / "table.safetensors"
    table_files.save(path, np.asarray(table, np.float32), {})
    stored = table_files.Stored.open(path)
    rows = table_geometry.measure(stored, masks or {"all": np.ones(len(table), bool)})
    return rows.set_index(["stratum", "scaling", "quantity"])


def partition_isotropy(table):
    """Mu and Viswanath 2018, equations 1 to 3, word by word."""
    _, directions = np.linalg.eigh(table.T @ table)
    sums = [np.exp(table @ c).sum() for c in (*directions.T, *(-directions.T))]
    return min(sums) / max(sums)


@pytest.mark.parametrize("block_bytes", [2**30, 8 * 8 * 7])
def test_measures_are_the_formulas_on_the_whole_matrix(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(table_geometry, "BLOCK_BYTES", block_bytes)
    table = (np.random.default_rng(0).normal(size=(60, 8)) * np.arange(1, 9) / 8 + 0.3).astype(np.float32).astype(float)
    rows = measured(tmp_path, table).loc["all"]["value"]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    lengths = np.linalg.norm(table, axis=1)
    assert rows["raw", "mean_length"] == pytest.approx(lengths.mean())
    assert rows["raw", "variation_of_length"] == pytest.approx(lengths.std() / lengths.mean())
    assert rows["unit", "mean_cosine"] == pytest.approx((unit @ unit.T)[np.triu_indices(60, 1)].mean())
    for scaling, x in (("raw", table), ("unit", unit)):
        eigenvalues = np.linalg.eigvalsh(np.cov(x.T, bias=True))
        assert rows[scaling, "effective_rank"] == pytest.approx(spectra.effective_rank(eigenvalues))
        assert rows[scaling, "participation_ratio"] == pytest.approx(spectra.participation_ratio(eigenvalues))
        assert rows[scaling, "partition_isotropy"] == pytest.approx(partition_isotropy(x))
        share = np.square(x.mean(axis=0)).sum() / np.square(x).sum(axis=1).mean()
        assert rows[scaling, "mean_share"] == pytest.approx(share)
    share = np.square(unit.mean(axis=0)).max() / np.square(unit.mean(axis=0)).sum()
    assert rows["unit", "largest_cosine_share"] == pytest.approx(share)


def test_a_gaussian_table_has_the_values_of_the_references(tmp_path):
    table = np.random.default_rng(0).normal(size=(3000, 40))
    rows = measured(tmp_path, table).loc["all"]
    known = rows[rows["reference"].notna() & ~rows.index.get_level_values("quantity").isin(["mean_share"])]
    assert len(known) == 9
    np.testing.assert_allclose(known["value"], known["reference"], rtol=0.07, atol=0.002)


def test_an_outlying_column_and_equal_rows_are_found(tmp_path):
    table = np.random.default_rng(0).normal(size=(500, 30))
    table[:, 4] *= 50
    table[7] = table[400]
    table[9] = table[400]
    table[20:23] = 0
    table[21, 3] = -0.0
    rows = measured(tmp_path, table).loc["all"]["value"]
    assert rows["raw", "outlier_columns"] == 1 and rows["raw", "largest_column_share"] > 0.9
    assert rows["raw", "duplicate_rows"] == 2 + 2 and rows["raw", "zero_rows"] == 3
    assert rows["raw", "shortest"] == 0


def test_a_common_direction_is_in_every_cosine(tmp_path):
    table = np.random.default_rng(0).normal(size=(2000, 50))
    table[:, 0] += 20
    rows = measured(tmp_path, table).loc["all"]["value"]
    assert rows["unit", "mean_cosine"] == pytest.approx(400 / (400 + 49), abs=0.02)
    assert rows["unit", "largest_cosine_share"] > 0.99
    assert rows["raw", "partition_isotropy"] < 1e-6 < rows["unit", "partition_isotropy"]


def test_strata_part_the_rows_by_frequency():
    counts = np.array([0, 0, 1, 2, 3, 4, 100])
    masks = table_geometry.strata(counts)
    assert {name: mask.nonzero()[0].tolist() for name, mask in masks.items()} == {
        "all": list(range(7)), "unseen": [0, 1], "rare": [2, 3, 4], "frequent": [5, 6]
    }  # fmt: skip
    assert list(table_geometry.strata(np.array([3, 3]))) == ["all", "rare"]
    assert list(table_geometry.strata(np.array([0, 0]))) == ["all", "unseen"]


def test_what_cannot_be_computed_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(table_geometry, "WIDEST_EXACT", 5)
    table = np.random.default_rng(0).normal(size=(4, 6))
    rows = measured(tmp_path, table, {"all": np.ones(4, bool), "rare": np.arange(4) == 2})
    assert "eigenvectors of 6 columns; exact up to 5" in rows.loc[("all", "raw", "partition_isotropy"), "reason"]
    missing = rows.loc["rare"][rows.loc["rare"]["value"].isna()]
    assert (missing["reason"] != "").all() and ("unit", "mean_cosine") in missing.index
    zeros = measured(tmp_path, np.zeros((3, 4)))
    assert zeros.loc[("all", "raw", "mean_share"), "reason"] == "all rows are zero"
    table[1, 1] = np.inf
    with pytest.raises(EmbscaleError, match="not finite"):
        measured(tmp_path, table)


def test_hashes_of_rows_tell_small_differences_and_orders_apart(tmp_path):
    base = np.zeros((4, 6), np.float32)
    base[1, 0], base[2, 1], base[3, 0] = 1, 1, np.nextafter(np.float32(1), np.float32(2))
    table_files.save(tmp_path / "t.safetensors", base, {})
    keys = table_geometry._row_keys(table_files.Stored.open(tmp_path / "t.safetensors"))
    assert len(set(keys.tolist())) == 4


def test_the_command_measures_steps_and_strata(tmp_path, capsys):
    generator = np.random.default_rng(0)
    for step in (0, 5):
        table_files.save(tmp_path / f"{step}.safetensors", generator.normal(size=(20, 4)).astype(np.float32), {})
    ids = np.repeat(np.arange(12, dtype=np.int32), np.arange(12))
    texts = tokens.TokenisedTexts(ids, np.array([0, 10, len(ids)]))
    tokens.save(tmp_path / "tokens.safetensors", {"documents": texts}, MADE_OF)
    keys = ["--suite", "own", "--model", "m", "--tied", "unknown", "-o", str(tmp_path / "rows.csv")]
    steps = [f"0={tmp_path}/0.safetensors", f"5={tmp_path}/5.safetensors"]
    assert execute("table-geometry", [*steps, "--tokens", str(tmp_path / "tokens.safetensors"), *keys]) == 0
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert set(rows["step"]) == {0, 5} and set(rows["stratum"]) == set(table_geometry.STRATA)
    assert rows.query("step == 5").groupby("stratum")["n"].first().to_dict() == {
        "all": 20, "unseen": 9, "rare": 6, "frequent": 5
    }  # fmt: skip
    table_files.save(tmp_path / "0.safetensors", np.ones((5, 4), np.float32), {})
    assert execute("table-geometry", [*steps[:1], "--tokens", str(tmp_path / "tokens.safetensors"), *keys]) == 1
    assert "token 11 is beyond the 5 rows" in capsys.readouterr().err


def test_the_reference_of_lengths_is_the_chi_distributions(tmp_path):
    rows = measured(tmp_path, np.random.default_rng(0).normal(size=(10, 7))).loc["all"]
    assert rows.loc[("raw", "variation_of_length"), "reference"] == pytest.approx(
        stats.chi(7).std() / stats.chi(7).mean()
    )
