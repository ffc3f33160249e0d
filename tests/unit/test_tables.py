"""Table variants: exact identities and properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from embscale import tables
from embscale.errors import EmbscaleError

matrices = st.tuples(st.integers(1, 12), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-10, 10, width=32))
)


@given(matrices, st.integers(0, 5))
def test_crop_to_the_whole_width_or_more_is_the_table(table, more):
    assert np.array_equal(tables.crop(table, table.shape[1] + more), table)


@given(matrices, st.integers(1, 9))
def test_pad_to_no_more_than_the_width_is_the_table(table, dims):
    dims = min(dims, table.shape[1])
    for matched in (False, True):
        assert np.array_equal(tables.pad(table, dims, seed=1, matched=matched), table)


@given(matrices, st.integers(1, 20), st.integers(0, 99))
def test_crop_undoes_pad(table, more, seed):
    padded = tables.pad(table, table.shape[1] + more, seed=seed, matched=False)
    assert padded.shape == (table.shape[0], table.shape[1] + more)
    assert np.array_equal(tables.crop(padded, table.shape[1]), table)


def test_pad_has_the_scale_that_it_promises():
    table = np.full((500, 20), 3.0, np.float32)
    matched = tables.pad(table, 220, seed=0, matched=True)[:, 20:]
    study = tables.pad(table, 220, seed=0, matched=False)[:, 20:]
    assert tables.root_mean_square(matched) == pytest.approx(3.0, rel=0.02)
    assert tables.root_mean_square(study) == pytest.approx(np.sqrt(2 / (500 + 220)), rel=0.02)


def test_random_rows_have_length_about_one_and_depend_on_the_seed():
    table = tables.random(1000, 64, seed=1)
    assert np.square(table).sum(axis=1).mean() == pytest.approx(1, rel=0.02)
    assert np.array_equal(table, tables.random(1000, 64, seed=1))
    assert not np.array_equal(table, tables.random(1000, 64, seed=2))


@pytest.mark.parametrize("text", ["", "fulll", "crop", "crop:x", "crop:1:2", "pad:8", "pad_rms:8:-1", "full:3"])
def test_a_variant_in_another_form_is_refused(text):
    with pytest.raises(EmbscaleError, match="expected full, crop:DIMS"):
        tables.Variant.parse(text)


def test_variants_apply_what_they_name():
    table = tables.random(30, 8, seed=0)
    assert np.array_equal(tables.Variant.parse("full").apply(table), table)
    assert np.array_equal(tables.Variant.parse("crop:3").apply(table), table[:, :3])
    expected = tables.pad(table, 12, seed=5, matched=True)
    assert np.array_equal(tables.Variant.parse("pad_rms:12:5").apply(table), expected)


@pytest.mark.parametrize("text", ["random:3x4", "random:3:4", "random:ax4:1"])
def test_a_random_table_in_another_form_is_refused(text):
    with pytest.raises(EmbscaleError, match="expected random:ROWSxDIMS:SEED"):
        tables.parse_random(text)


def test_a_table_survives_the_disk_and_a_damaged_one_is_told(tmp_path):
    path, table = tmp_path / "t.safetensors", tables.random(5, 4, seed=0)
    tables.save(path, table, {"tensor": "x"})
    assert np.array_equal(tables.load(path), table)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(EmbscaleError, match=r"t\.safetensors: not a table"):
        tables.load(path)
    tables.save(path, np.array([[1.0, np.nan]], np.float32), {})
    with pytest.raises(EmbscaleError, match="finite numbers"):
        tables.load(path)
    with pytest.raises(EmbscaleError, match="no such file"):
        tables.load(tmp_path / "absent")


def test_the_digest_tells_shapes_apart():
    assert tables.sha256(np.zeros((2, 3), np.float32)) != tables.sha256(np.zeros((3, 2), np.float32))
