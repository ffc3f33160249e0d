"""Random tables: the first study's draw bit for bit, and what holds of any."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from embscale.checkpoints.dtypes import round_to_bfloat16
from embscale.errors import EmbscaleError
from embscale.tables import random_tables
from embscale.tables.table_files import BLOCK_ROWS

# Tables that the first study's own code drew, measured for this project: with torch 2.1.2 (legacy) and 2.13.0
# (current).  SHA-256 of the whole table and of its first 128 columns, as bfloat16 in little-endian order, row by row;
# the first values of the last row.
DRAWN = {
    (512, 256, 42, "legacy"): (
        "45a69c83246d13f454cdd3451dff56a6378419a1f204e562482e5291956b4c07",
        "6de540ded6ee5edd8d9b50c88188f029957213f463feb97e58461b3509cb12d0",
        [0.040771484375, -0.064453125, -0.07275390625, 0.00799560546875],
    ),
    (512, 256, 43, "legacy"): (
        "1735735fc7d0bc350fb1e93e80b98bb264cacaa6155f9d7e3b35909b719918cb",
        "a7d0ae8394c73998184e9640524b4665a469e928e6133a0a3aeea46673c68938",
        [-0.08544921875, 0.0306396484375, -0.0546875, -0.08544921875],
    ),
    (512, 14336, 42, "legacy"): (
        "e3c0174639626512d23d7348df8150c6294368643a2bfd3f9c481544649155ce",
        "a0056eac85707d593b06d43b1a07c8f370572aea71e8c0b7f52fbdace782f292",
        [0.01385498046875, -0.0115966796875, -0.006439208984375, -0.00244140625],
    ),
    (512, 256, 42, "current"): (
        "1b0b887089f6619992cde1fb22bcedeec6dc76c7203f7d0ebbbf888bb79a656a",
        "2cba056ddc2fe7eb5490c438f62cdf0aabafd6e90c801de361d4f49f5e3d7b5a",
        [0.07958984375, -0.046142578125, 0.05615234375, -0.023681640625],
    ),
    (512, 14336, 43, "current"): (
        "997af2940e4490879f8ca64359742f53e19f3b2c973b9239c9891214a834d7d5",
        "3686561390b02870da6d9ca33b79296105390ff4b314a8788ba9e5df83aeb9fe",
        [0.01348876953125, -0.005706787109375, 0.00408935546875, -0.0030364990234375],
    ),
}

# SHA-256 of tables that torch 2.11 itself filled, of widths that leave a run unfinished or let runs cross rows.
UNFINISHED = {
    (97, 5, 42): "3b604bd1bab271bb779681308ae7c9e2a8ae45e1bb4541368bc71b1ab26c1132",
    (1041, 3, 7776): "457d7bfbafd68199012536dca1e0fa67ca89bb3a42cd1059fcad5c4332d9296e",
    (300, 100, 4294967295): "d2afaf8b81c0ebb273c3674a297176617becbcedab88485c23177886c27ac705",
}

GENERATORS = ("legacy", "current")

# The digests of `current` hold where torch computes logarithms with AVX2, as every x86-64 processor of ten years does.
VECTORS = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
PLACES = st.tuples(st.integers(1, 1100), st.integers(1, 40)).filter(lambda shape: shape[0] * shape[1] >= 16)


def digest(table):
    return hashlib.sha256((table.view(np.uint32) >> 16).astype("<u2").tobytes()).hexdigest()


@pytest.mark.parametrize("case", [case for case in DRAWN if VECTORS or case[3] == "legacy"])
def test_the_first_study_s_tables_come_out_bit_for_bit(case):
    rows, columns, seed, generator = case
    whole, narrow, last = DRAWN[case]
    table = random_tables.faithful(rows, columns, seed, generator, columns)
    assert not (table.view(np.uint32) & 0xFFFF).any(), "values beyond bfloat16"
    assert (digest(table), table[-1, :4].tolist()) == (whole, last)
    # ... also where the rest is never made
    assert digest(random_tables.faithful(rows, 128, seed, generator, columns)) == narrow


def plain_box_muller(rows, columns, seed):
    """Torch's kernel of that time, value after value, as its source has it; float32 rounded after each operation."""

    def b(value):
        return float(round_to_bfloat16(np.float32(value)))

    words = np.random.RandomState(seed)
    count, std = rows * columns, b(np.sqrt(2 / (rows + columns)))

    def uniform(n):
        return [int(word) % 256 / 256 for word in words.randint(0, 2**32, n, dtype=np.uint32)]

    def run(values):
        for j in range(8):
            u1, u2 = b(1 - values[j]), values[j + 8]
            radius = b(np.sqrt(b(-2 * b(np.log(u1)))))
            theta = b(2 * np.pi * u2)
            values[j] = b(b(radius * b(np.cos(theta))) * std) + 0.0
            values[j + 8] = b(b(radius * b(np.sin(theta))) * std) + 0.0
        return values

    data = uniform(count)
    for i in range(0, count - 15, 16):
        data[i : i + 16] = run(data[i : i + 16])
    if count % 16:
        data[-16:] = run(uniform(16))
    return np.array(data, np.float32).reshape(rows, columns)


@pytest.mark.parametrize("shape", [(1, 16), (16, 1), (3, 7), (17, 5), (82, 3), (1030, 3)])
def test_unfinished_runs_are_drawn_anew_as_torch_does(shape):
    rows, columns = shape
    assert np.array_equal(random_tables.faithful(rows, columns, 5, "legacy", columns), plain_box_muller(*shape, 5))


