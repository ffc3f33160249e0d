"""Tables on disk: every dtype, in blocks and whole, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.torch import save_file

from embscale.checkpoints import dtypes
from embscale.errors import EmbscaleError
from embscale.tables import table_files

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def normal(rows, dims):
    return np.random.default_rng(0).standard_normal((rows, dims), dtype=np.float32)


@pytest.mark.parametrize("dtype", dtypes.STORED)
def test_a_table_of_any_dtype_is_read_whole_and_in_blocks_as_torch_reads_it(dtype, tmp_path):
    path, table = tmp_path / "t.safetensors", torch.from_numpy(normal(50, 6)).to(DTYPES[dtype])
    save_file({table_files.TENSOR: table}, path)
    expected = table.float().numpy()
    assert np.array_equal(table_files.load(path), expected)
    stored = table_files.Stored.open(path)
    assert (stored.dtype, stored.shape, len(stored)) == (dtype, (50, 6), 50)
    for rows in (slice(0, 50), slice(7, 20), slice(49, 99), slice(None), slice(60, 70), slice(20, 7)):
        assert np.array_equal(stored[rows], expected[rows])
        assert stored[rows].dtype == np.float32
    with pytest.raises(ValueError, match="follow each other"):
        stored[::2]


@pytest.mark.fault("a table with values that are no numbers", happens="one line names it", do="make it again")
def test_a_block_with_a_value_that_is_no_number_is_refused_when_it_is_read(tmp_path):
    path, table = tmp_path / "t.safetensors", normal(10, 2)
    table[7, 1] = np.inf
    table_files.save(path, table, {})
    stored = table_files.Stored.open(path)
    assert np.array_equal(stored[:7], table[:7])
    with pytest.raises(EmbscaleError, match=r"t\.safetensors: holds values that are not finite"):
        stored[5:8]


@given(arrays(np.uint32, 8, elements=st.integers(0, 2**32 - 1)))
def test_rounding_to_bfloat16_is_torch_s_for_every_number(bits):
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    expected = torch.from_numpy(values).bfloat16().float().numpy()
    assert np.array_equal(dtypes.round_to_bfloat16(values), expected)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 4))
def test_joined_blocks_are_the_table(heights, dims):
    table = normal(sum(heights), dims)
    assert np.array_equal(table_files.join(np.split(table, np.cumsum(heights)[:-1]), len(table)), table)


def test_a_table_survives_the_disk_and_a_damaged_one_is_reported(tmp_path):
    path, table = tmp_path / "t.safetensors", normal(5, 4)
    table_files.save(path, table, {"tensor": "x"})
    assert np.array_equal(table_files.load(path), table)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(EmbscaleError, match=r"t\.safetensors: not a table"):
        table_files.load(path)
    table_files.save(path, np.array([[1.0, np.nan]], np.float32), {})
    with pytest.raises(EmbscaleError, match="finite numbers"):
        table_files.load(path)
    with pytest.raises(EmbscaleError, match="no such file"):
        table_files.load(tmp_path / "absent")
