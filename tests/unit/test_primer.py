"""The primer's pieces against torch, transformers and the identities that define them."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from embscale.checkpoints import suites
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.primer import arithmetic, biases, gradients, lookup, order, rotary, sinusoidal, sizes, space
from embscale.tables.table_files import save
from embscale.texts.tokens import load_tokenizer

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((50, 6))
IDS = np.array([[3, 7, 3, 0], [49, 3, 7, 7]])  # of a batch of texts, with repetitions
REGISTRY = suites.SCHEMA.parents[1] / "suites.yaml"


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder):
    return load_tokenizer(tokenizer_folder)


@pytest.fixture(scope="module")
def table(tokenizer):
    return RANDOM.standard_normal((tokenizer.get_vocab_size(), 8)).astype(np.float32)


# Lookup


def test_a_lookup_is_a_product_with_one_hot_vectors():
    found = lookup.lookup(TABLE, IDS)
    assert found.shape == (2, 4, 6)
    np.testing.assert_array_equal(found, lookup.one_hot(IDS, 50) @ TABLE)
    np.testing.assert_array_equal(found, torch.nn.Embedding.from_pretrained(torch.tensor(TABLE))(torch.tensor(IDS)))


@pytest.mark.parametrize("way", ["lookup", "product"])
def test_the_gradient_is_that_of_autograd_both_ways(way):
    """By the lookup and by the product with one-hot vectors, after a function that is not linear."""
    upstream_of = torch.tensor(RANDOM.standard_normal((6, 3)))
    parameter = torch.tensor(TABLE, requires_grad=True)
    hot = torch.tensor(lookup.one_hot(IDS, 50))
    vectors = torch.nn.functional.embedding(torch.tensor(IDS), parameter) if way == "lookup" else hot @ parameter
    vectors.retain_grad()
    torch.tanh(vectors @ upstream_of).square().sum().backward()
    gradient = lookup.lookup_gradient(vectors.grad.numpy(), IDS, 50)
    np.testing.assert_allclose(gradient, parameter.grad, rtol=1e-12)
    np.testing.assert_array_equal(np.flatnonzero(gradient.any(axis=1)), np.unique(IDS))


def test_torch_too_stores_the_gradient_of_used_rows_alone():
    layer = torch.nn.Embedding(50, 6, sparse=True)
    layer(torch.tensor(IDS)).square().sum().backward()
    assert layer.weight.grad.is_sparse
    np.testing.assert_array_equal(layer.weight.grad.coalesce().indices()[0], np.unique(IDS))


@pytest.mark.parametrize("wrong", [[-1], [50]])
def test_an_id_without_a_row_is_reported(wrong):
    with pytest.raises(EmbscaleError, match=r"^ids from -?\d+ to -?\d+: the table has the rows 0 to 49$"):
        lookup.lookup(TABLE, np.array(wrong))


def test_the_rows_shown_multiply_to_the_vectors_shown(tokenizer, table):
    rows = lookup.lookup_rows(tokenizer, table, "the table of a", columns=3, neighbours=1)
    parts = dict(list(rows.groupby("matrix")))
    hot = parts["one_hot"].pivot_table(index="place", columns="id", values="value")
    shown = parts["table"].pivot_table(index="id", columns="column", values="value")
    vectors = parts["vectors"].pivot_table(index="place", columns="column", values="value")
    np.testing.assert_array_equal(hot.to_numpy() @ shown.to_numpy(), vectors.to_numpy())
    assert "".join(parts["vectors"].drop_duplicates("place")["token"]) == "the table of a"
    assert set(shown.index) >= set(parts["vectors"]["id"]) and len(shown) > vectors.shape[0]


# Gradients


def test_derivatives_of_a_linear_layer_by_differences_and_by_torch():
    weights, bias, x = RANDOM.standard_normal((3, 4)), RANDOM.standard_normal(3), RANDOM.standard_normal(4)
    by_weights, by_x = gradients.linear_derivatives(weights, x)
    numeric = gradients.finite_differences(lambda w: w @ x + bias, weights, step=1e-4)
    np.testing.assert_allclose(by_weights, numeric, atol=1e-9)
    np.testing.assert_allclose(
        by_x, gradients.finite_differences(lambda v: weights @ v + bias, x, step=1e-4), atol=1e-9
    )
    exact = torch.autograd.functional.jacobian(lambda w, v: w @ v, (torch.tensor(weights), torch.tensor(x)))
    np.testing.assert_allclose(by_weights, exact[0])
    np.testing.assert_allclose(by_x, exact[1])


def test_the_smallest_language_model_learns_as_torch_does():
    inputs, outputs = RANDOM.standard_normal((2, 50, 6))
    ids = IDS.ravel()
    tables = [torch.tensor(values, requires_grad=True) for values in (inputs, outputs)]
    logits = tables[0][torch.tensor(ids[:-1])] @ tables[1].T
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    expected.backward()
    loss, by_input, by_output = gradients.next_token_gradients(inputs, outputs, ids)
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    np.testing.assert_allclose(by_input, tables[0].grad, atol=1e-12)
    np.testing.assert_allclose(by_output, tables[1].grad, atol=1e-12)


def test_a_tied_tables_gradients_add_up():
    table = torch.tensor(TABLE, requires_grad=True)
    ids = IDS.ravel()
    torch.nn.functional.cross_entropy(table[torch.tensor(ids[:-1])] @ table.T, torch.tensor(ids[1:])).backward()
    _, by_input, by_output = gradients.next_token_gradients(TABLE, TABLE, ids)
    np.testing.assert_allclose(by_input + by_output, table.grad, atol=1e-12)


def test_a_text_teaches_its_own_rows_on_the_way_in_and_all_on_the_way_out(tokenizer, table):
    rows = gradients.gradient_rows(tokenizer, table, "the table of a")
    used = rows["uses"] > 0
    assert (rows["by_input"] > 0).equals(used) and 0 < used.sum() < len(rows) / 10
    assert (rows["by_output"] > 0).all()


# Arithmetic


def test_sums_mean_the_same_in_every_basis_and_element_wise_products_do_not():
    basis, _ = np.linalg.qr(RANDOM.standard_normal((6, 6)))
    x, y = TABLE[:2]
    for operation in (np.add, np.subtract):
        np.testing.assert_allclose(arithmetic.in_basis(operation, x, y, basis), operation(x, y), atol=1e-14)
    for operation in (np.multiply, np.divide):
        assert np.abs(arithmetic.in_basis(operation, x, y, basis) - operation(x, y)).max() > 0.1
    assert (x @ basis) @ (y @ basis) == pytest.approx(x @ y)


# Space


def test_points_are_the_rows_in_their_best_plane(tokenizer, table):
    rows = space.space_rows(tokenizer, table, ["vector", "of", "a", "layer", "xylophone"]).set_index("word")
    assert rows["id"].isna().tolist() == [False] * 4 + [True]
    known = rows.dropna(subset="id")
    vectors = table[known["id"].astype(int)].astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(known[["pc1", "pc2"]]), np.abs(left[:, :2] * values[:2]), atol=1e-12)
    assert rows["explained1"].iloc[0] == pytest.approx(values[0] ** 2 / (values**2).sum())
    cosines = cosine_similarity(vectors) - 2 * np.eye(4)
    assert known["nearest"].tolist() == [known.index[i] for i in cosines.argmax(axis=1)]
    np.testing.assert_allclose(known["cosine"], cosines.max(axis=1))


def test_a_place_moves_every_word_by_the_same_vector(tokenizer, table):
    rows = space.offset_rows(tokenizer, table, ["vector", "of", "a"], [0, 5]).set_index(["word", "place"])
    moved = rows.unstack("place")
    for place in (0, 5):
        for axis in ("x", "y"):
            assert np.ptp(moved[axis, place] - moved[axis, -1]) < 1e-12
    assert (moved["x", 5] - moved["x", 0]).abs().min() > 1e-3


def test_too_few_words_for_a_picture_are_reported(tokenizer, table):
    with pytest.raises(EmbscaleError, match="2 are single tokens; a picture needs 3 at least"):
        space.space_rows(tokenizer, table, ["the", "of", "xylophone"])


# Sinusoidal positions


def test_sinusoidal_positions_by_the_papers_formula():
    vectors = sinusoidal.sinusoidal(20, 8)
    for pos, i in itertools.product(range(20), range(4)):
        angle = pos / 10000 ** (2 * i / 8)
        assert vectors[pos, 2 * i : 2 * i + 2] == pytest.approx([np.sin(angle), np.cos(angle)], abs=1e-14)


@pytest.mark.parametrize("distance", [1, 5, -3, 0.5])
def test_a_shift_is_a_rotation(distance):
    matrix = sinusoidal.shift(distance, 8)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(8), atol=1e-15)
    assert np.linalg.det(matrix) == pytest.approx(1)
    np.testing.assert_allclose(matrix @ sinusoidal.shift(2, 8), sinusoidal.shift(distance + 2, 8), atol=1e-15)
    if distance == 5:
        vectors = sinusoidal.sinusoidal(50, 8)
        np.testing.assert_allclose(vectors[:-5] @ matrix.T, vectors[5:], atol=1e-14)


def test_products_of_sinusoidal_positions_depend_on_distance_alone():
    vectors = sinusoidal.sinusoidal(40, 8)
    products = vectors @ vectors.T
    for distance in range(40):
        assert np.ptp(np.diagonal(products, distance)) < 1e-13
    rows = sinusoidal.sinusoidal_rows(places=40, width=8)
    found = rows[rows["statistic"] == "product"]["value"]
    np.testing.assert_allclose(found, products[0] / products[0, 0])


def test_an_odd_width_is_reported():
    with pytest.raises(EmbscaleError, match=r"^width 7: columns come in pairs"):
        sinusoidal.sinusoidal(3, 7)


# Rotary positions


@settings(max_examples=50)
@given(
    places=st.tuples(st.integers(0, 2000), st.integers(0, 2000)),
    moved=st.integers(0, 5000),
    layout=st.sampled_from(["halves", "interleaved"]),
)
def test_turned_products_depend_on_distance_alone(places, moved, layout):
    vectors = np.random.default_rng(1).standard_normal((2, 16))
    here = rotary.rotate(vectors, np.array(places), base=10_000, layout=layout)
    there = rotary.rotate(vectors, np.array(places) + moved, base=10_000, layout=layout)
    assert here[0] @ here[1] == pytest.approx(there[0] @ there[1], abs=1e-9)
    np.testing.assert_allclose(np.linalg.norm(here, axis=1), np.linalg.norm(vectors, axis=1))


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_halves_are_what_llama_does(base):
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = transformers.LlamaConfig(hidden_size=32, num_attention_heads=2, rope_theta=base)
    vectors = torch.randn(1, 2, 30, 16, dtype=torch.float64)
    cosines, sines = LlamaRotaryEmbedding(config)(vectors, torch.arange(30)[None])
    queries, keys = apply_rotary_pos_emb(vectors, vectors + 1, cosines, sines)
    places = np.arange(30)
    for given_, turned in ((vectors, queries), (vectors + 1, keys)):
        ours = rotary.rotate(given_.numpy(), places, base=base, layout="halves")
        np.testing.assert_allclose(ours, turned, atol=1e-5)  # the library's angles are 32-bit


def test_interleaved_is_what_gpt_j_does_and_halves_in_another_order():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    vectors = torch.randn(1, 30, 2, 16)
    sines, cosines = create_sinusoidal_positions(30, 16)[None].split(8, dim=-1)
    theirs = apply_rotary_pos_emb(vectors, sines, cosines)
    places = np.arange(30)
    by_head = vectors.transpose(1, 2).double().numpy()
    ours = rotary.rotate(by_head, places, base=10_000, layout="interleaved")
    np.testing.assert_allclose(ours, theirs.transpose(1, 2), atol=1e-5)
    order_ = np.concatenate(rotary.pairs(16, "interleaved"))
    halves = rotary.rotate(by_head[..., order_], places, base=10_000, layout="halves")
    np.testing.assert_array_equal(halves, ours[..., order_])


def test_rotary_rows_have_one_line_where_added_positions_have_several():
    rows = rotary.rotary_rows(width=16, base=10_000, first_places=[0, 9], distances=12, pair=1, seed=3)
    lines = rows[rows["statistic"] == "product"].pivot_table(
        index="distance", columns=["scheme", "first_place"], values="value"
    )
    np.testing.assert_allclose(lines["rotary", 0], lines["rotary", 9])
    assert (lines["added", 0] - lines["added", 9]).abs().max() > 1
    arrows = rows[rows["statistic"] != "product"].set_index(["statistic", "first_place"])[["x", "y"]]
    angles = np.arctan2(arrows["y"], arrows["x"])
    turned = (angles["query"] - angles["key"]) % (2 * np.pi)
    assert turned[0] == pytest.approx(turned[9])


# Biases


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 16, 20, 112])
def test_alibi_is_blooms(heads):
    """BLOOM adds slope times place of the key: for each query, ours plus a constant, which a softmax does not see."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 40), heads, torch.float64)[:, 0]
    for query in (0, 7, 39):
        ours = torch.tensor(biases.alibi_bias(heads, query + 1)[:, ::-1].copy())
        torch.testing.assert_close(ours.softmax(-1), theirs[:, : query + 1].softmax(-1), rtol=1e-5, atol=1e-6)


