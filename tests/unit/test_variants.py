"""Table variants: exact identities, the properties that each is named for, and other implementations of the same."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.decomposition import PCA

from embscale.checkpoints import dtypes
from embscale.errors import EmbscaleError
from embscale.parameters import checking, schema
from embscale.parameters.scores import TableVariants
from embscale.tables import random_tables, table_files, variants
from embscale.tables.variants import Context, Variant
from embscale.texts.tokens import TokenisedTexts

# Rows and columns of any values, among them rows of zeros, equal rows and constant columns.
matrices = st.tuples(st.integers(1, 12), st.integers(1, 9)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-10, 10, width=32))
)
seeds = st.integers(0, 99)

# One of each form, for tables of 6 columns.
EACH = [
    "full",
    "crop:4",
    "crop_random:4:1",
    "crop_pca:4",
    "crop_projection:4:1",
    "pad:8:1",
    "pad_faithful:8:1:legacy",
    "pad_faithful:8:1:current",
    "pad_rms:8:1",
    "pad_ratio:0.5:1",
    "pad_ratio:inf:1",
    "unit",
    "centred",
    "all_but_top:2",
    "whitened",
    "sif:0.001",
    "idf",
    "bf16",
]


def apply(text, table, context=None):
    return Variant.parse(text).apply(table, context)


def cosines(table):
    """Of all rows with all, float64; 0 with rows of zeros."""
    rows = table.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(lengths > 0, lengths, 1)
    return rows @ rows.T


def spread(rows, dims, seed=0):
    """A table such as models have: columns of unequal scales, correlated, and off centre."""
    generator = np.random.default_rng(seed)
    mixed = generator.standard_normal((rows, dims)) @ generator.standard_normal((dims, dims))
    return (mixed * np.geomspace(0.1, 10, dims) + generator.standard_normal(dims)).astype(np.float32)


def counts(rows, seed=0):
    generator = np.random.default_rng(seed)
    held = generator.integers(0, 50, rows)
    return Context(document_frequency=held, frequency=held * 3, documents=50)


@pytest.mark.parametrize("text", EACH)
@given(seed=seeds)
def test_every_variant_gives_a_new_float32_table_and_leaves_the_old_one(text, seed):
    table = spread(40, 6, seed)
    table[3] = 0
    before = table.copy()
    table.setflags(write=False)  # who writes to it fails
    changed = apply(text, table, counts(40))
    assert np.array_equal(table, before)
    assert changed.dtype == np.float32 and changed.ndim == 2 and len(changed) == 40
    assert np.isfinite(changed).all()
    assert np.array_equal(changed, apply(text, table, counts(40))), "not a function of its arguments"


@pytest.mark.parametrize("text", EACH)
def test_blocks_of_a_table_on_disk_are_the_variant_of_the_table_in_memory(text, tmp_path, monkeypatch):
    table = dtypes.round_to_bfloat16(spread(100, 6))
    path = tmp_path / "t.safetensors"
    head = table_files.header("BF16", table.shape, {})
    path.write_bytes(head + (table.view(np.uint32) >> 16).astype("<u2").tobytes())
    whole = apply(text, table, counts(100))
    for module in (variants, random_tables):
        monkeypatch.setattr(module, "BLOCK_ROWS", 16)
    blocks = list(Variant.parse(text).blocks(table_files.Stored.open(path), counts(100)))
    assert [len(block) for block in blocks] == [16] * 6 + [4]
    np.testing.assert_allclose(np.concatenate(blocks), whole, rtol=1e-5, atol=1e-5)


# Fewer columns


@pytest.mark.parametrize("kind", ["crop:{}", "crop_random:{}:3", "crop_projection:{}:3"])
@given(table=matrices, more=st.integers(0, 5))
def test_a_crop_to_the_whole_width_or_more_is_the_table(kind, table, more):
    assert np.array_equal(apply(kind.format(table.shape[1] + more), table), table)


@given(matrices, st.integers(1, 9), seeds)
def test_crops_take_columns_of_the_table(table, dims, seed):
    dims = min(dims, table.shape[1])
    assert np.array_equal(apply(f"crop:{dims}", table), table[:, :dims])
    # Columns told apart by their numbers show which were taken: as many as asked for, none twice, in order.
    numbered = np.tile(np.arange(table.shape[1], dtype=np.float32), (2, 1))
    chosen = apply(f"crop_random:{dims}:{seed}", numbered)[0].astype(int)
    assert len(chosen) == dims and (np.diff(chosen) > 0).all()
    assert np.array_equal(apply(f"crop_random:{dims}:{seed}", table), table[:, chosen])


def test_every_column_is_as_likely_in_a_random_crop():
    numbered = np.arange(10, dtype=np.float32)[None]
    drawn = np.concatenate([apply(f"crop_random:3:{seed}", numbered)[0] for seed in range(2000)]).astype(int)
    assert np.bincount(drawn, minlength=10) == pytest.approx(600, abs=5 * np.sqrt(600 * 0.7))


@given(matrices)
def test_all_principal_components_turn_the_centred_table(table):
    turned = apply(f"crop_pca:{table.shape[1]}", table)
    centre = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(turned @ turned.T.astype(np.float64), centre @ centre.T, rtol=1e-4, atol=1e-3)
    assert np.array_equal(apply(f"crop_pca:{table.shape[1] + 3}", table), turned)


def test_a_turn_keeps_cosines():
    table = spread(60, 7)
    np.testing.assert_allclose(cosines(apply("crop_pca:7", table)), cosines(apply("centred", table)), atol=1e-6)


@pytest.mark.parametrize("dims", [1, 3, 8])
def test_principal_components_are_those_of_scikit_learn(dims):
    table = spread(3000, 8)
    expected = PCA(dims, svd_solver="full").fit_transform(table.astype(np.float64))
    ours = apply(f"crop_pca:{dims}", table)
    signs = np.sign((ours * expected).sum(axis=0))
    np.testing.assert_allclose(ours * signs, expected, rtol=1e-4, atol=1e-4)


def test_a_random_projection_keeps_squared_lengths_in_expectation():
    table, draws = spread(20, 30), 400
    ratios = np.array(
        [
            np.square(apply(f"crop_projection:10:{seed}", table)).sum(axis=1) / np.square(table).sum(axis=1)
            for seed in range(draws)
        ]
    )
    # A chi-squared of 10 degrees over 10: mean 1, variance 2/10.
    assert ratios.mean(axis=0) == pytest.approx(1, abs=5 * np.sqrt(0.2 / draws))
    assert ratios.var(axis=0).mean() == pytest.approx(0.2, rel=0.15)


# More columns


@pytest.mark.parametrize("kind", ["pad", "pad_rms", "pad_faithful"])
@given(table=matrices, dims=st.integers(1, 9))
def test_a_pad_to_no_more_than_the_width_is_the_table(kind, table, dims):
    assert np.array_equal(apply(f"{kind}:{min(dims, table.shape[1])}:1", table), table)


@pytest.mark.parametrize("kind", ["pad", "pad_rms", "pad_faithful"])
@given(table=matrices, more=st.integers(16, 30), seed=seeds)
def test_a_crop_undoes_a_pad(kind, table, more, seed):
    columns = table.shape[1]
    padded = apply(f"{kind}:{columns + more}:{seed}", table)
    assert padded.shape == (len(table), columns + more)
    assert np.array_equal(apply(f"crop:{columns}", padded), table)


def test_a_pad_has_the_scale_that_it_promises():
    table = np.full((500, 200), 3.0, np.float32)

    def appended(text):
        return variants.root_mean_square(apply(text, table)[:, 200:])

    assert appended("pad_rms:400:0") == pytest.approx(3, rel=0.02)
    assert appended("pad:400:0") == pytest.approx(np.sqrt(2 / (500 + 400)), rel=0.02)
    assert appended("pad_faithful:400:0") == pytest.approx(np.sqrt(2 / (500 + 400)), rel=0.02)
    assert appended("pad_ratio:0.25:0") == pytest.approx(0.75, rel=0.02)


@pytest.mark.parametrize("generator", ["legacy", "current"])
def test_the_study_s_pad_takes_the_last_columns_of_a_draw_of_the_padded_width(generator):
    """As its code does: the whole width is drawn, then the trained columns are put in place of the first."""
    table = spread(512, 64)
    drawn = random_tables.faithful(512, 256, 42, generator, 256)
    drawn[:, :64] = table
    assert np.array_equal(apply(f"pad_faithful:256:42:{generator}", table), drawn)


@given(matrices, seeds)
def test_at_ratio_0_the_scores_are_those_of_the_table_and_at_infinity_of_a_random_one(table, seed):
    none, all_ = apply(f"pad_ratio:0:{seed}", table), apply(f"pad_ratio:inf:{seed}", table)
    assert none.shape == all_.shape == (len(table), 2 * table.shape[1])
    assert np.array_equal(none, np.concatenate([table, np.zeros_like(table)], axis=1))
    random = random_tables.independent(*table.shape, seed)
    assert np.array_equal(all_, np.concatenate([np.zeros_like(table), random], axis=1))
    np.testing.assert_allclose(cosines(none), cosines(table), atol=1e-12)
    np.testing.assert_allclose(cosines(all_), cosines(random), atol=1e-12)


def test_ratios_lead_from_the_table_to_the_random_one():
    table = spread(50, 8)
    full, random = cosines(table), cosines(random_tables.independent(50, 8, 1))
    ratios = (0.0001, 0.25, 0.5, 1, 2, 4, 10000)
    padded = [cosines(apply(f"pad_ratio:{ratio}:1", table)) for ratio in ratios]
    from_full = [np.abs(matrix - full).mean() for matrix in padded]
    from_random = [np.abs(matrix - random).mean() for matrix in padded]
    assert from_full == sorted(from_full) and from_random == sorted(from_random, reverse=True)
    assert from_full[0] < 1e-6 and from_random[-1] < 1e-3


# Geometry


@given(matrices)
def test_unit_rows_have_length_1_and_rows_of_zeros_stay(table):
    lengths = np.linalg.norm(apply("unit", table).astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, table.any(axis=1), atol=1e-6)
    np.testing.assert_allclose(cosines(apply("unit", table)), cosines(table), atol=1e-6)


@given(matrices)
def test_a_centred_table_has_the_mean_zero(table):
    centred = apply("centred", table)
    assert centred.mean(axis=0, dtype=np.float64) == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(centred - centred[0], table - table[0], atol=1e-5)


@given(matrices)
def test_all_but_none_is_the_centred_table(table):
    assert np.array_equal(apply("all_but_top:0", table), apply("centred", table))


@pytest.mark.parametrize("removed", [1, 2, 5])
def test_all_but_the_top_leaves_nothing_along_the_top_and_the_rest_as_it_was(removed):
    table = spread(2000, 7)
    reference = PCA(7, svd_solver="full").fit(table.astype(np.float64))
    along = apply(f"all_but_top:{removed}", table) @ reference.components_.T
    expected = reference.transform(table.astype(np.float64))
    expected[:, :removed] = 0
    np.testing.assert_allclose(along, expected, atol=1e-3)


@given(matrices)
def test_a_whitened_table_has_the_identity_as_covariance(table):
    centre = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
    assume(np.abs(centre).max() > 1e-4)  # equal rows have a test of their own
    white = apply("whitened", table).astype(np.float64)
    rank = np.linalg.matrix_rank(centre, tol=np.linalg.norm(centre, 2) * 1e-6)
    assert white.shape[1] >= rank
    kept = white[:, :rank]
    np.testing.assert_allclose(kept.T @ kept / len(table), np.eye(rank), atol=1e-3)
    assert kept.mean(axis=0) == pytest.approx(0, abs=1e-3)


def test_directions_without_variance_are_left_out_of_whitening():
    table = spread(500, 6)
    flat = np.concatenate([table, table @ np.ones((6, 2), np.float32), np.full((500, 1), 91, np.float32)], axis=1)
    white = apply("whitened", flat)
    assert white.shape == (500, 6)
    np.testing.assert_allclose(white.T @ white / 500, np.eye(6), atol=1e-4)
    # Mahalanobis' distances do not depend on the coordinates.
    np.testing.assert_allclose(cosines(white), cosines(apply("whitened", table)), atol=1e-3)


def test_whitening_is_that_of_scikit_learn():
    table = spread(3000, 8)
    expected = PCA(8, whiten=True, svd_solver="full").fit_transform(table.astype(np.float64))
    np.testing.assert_allclose(cosines(apply("whitened", table)), cosines(expected), atol=1e-5)


@pytest.mark.parametrize("value", [0, 0.1, 1e20])
def test_a_table_of_equal_rows_has_nothing_to_whiten(value):
    with pytest.raises(EmbscaleError, match="all rows of the table are the same"):
        apply("whitened", np.full((3000, 4), value, np.float32))


def test_removing_every_component_is_refused():
    with pytest.raises(EmbscaleError, match="the table has 4 columns, so nothing is left"):
        apply("all_but_top:4", spread(30, 4))


# Weights


def test_counts_are_those_of_the_documents():
    texts = TokenisedTexts(np.array([1, 1, 4, 1, 2], np.int32), np.array([0, 3, 3, 5]))
    context = Context.of(texts, 6)
    assert context.documents == 3  # the empty one too
    assert context.frequency.tolist() == [0, 3, 1, 0, 1, 0]
    assert context.document_frequency.tolist() == [0, 2, 1, 0, 1, 0]
    with pytest.raises(EmbscaleError, match="token 4, but the table has 4 rows"):
        Context.of(texts, 4)


def test_weights_by_hand():
    context = Context(document_frequency=np.array([0, 1, 3]), frequency=np.array([0, 5, 15]), documents=3)
    assert variants.idf_weights(context) == pytest.approx([np.log(4), np.log(2), 0])
    assert variants.sif_weights(context, 0.25) == pytest.approx([1, 0.25 / 0.5, 0.25 / 1])
    table = np.ones((3, 2), np.float32)
    assert apply("sif:0.25", table, context) == pytest.approx(np.array([[1, 1], [0.5, 0.5], [0.25, 0.25]]))
    assert apply("idf", table, context) == pytest.approx(np.log([[4, 4], [2, 2], [1, 1]]))


@given(matrices, seeds)
def test_scaled_rows_are_weighted_tokens_in_the_mean(table, seed):
    """Also where the mean is divided by the sum of weights, as far as cosines go."""
    context, tokens = counts(len(table), seed), np.random.default_rng(seed).integers(0, len(table), 30)
    assume(context.frequency.sum() > 0)  # texts without a token are refused, as another test shows
    scaled = apply("sif:0.1", table, context)[tokens].astype(np.float64).mean(axis=0)
    weights = variants.sif_weights(context, 0.1)[tokens]
    weighted = np.average(table[tokens].astype(np.float64), axis=0, weights=weights)
    np.testing.assert_allclose(scaled, weighted * weights.mean(), atol=1e-5)


def test_weights_need_counts_of_the_table_s_rows():
    table = spread(10, 3)
    with pytest.raises(EmbscaleError, match="variant 'idf': needs the texts of a task"):
        apply("idf", table)
    with pytest.raises(EmbscaleError, match="counts of 9 tokens for a table of 10 rows"):
        apply("sif:0.001", table, counts(9))
    with pytest.raises(EmbscaleError, match="hold no token"):
        apply("sif:0.001", table, Context(np.zeros(10), np.zeros(10), documents=4))


@given(arrays(np.float32, (5, 3), elements=st.floats(width=32, allow_nan=False)))
def test_rounding_to_bfloat16_is_torch_s(table):
    assert np.array_equal(apply("bf16", table), torch.from_numpy(table).bfloat16().float().numpy())


# Words

NUMBERS = st.floats(0, 1e300, exclude_min=True)
KINDS = st.one_of(
    st.sampled_from([Variant(kind) for kind in ("full", "unit", "centred", "whitened", "idf", "bf16")]),
    st.builds(Variant, st.sampled_from(["crop", "crop_pca"]), dims=st.integers(1, 10**9 - 1)),
    st.builds(
        Variant,
        st.sampled_from(["crop_random", "crop_projection", "pad", "pad_rms"]),
        dims=st.integers(1, 10**9 - 1),
        seed=st.integers(0, 10**9 - 1),
    ),
    st.builds(
        Variant,
        st.just("pad_faithful"),
        dims=st.integers(1, 14336),
        seed=st.integers(0, 10**9 - 1),
        generator=st.sampled_from(["legacy", "current"]),
    ),
    st.builds(
        Variant, st.just("pad_ratio"), strength=NUMBERS | st.sampled_from([0.0, float("inf")]), seed=st.integers(0, 99)
    ),
    st.builds(Variant, st.just("all_but_top"), strength=st.integers(0, 10**9 - 1).map(float)),
    st.builds(Variant, st.just("sif"), strength=NUMBERS),
)


@given(KINDS)
def test_a_variant_is_read_from_its_own_text(variant):
    assert Variant.parse(variant.text) == variant


@pytest.mark.parametrize("text", EACH)
def test_usual_forms_come_out_as_they_went_in(text):
    assert Variant.parse(text).text == text


def test_every_kind_is_among_those_tested():
    assert {Variant.parse(text).kind for text in EACH} == set(variants.FORMS)


def test_the_study_s_pad_is_of_the_generator_of_its_time():
    assert Variant.parse("pad_faithful:8:1") == Variant.parse("pad_faithful:8:1:legacy")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected one of full, crop"),
        ("fulll", "expected one of full, crop"),
        ("full:3", "expected full$"),
        ("crop", "expected crop:DIMS"),
        ("crop:x", "expected crop:DIMS"),
        ("crop:0", "expected crop:DIMS, DIMS a whole number from 1"),
        ("crop:1:2", "expected crop:DIMS"),
        ("crop:٣", "expected crop:DIMS"),
        ("pad:8", "expected pad:DIMS:SEED"),
        ("pad_rms:8:-1", "expected pad_rms:DIMS:SEED"),
        ("pad_faithful:8:1:new", "expected pad_faithful:DIMS:SEED:GENERATOR, .* GENERATOR legacy or current"),
        ("pad_ratio:-1:3", "expected pad_ratio:RATIO:SEED, RATIO a number from 0 to inf"),
        ("pad_ratio:nan:3", "expected pad_ratio:RATIO:SEED"),
        ("all_but_top:1.5", "expected all_but_top:REMOVED"),
        ("sif:0", "expected sif:A, A a number above 0"),
        ("sif:0.0e5", "expected sif:A"),
        ("sif:inf", "expected sif:A"),
        ("sif:1e999", "expected sif:A"),
    ],
)
def test_a_variant_in_another_form_is_refused(text, told):
    with pytest.raises(EmbscaleError, match=told):
        Variant.parse(text)


def test_a_variant_made_without_its_numbers_is_a_fault_of_the_program():
    with pytest.raises(ValueError, match="make variants by"):
        Variant("crop").apply(spread(4, 3))


@pytest.mark.parametrize("text", ["random:2100x6:3", "random:2100x6:3:legacy"])
@pytest.mark.parametrize("variant", ["unit", "centred", "all_but_top:2", "whitened", "bf16"])
def test_a_variant_of_a_random_table_is_that_of_its_values(text, variant):
    """Though it is drawn anew each time that it is read."""
    random = random_tables.parse_random(text)
    values = np.concatenate(list(random.blocks()))
    assert np.array_equal(Variant.parse(variant).apply(random), Variant.parse(variant).apply(values))


@pytest.mark.parametrize("variant", ["crop_pca:3", "all_but_top:2", "whitened"])
def test_principal_components_are_found_once_however_often_the_blocks_are_read(monkeypatch, variant):
    found = []
    components = variants.components
    monkeypatch.setattr(variants, "components", lambda *args: found.append(args) or components(*args))
    blocks = Variant.parse(variant).blocks(random_tables.independent(1500, 6, 1))
    first, again = list(blocks), list(blocks)
    assert len(first) == 2 and all(map(np.array_equal, first, again)) and len(found) == 1


@pytest.mark.parametrize("text", EACH)
def test_some_rows_of_a_variant_are_those_of_the_whole(text):
    table, context = spread(2500, 6), counts(2500)
    rows = np.array([0, 3, 1023, 1024, 2000, 2499])
    made = Variant.parse(text).blocks(table, context)
    # A product with fewer rows at a time may add in another order.
    np.testing.assert_allclose(np.concatenate(list(made.some(rows))), np.concatenate(list(made))[rows], rtol=1e-5)


@pytest.mark.parametrize("text", [text for text in EACH if text != "full"])  # which is always scored
def test_params_yaml_allows_every_variant(text):
    assert checking.problems({"variants": [text]}, schema.of_group(TableVariants)) == []
    assert checking.problems({"variants": [f"{text}:x"]}, schema.of_group(TableVariants))