@pytest.mark.parametrize("case", UNFINISHED)
def test_any_width_and_seed_come_out_as_from_torch_of_that_time(case):
    rows, columns, seed = case
    assert digest(random_tables.faithful(rows, columns, seed, "legacy", columns)) == UNFINISHED[case]


@given(PLACES, st.integers(0, 2**32 - 1))
def test_current_is_what_torch_draws_at_once(shape, seed):
    expected = torch.nn.init.xavier_normal_(
        torch.empty(shape, dtype=torch.bfloat16), generator=torch.Generator().manual_seed(seed)
    )
    assert np.array_equal(random_tables.faithful(*shape, seed, "current", shape[1]), expected.float().numpy())


@given(PLACES, st.integers(0, 99), st.sampled_from([*GENERATORS, None]), st.data())
def test_some_columns_are_those_of_the_whole_table_in_blocks_of_rows(shape, seed, generator, data):
    rows, columns = shape
    first = data.draw(st.integers(0, columns - 1))
    dims = data.draw(st.integers(first + 1, columns))
    whole = np.concatenate(list(random_tables.blocks(rows, columns, seed, generator, columns)))
    some = list(random_tables.blocks(rows, dims, seed, generator, columns, first=first))
    assert [len(block) for block in some[:-1]] == [BLOCK_ROWS] * (len(some) - 1)
    assert np.array_equal(np.concatenate(some), whole[:, first:dims])
    assert whole.dtype == some[0].dtype == np.float32


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_row_is_the_same_draw_in_tables_of_any_number_of_rows(generator):
    """Only the scale differs, and with it the rounding."""
    few, many = (random_tables.faithful(rows, 64, 42, generator) for rows in (20, 1500))
    ratio = random_tables.deviation(20, random_tables.COLUMNS) / random_tables.deviation(1500, random_tables.COLUMNS)
    np.testing.assert_allclose(few, many[:20] * ratio, rtol=2**-6, atol=1e-6)


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_values_are_normal_with_the_deviation_of_xavier(generator):
    table = random_tables.faithful(1000, 256, 1, generator, 256)
    nominal = np.sqrt(2 / (1000 + 256))
    assert abs(table.mean()) < 4 * nominal / np.sqrt(table.size)
    assert table.std() == pytest.approx(nominal, rel=0.015)  # 8 bits make legacy one in a hundred too narrow
    assert (np.abs(table) < nominal).mean() == pytest.approx(0.6827, abs=0.005)


def test_independent_rows_have_length_about_one_and_depend_on_the_seed():
    table = random_tables.independent(1000, 64, seed=1)
    assert np.square(table).sum(axis=1).mean() == pytest.approx(1, rel=0.02)
    assert np.array_equal(table, random_tables.independent(1000, 64, seed=1))
    assert not np.array_equal(table, random_tables.independent(1000, 64, seed=2))


def test_blocks_continue_one_stream():
    """Drawn at once by numpy's own generator."""
    rows, dims = 2 * BLOCK_ROWS + 7, 5
    expected = np.random.default_rng(3).standard_normal((rows, dims), dtype=np.float32) / np.float32(np.sqrt(dims))
    assert np.array_equal(random_tables.independent(rows, dims, 3), expected)


@pytest.mark.parametrize("generator", [None, "legacy", "current"])
@pytest.mark.parametrize("columns", [48, 37])
def test_some_rows_are_those_of_the_whole_table(generator, columns):
    rows = 2 * BLOCK_ROWS + 7
    whole = np.concatenate(list(random_tables.blocks(rows, 30, 5, generator, columns, first=4)))
    for only in (np.array([0, 1, 63, 64, 700, rows - 1]), np.arange(9, rows, 2), np.array([5, rows, rows + 9])):
        some = list(random_tables.blocks(rows, 30, 5, generator, columns, first=4, only=only))
        assert np.array_equal(np.concatenate(some), whole[only[only < rows]])


@pytest.mark.parametrize("text", ["random:3x4:1", "random:50304x512:42:legacy", "random:250880x14336:43:current"])
def test_the_form_of_a_random_table_round_trips(text):
    assert random_tables.parse_random(text).text == text


def test_a_random_table_is_what_its_form_names():
    read = random_tables.parse_random("random:30x8:4")
    assert np.array_equal(np.concatenate(list(read.blocks())), random_tables.independent(30, 8, 4))
    read = random_tables.parse_random("random:30x8:4:legacy")
    assert np.array_equal(np.concatenate(list(read.blocks())), random_tables.faithful(30, 8, 4))
    assert read.shape == (30, 8)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("random:3x4", "expected random:ROWSxDIMS:SEED"),
        ("random:3:4", "expected random:ROWSxDIMS:SEED"),
        ("random:ax4:1", "expected random:ROWSxDIMS:SEED"),
        ("random:3x4:1:newest", "with :legacy or :current"),
        ("random:3x4:-1", "expected random:ROWSxDIMS:SEED"),
        ("random:0x4:1", "at least one of each"),
        ("random:3x0:1", "at least one of each"),
        ("random:3x14337:1:legacy", "the draw has 14336"),
        ("random:3x4:4294967296", "from 0 to 2"),
    ],
)
def test_a_random_table_in_another_form_is_refused(text, told):
    with pytest.raises(EmbscaleError, match=told):
        random_tables.parse_random(text)


def test_draws_that_torch_makes_otherwise_are_refused():
    with pytest.raises(EmbscaleError, match="fewer than 16"):
        random_tables.faithful(3, 5, 0, "legacy", 5)
    with pytest.raises(EmbscaleError, match="expected legacy or current"):
        random_tables.faithful(30, 5, 0, "newest")
    with pytest.raises(EmbscaleError, match="at least one"):
        random_tables.faithful(30, 5, 0, first=5)