def test_alibi_slopes_of_the_paper():
    assert biases.alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    np.testing.assert_allclose(biases.alibi_slopes(16), 2.0 ** (-np.arange(1, 17) / 2))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (64, 256), (32, 100), (8, 1000)])
def test_relative_buckets_are_t5s(bidirectional, buckets, max_distance):
    from transformers.models.t5.modeling_t5 import T5Attention

    apart = np.arange(-3000, 3001)
    theirs = T5Attention._relative_position_bucket(torch.tensor(apart), bidirectional, buckets, max_distance)
    ours = biases.relative_bucket(apart, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    np.testing.assert_array_equal(ours, theirs)


# Order


def test_mean_pooling_does_not_see_order():
    vectors = RANDOM.standard_normal((9, 6))
    np.testing.assert_allclose(order.mean_pool(vectors[RANDOM.permutation(9)]), order.mean_pool(vectors), atol=1e-15)


def test_attention_is_torchs():
    states, weights = RANDOM.standard_normal((9, 6)), RANDOM.standard_normal((3, 6, 6))
    normed = torch.nn.functional.rms_norm(torch.tensor(states), (6,), eps=0)
    query, key, value = (normed @ torch.tensor(matrix) for matrix in weights)
    for causal in (False, True):
        expected = torch.nn.functional.scaled_dot_product_attention(
            query[None], key[None], value[None], is_causal=causal
        )
        found = order.attention(states, weights, causal=causal)
        np.testing.assert_allclose(found, states + expected[0].numpy(), atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_without_positions_is_equivariant_until_a_mask_is_causal(causal):
    states, weights = RANDOM.standard_normal((9, 6)), RANDOM.standard_normal((3, 6, 6))
    permutation = RANDOM.permutation(9)
    found = order.attention(states[permutation], weights, causal=causal)
    gap = np.abs(found - order.attention(states, weights, causal=causal)[permutation]).max()
    assert gap > 0.1 if causal else gap < 1e-12


def test_what_sees_order_in_texts(tokenizer, table):
    words = ["of", "the", "table", "a"]
    texts = [f" {' '.join(words)} the", f" {' '.join(reversed(words))} the"]
    rows = order.order_rows(tokenizer, table, texts, layers=2, seed=1)
    value = rows.set_index(["mask", "positions", "layers", "vector"])["value"]
    blind = [key for key in value.index if key[1] == "none" and (key[0] == "none" or key[2] == 0)]
    # One causal layer: the last token has seen all others, in no order.
    blind += [("causal", "none", 1, "last")]
    # A mean of rows and positions has all of the positions in it, in whatever order the rows are.
    blind += [key for key in value.index if key[2] == 0]
    for key in value.index:
        assert value[key] == 0 if key in blind else value[key] > 1e-3, key
    assert (rows["n"] == 1).all()


def test_texts_of_other_tokens_are_reported(tokenizer, table):
    with pytest.raises(EmbscaleError, match=r"^text ' of the': expected the tokens of ' the of' in another order"):
        order.order_rows(tokenizer, table, [" the of", " of the"], layers=1, seed=1)


def test_more_tokens_than_learned_positions_are_reported():
    positions = RANDOM.standard_normal((4, 6))
    np.testing.assert_array_equal(order.add_positions(TABLE[:3], positions), TABLE[:3] + positions[:3])
    with pytest.raises(EmbscaleError, match=r"^5 tokens: there are 4 learned positions"):
        order.add_positions(TABLE[:5], positions)


# Sizes


def test_the_lectures_arithmetic():
    examples = sizes.size_rows({}).set_index("model")
    assert examples["table"]["a round example"] == 50_000_000
    assert examples["table"]["GPT-3"] == 617_558_016
    assert examples["share"]["GPT-3"] == pytest.approx(617_558_016 / 175e9)


def test_resnet_50_is_counted():
    with torch.device("meta"):
        model = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert sizes.size_rows({}).set_index("model")["parameters"]["ResNet-50"] == counted


def test_sizes_of_the_registry_add_up(tmp_path):
    found = sizes.size_rows(suites.load(REGISTRY, tmp_path / "none")).set_index("model")
    assert found.index.is_unique and {"pythia-14m", "gpt2", "opt-350m"} <= set(found.index)
    # By hand: an untied table counts twice.
    assert found["tables"]["pythia-14m"] == 2 * 50304 * 128
    assert found["share"]["gpt2"] == pytest.approx(50257 * 768 / 124_439_808)
    known = found.dropna(subset="share")
    assert ((known["share"] > 0) & (known["share"] < 1)).all() and len(known) > 50
    text = sizes.sizes_table(found.reset_index())
    assert "| pythia-14m-seed1 and 8 more | 50,304 × 128 |" in text
    assert "| GPT-3 | 50,257 × 12,288 | 617.6 | the same | 175,000.0 | 0.35 % |" in text
    schemes = found["positions"]
    assert schemes[["pythia-14m", "opt-125m", "bloom", "t5-v1_1-base", "gpt2"]].tolist() == [
        "rotary", "learned", "alibi", "relative", "learned",
    ]  # fmt: skip


@pytest.mark.parametrize(("share", "words"), [(0.915, "92 %"), (0.0035, "0.35 %"), (0.0993, "9.9 %")])
def test_shares_in_words(share, words):
    assert sizes.percent(share) == words


# The command


CONCEPTS = {
    "lookup": ["--text", "the table", "--columns", "4", "--neighbours", "1"],
    "gradient": ["--text", "the table"],
    "space": ["--words", "the", "--words", "of", "--words", "a"],
    "offset": ["--words", "the", "--words", "of", "--words", "a", "--places", "0", "--places", "3"],
    "order": ["--texts", " the of a the", " the a of the", "--layers", "1", "--seed", "1"],
    "sinusoidal": ["--places", "8", "--width", "4"],
    "rotary": [
        "--width",
        "8",
        "--base",
        "10000",
        "--first-places",
        "1",
        "--distances",
        "4",
        "--pair",
        "1",
        "--seed",
        "1",
    ],
    "biases": ["--heads", "4", "--places", "8", "--buckets", "32", "--max-distance", "128"],
}


@pytest.mark.parametrize("concept", CONCEPTS)
def test_the_command_writes_the_same_rows_twice(concept, tokenizer_folder, table, tmp_path):
    save(tmp_path / "table.safetensors", table, {})
    of_table = [str(tmp_path / "table.safetensors"), "--tokenizer", str(tokenizer_folder)]
    arguments = [
        concept,
        *(of_table if concept in ("lookup", "gradient", "space", "offset", "order") else []),
        *CONCEPTS[concept],
    ]
    for run in ("a", "b"):
        assert execute("primer", [*arguments, "-o", str(tmp_path / f"{run}.csv")]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert len(pd.read_csv(tmp_path / "a.csv")) > 2
    assert (tmp_path / "a.csv.note.json").is_file()


def test_the_command_writes_sizes(tmp_path):
    files = ["-o", str(tmp_path / "sizes.csv"), "--partial", str(tmp_path / "sizes.md")]
    assert execute("primer", ["sizes", "--registry", str(REGISTRY), *files]) == 0
    assert list(pd.read_csv(tmp_path / "sizes.csv")) == list(sizes.COLUMNS)
    assert (tmp_path / "sizes.md").read_text().startswith("| suite | model |")
