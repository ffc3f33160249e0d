"""Rows by frequency of their tokens: norms and cosines of tables whose answer is known, and their figures."""

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.figures import NothingToShow, row_movement, row_norms
from embscale.scoring import row_frequency, table_geometry
from embscale.tables import table_files
from embscale.texts import tokens

COUNTS = np.array([0, 0, 1, 3, 4, 20, 20, 5000, 5000, 5000])


def stored(folder, name, table):
    path = folder / f"{name}.safetensors"
    table_files.save(path, np.asarray(table, np.float32), {})
    return table_files.Stored.open(path)


def test_classes_part_the_tokens():
    masks = row_frequency.classes(COUNTS)
    assert {name: mask.nonzero()[0].tolist() for name, mask in masks.items()} == {
        "all": list(range(10)), "0": [0, 1], "1 to 3": [2, 3], "4 to 15": [4], "16 to 63": [5, 6],
        "1024 or more": [7, 8, 9],
    }  # fmt: skip


@pytest.mark.parametrize("block_bytes", [2**30, 8 * 3 * 4])
def test_rows_that_turn_by_a_known_angle(tmp_path, monkeypatch, block_bytes):
    """Rare rows stay, frequent ones turn by 60 degrees and double; one row is zero and has no direction."""
    monkeypatch.setattr(row_frequency, "BLOCK_BYTES", block_bytes)
    generator = np.random.default_rng(0)
    before = np.zeros((10, 3))
    before[:, 0] = generator.uniform(1, 2, size=10)
    after = before.copy()
    after[7:] = before[7:, :1] * 2 * np.array([np.cos(np.pi / 3), np.sin(np.pi / 3), 0])
    after[1] = 0
    first, last = stored(tmp_path, "a", before), stored(tmp_path, "b", after)
    found = row_frequency.measure(last, COUNTS, first=first, last=last).set_index(["quantity", "frequency"])
    cosines = found.loc["cosine_with_first"]
    assert cosines.loc["1024 or more", "value"] == pytest.approx(0.5)
    assert cosines.loc["16 to 63", "value"] == pytest.approx(1)
    assert cosines.loc["0", "n"] == 1 and cosines.loc["all", "n"] == 9
    assert cosines.loc["all", "value"] == pytest.approx((6 * 1 + 3 * 0.5) / 9)
    # All rows point the same way before, so another token's row is as near as one's own.
    assert cosines.loc["1024 or more", "reference"] == pytest.approx(0.5)
    assert found.loc["cosine_with_last", "value"].to_numpy() == pytest.approx(1)
    lengths = found.loc["mean_length", "value"]
    assert lengths["1024 or more"] == pytest.approx(2 * before[7:, 0].mean())
    assert found.loc[("mean_length", "0"), "n"] == 2 and lengths["0"] == pytest.approx(before[0, 0] / 2)


def test_the_reference_is_the_mean_over_all_other_tokens(tmp_path):
    generator = np.random.default_rng(1)
    one, other = generator.normal(size=(2, 10, 4)).astype(np.float32).astype(float) + 0.5
    tables = stored(tmp_path, "a", one), stored(tmp_path, "b", other)
    found = row_frequency.measure(tables[0], COUNTS, first=None, last=tables[1]).set_index(["quantity", "frequency"])
    unit, others = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (one, other))
    cosines = unit @ others.T
    rest = cosines[5:7].sum() - cosines[5, 5] - cosines[6, 6]
    assert found.loc[("cosine_with_last", "16 to 63"), "reference"] == pytest.approx(rest / 18, abs=1e-6)
    assert "cosine_with_first" not in found.index.get_level_values("quantity")


def command(tmp_path, *more, widths=(4, 8)):
    ids = np.repeat(np.arange(10, dtype=np.int32), COUNTS)
    tokens.save(
        tmp_path / "t.safetensors",
        {"documents": tokens.TokenisedTexts(ids, np.array([0, len(ids)]))},
        {"data_sha256": "x", "tokenizer_sha256": "y", "max_length": 9, "special_tokens": "exclude"},
    )
    generator, paths = np.random.default_rng(0), []
    for width in widths:
        steps = []
        for step in (0, 5, 40):
            path = tmp_path / f"w{width}-{step}.safetensors"
            table_files.save(path, generator.normal(size=(10, width)).astype(np.float32), {})
            steps.append(f"{step}={path}")
        given = ["--suite", "ladder", "--model", f"ladder-w{width}", "--tied", "no", *more]
        paths.append(tmp_path / f"rows-{width}.csv")
        given += ["--by-frequency", str(paths[-1]), "-o", str(tmp_path / "all.csv")]
        code = execute("table-geometry", [*steps, *given])
        if code:
            return code
    return pd.concat([pd.read_csv(path) for path in paths])


def test_the_command_measures_every_step_against_both_ends(tmp_path):
    rows = command(tmp_path, "--tokens", str(tmp_path / "t.safetensors"))
    assert set(rows["step"]) == {0, 5, 40} and set(rows["model"]) == {"ladder-w4", "ladder-w8"}
    of = rows[rows["frequency"] == "all"].set_index(["width", "step", "quantity"])["value"]
    for width in (4, 8):
        assert of[width, 0, "cosine_with_first"] == pytest.approx(1) == of[width, 40, "cosine_with_last"]
        assert of[width, 0, "cosine_with_last"] == pytest.approx(of[width, 40, "cosine_with_first"])
    assert set(pd.read_csv(tmp_path / "all.csv")["stratum"]) <= set(table_geometry.STRATA)


def test_frequencies_need_texts(tmp_path, capsys):
    assert command(tmp_path) == 1
    assert "--by-frequency: how often tokens occur is not known" in capsys.readouterr().err


def test_the_figures_show_the_numbers(tmp_path):
    rows = command(tmp_path, "--tokens", str(tmp_path / "t.safetensors"))
    assert row_movement.draw(rows) and row_norms.draw(rows)
    of = rows[(rows["width"] == 8) & (rows["frequency"] == "1024 or more")].set_index(["quantity", "step"])["value"]
    ratio = of["mean_length", 40] / of["mean_length", 0]
    assert f"{ratio:.2f} for the most frequent" in row_norms.describe(rows)
    assert f"{of['cosine_with_first', 40]:.3f} for the most frequent" in row_movement.describe(rows)
    with pytest.raises(NothingToShow):
        row_movement.draw(rows[rows["quantity"] == "mean_length"])
    with pytest.raises(NothingToShow):
        row_norms.draw(rows[rows["step"] == 40])
