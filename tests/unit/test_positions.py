"""Positions of checkpoints against the library's own models, closed forms, and pooling by hand."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

from embscale.checkpoints.families import FAMILIES, anatomy, family
from embscale.checkpoints.ranges import LocalFolder
from embscale.checkpoints.weights import Weights
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.primer import positions
from embscale.primer.position_scores import first_tokens
from embscale.primer.sinusoidal import sinusoidal
from embscale.tables import table_files
from embscale.texts import tokens

LEARNED = {"gpt2": "wpe", "opt": "decoder.embed_positions", "bert": "embeddings.position_embeddings"}
ROTARY = sorted(set(FAMILIES) - set(LEARNED) - {"bloom", "t5"})
RANDOM = np.random.default_rng(0)


def read_checkpoint(folder):
    return json.loads((folder / "config.json").read_text()), Weights(LocalFolder(folder)).read


def rows_of(folder, **options):
    config, read = read_checkpoint(folder)
    return positions.position_rows(config, read, **{"places": 40, "seeds": [1, 2]} | options)


def series(rows, statistic, kind, column="value"):
    chosen = rows[(rows["statistic"] == statistic) & (rows["kind"] == kind)]
    return chosen.set_index("index")[column]


# Which scheme


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_the_scheme_is_the_librarys(checkpoint, model_type):
    """Learned positions are an embedding of places; rotary ones have buffers; the rest is known by name."""
    folder = checkpoint(model_type)
    config, _ = read_checkpoint(folder)
    model = getattr(transformers, family(model_type).model_class).from_pretrained(folder)
    names = [name for named in (model.named_buffers(), model.named_parameters()) for name, _ in named]
    words = {"learned": "position_embeddings.weight wpe.weight embed_positions.weight", "rotary": "inv_freq"}
    words["relative"] = "relative_attention_bias"
    found = [scheme for scheme, ends in words.items() if any(end in name for end in ends.split() for name in names)]
    assert [positions.scheme(config)] == (found or ["alibi"])


@pytest.mark.parametrize("model_type", [*ROTARY, "bloom", "t5"])
def test_no_family_without_learned_positions_has_a_table(checkpoint, model_type):
    rows = rows_of(checkpoint(model_type))
    assert set(rows["kind"]) == {"formula"} and "learned" not in set(rows["scheme"])
    config, read = read_checkpoint(checkpoint(model_type))
    with pytest.raises(EmbscaleError, match="it has no learned positions to add"):
        positions.table_with_positions(config, np.ones((2, 16), np.float32), read)


def test_a_family_without_a_known_scheme_is_reported(monkeypatch):
    monkeypatch.setitem(FAMILIES, "xlnet", FAMILIES["llama"])
    with pytest.raises(EmbscaleError, match=r"^model_type 'xlnet': no scheme of positions is known"):
        positions.scheme({"model_type": "xlnet"})


# Learned tables


@pytest.mark.parametrize("model_type", LEARNED)
def test_the_table_is_what_the_model_looks_up(checkpoint, model_type):
    """Place 0 first, whatever rows come before it: OPT has two."""
    folder = checkpoint(model_type)
    _, read = read_checkpoint(folder)
    model = transformers.AutoModel.from_pretrained(folder)
    looked_up = []
    hook = lambda module, inputs, output: looked_up.append(output.detach())  # noqa: E731
    model.get_submodule(LEARNED[model_type]).register_forward_hook(hook)
    model(input_ids=torch.arange(64)[None] + 1)
    vectors = positions.learned(read, family(model_type).positions)
    assert vectors.shape == (64, 16)
    np.testing.assert_array_equal(vectors, looked_up[0].reshape(64, 16).double())
    norms = series(rows_of(folder), "norm", "table")
    np.testing.assert_allclose(norms, np.linalg.norm(vectors, axis=1))


def test_similarities_by_distance_are_scikit_learns():
    vectors = RANDOM.standard_normal((12, 6)) + 1
    rows = positions.table_rows(vectors, seeds=[])
    for statistic, chosen in (("similarity", vectors), ("similarity_centred", vectors - vectors.mean(axis=0))):
        cosines = cosine_similarity(chosen)
        found = rows[(rows["statistic"] == statistic) & (rows["kind"] == "table")].set_index("index")
        for distance in range(12):
            pairs = np.array([cosines[i, i + distance] for i in range(12 - distance)])
            assert found["value"][distance] == pytest.approx(pairs.mean())
            assert found["n"][distance] == len(pairs)
            assert found["low"][distance] == pytest.approx(np.percentile(pairs, 2.5))
            assert found["high"][distance] == pytest.approx(np.percentile(pairs, 97.5))


def test_the_spectrum_is_scikit_learns_and_the_participation_ratio_counts_equal_components():
    vectors = RANDOM.standard_normal((30, 6)) * np.arange(1, 7)
    shares = series(positions.table_rows(vectors, seeds=[]), "variance", "table")
    np.testing.assert_allclose(shares, PCA(svd_solver="full").fit(vectors).explained_variance_ratio_)
    corners = np.concatenate([np.eye(6)[:4], -np.eye(6)[:4]])
    ratio = series(positions.table_rows(corners, seeds=[]), "participation_ratio", "table")
    assert ratio[0] == pytest.approx(4)


def test_a_sinusoidal_table_is_explained_by_its_own_kind_and_a_random_one_by_chance():
    rows = positions.table_rows(sinusoidal(64, 16), seeds=list(range(30)))
    own = series(rows, "sinusoidal_share", "table")
    assert own[16] == pytest.approx(1) and own[4] < 0.9
    dimension = series(rows, "sinusoidal_share", "table", "n")
    assert dimension[2] == 2 and (dimension <= dimension.index).all() and dimension[16] > dimension[8] > dimension[4]
    np.testing.assert_allclose(series(rows, "sinusoidal_share", "random"), dimension / 63, rtol=0.1)


def test_a_turned_sinusoidal_table_is_still_one():
    """A learned table need not have its sines in columns of their own."""
    basis, _ = np.linalg.qr(RANDOM.standard_normal((16, 16)))
    rows = positions.table_rows(sinusoidal(64, 16) @ basis + 3, seeds=[])
    assert series(rows, "sinusoidal_share", "table")[16] == pytest.approx(1)
    centred = [series(rows, "similarity_centred", kind) for kind in ("table", "sinusoidal")]
    np.testing.assert_allclose(*centred)


def test_random_tables_are_summed_up_over_seeds():
    rows = positions.table_rows(RANDOM.standard_normal((20, 6)), seeds=[1, 2, 3])
    alone = [positions.table_rows(np.random.default_rng(seed).standard_normal((20, 6)), seeds=[]) for seed in (1, 2, 3)]
    values = np.array([series(found, "similarity", "table")[5] for found in alone])
    random = rows[(rows["kind"] == "random") & (rows["statistic"] == "similarity")].set_index("index").loc[5]
    assert random[["value", "low", "high", "n"]].tolist() == pytest.approx(
        [values.mean(), values.min(), values.max(), 3]
    )


def test_what_cannot_be_computed_is_not_a_number():
    vectors = np.zeros((5, 4))
    rows = positions.table_rows(vectors, seeds=[])
    assert series(rows, "similarity", "table").isna().all()
    assert series(rows, "similarity", "table", "n").eq(0).all()
    assert series(rows, "variance", "table").isna().all() and series(rows, "norm", "table").eq(0).all()


@pytest.mark.parametrize("left", [0, 2])
def test_a_missing_or_empty_table_is_reported(checkpoint, left):
    config, read = read_checkpoint(checkpoint("opt"))
    shorter = (lambda endings: read(endings)[:left]) if left else (lambda endings: None)
    with pytest.raises(
        EmbscaleError, match=r"^decoder\.embed_positions\.weight: expected a matrix of more than 2 rows"
    ):
        positions.position_rows(config, shorter, places=4, seeds=[])


# Rotary


@pytest.mark.parametrize("model_type", ROTARY)
def test_angles_are_those_of_the_model(checkpoint, model_type):
    folder = checkpoint(model_type)
    model = transformers.AutoModel.from_pretrained(folder)
    buffers = {n.rpartition(".")[2]: b for n, b in model.named_buffers() if n.endswith("inv_freq") and "orig" not in n}
    rows = rows_of(folder)
    angles = rows[rows["statistic"] == "angle"]
    assert len(buffers) == angles["part"].nunique()
    for name, expected in buffers.items():
        part = name.removesuffix("inv_freq").rstrip("_") or "all"
        np.testing.assert_allclose(angles[angles["part"] == part]["value"], expected, rtol=1e-6)


def test_layers_of_two_kinds_have_angles_of_their_own():
    config = {"model_type": "gemma3_text", "num_hidden_layers": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4}
    rows = positions.rotary_rows(config | {"head_dim": 8}, places=4)
    angles = rows[rows["statistic"] == "angle"].pivot_table(index="index", columns="part", values="value")
    np.testing.assert_allclose(angles["full_attention"], 1e6 ** (-np.arange(4) / 4))
    np.testing.assert_allclose(angles["sliding_attention"], 1e4 ** (-np.arange(4) / 4))


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        | {"original_max_position_embeddings": 64},
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    ],
    ids=lambda scaling: scaling["rope_type"],
)
def test_angles_for_longer_contexts_are_those_of_the_model(scaling):
    """In the old words of a config.json."""
    settings = {"hidden_size": 64, "num_attention_heads": 2, "rope_theta": 500_000.0, "rope_scaling": scaling}
    settings["max_position_embeddings"] = 256
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    expected = LlamaRotaryEmbedding(transformers.LlamaConfig(**settings)).inv_freq
    rows = positions.rotary_rows({"model_type": "llama"} | settings, places=4)
    np.testing.assert_allclose(rows[rows["statistic"] == "angle"]["value"], expected, rtol=1e-6)


def test_columns_that_are_not_turned_keep_their_part_of_the_product():
    config = {"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 4, "rotary_pct": 0.25}
    similarity = series(positions.rotary_rows(config, places=9), "similarity", "formula")
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding, apply_rotary_pos_emb

    ones = torch.ones(1, 1, 9, 16)
    cosines, sines = GPTNeoXRotaryEmbedding(transformers.GPTNeoXConfig(**config))(ones, torch.arange(9)[None])
    queries, keys = apply_rotary_pos_emb(ones, ones, cosines, sines)
    np.testing.assert_allclose(similarity, (queries @ keys.mT)[0, 0, 0] / 16, atol=1e-5)
    assert similarity[0] == 1 and similarity.min() > 0.5


# Biases


def test_relative_biases_are_those_of_the_model(checkpoint):
    folder = checkpoint("t5")
    model = transformers.T5EncoderModel.from_pretrained(folder)
    expected = model.encoder.block[0].layer[0].SelfAttention.compute_bias(40, 40)[0].detach()
    rows = rows_of(folder).pivot_table(index="part", columns="index", values="value")
    assert rows.shape == (2, 79)
    for query in (0, 20, 39):
        np.testing.assert_allclose(rows[np.arange(40) - query], expected[:, query], rtol=1e-6)


def test_a_checkpoint_without_its_biases_is_reported(checkpoint):
    config, _ = read_checkpoint(checkpoint("t5"))
    with pytest.raises(EmbscaleError, match=r"relative_attention_bias\.weight: expected 32 × 2, found nothing"):
        positions.position_rows(config, lambda endings: None, places=4, seeds=[])


def test_alibi_has_a_line_for_each_head(checkpoint):
    rows = rows_of(checkpoint("bloom")).pivot_table(index="part", columns="index", values="value")
    np.testing.assert_allclose(rows.loc["0"], [-distance / 16 for distance in range(39, -1, -1)])
    np.testing.assert_allclose(rows.loc["1"], [-distance / 256 for distance in range(39, -1, -1)])


# In retrieval


def bag(*texts):
    return tokens.TokenisedTexts(
        np.concatenate([np.array(t, np.int32) for t in texts]), np.cumsum([0, *map(len, texts)])
    )


@pytest.mark.parametrize("model_type", ["gpt2", "opt"])
def test_the_mean_over_placed_tokens_is_half_that_of_what_block_1_receives(checkpoint, model_type):
    folder = checkpoint(model_type)
    config, read = read_checkpoint(folder)
    texts = [[5, 9, 5, 20], [7], list(range(64, 0, -1))]
    model = transformers.AutoModel.from_pretrained(folder)
    received = []
    keep = lambda module, args, kwargs: received.append(args[0] if args else kwargs["hidden_states"])  # noqa: E731
    anatomy(model).blocks[0].register_forward_pre_hook(keep, with_kwargs=True)
    with torch.no_grad():
        for text in texts:
            model(input_ids=torch.tensor([text]))
    table = positions.table_with_positions(config, read(family(model_type).input_tables), read)
    rows = len(table) - 64
    placed = positions.with_positions(bag(*texts), rows, 64)
    for i, states in enumerate(received):
        np.testing.assert_allclose(2 * table[placed[i]].mean(axis=0), states[0].mean(dim=0), atol=1e-6)


def test_empty_texts_stay_empty():
    placed = positions.with_positions(bag([3, 4], [], [5]), 10, 4)
    assert [placed[i].tolist() for i in range(3)] == [[3, 10, 4, 11], [], [5, 10]]


@pytest.mark.parametrize(
    ("texts", "words"),
    [([[1] * 5], "5 tokens, but there are 4 learned positions"), ([[10]], "the token 10: the table has 10 rows")],
)
def test_texts_that_do_not_fit_are_reported(texts, words):
    with pytest.raises(EmbscaleError, match=words):
        positions.with_positions(bag(*texts), 10, 4)


def test_positions_under_a_norm_are_refused(checkpoint):
    config, read = read_checkpoint(checkpoint("bert"))
    with pytest.raises(EmbscaleError, match="a norm follows its positions"):
        positions.table_with_positions(config, np.ones((2, 16), np.float32), read)


# Commands


KEYS = ["--places", "10", "--seeds", "1", "--suite", "s", "--model", "m", "--step", "main"]


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "t5"])
def test_the_command_writes_the_same_rows_twice_and_notes_what_it_read(checkpoint, model_type, tmp_path):
    for run in ("a", "b"):
        assert execute("positions", [str(checkpoint(model_type)), *KEYS, "-o", str(tmp_path / f"{run}.csv")]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    rows = pd.read_csv(tmp_path / "a.csv", dtype={"part": str})
    assert {*positions.COLUMNS, "suite", "model", "step"} == set(rows) and set(rows["model"]) == {"m"}
    note = json.loads((tmp_path / "a.csv.note.json").read_text())
    assert note["params"]["step"] == "main"  # as the rule gave it, or the result check stops
    read = note["inputs"]
    weights = {"gpt_neox": set()}.get(model_type, {"model.safetensors"})
    assert {name.rpartition("/")[2] for name in read} == {"config.json"} | weights


def test_the_command_reads_a_table_of_positions_by_itself(checkpoint, tmp_path):
    vectors = load_file(checkpoint("gpt2") / "model.safetensors")["transformer.wpe.weight"]
    save_file({"table": vectors}, tmp_path / "wpe.safetensors")
    assert execute("positions", [str(tmp_path / "wpe.safetensors"), *KEYS, "-o", str(tmp_path / "a.csv")]) == 0
    assert execute("positions", [str(checkpoint("gpt2")), *KEYS, "-o", str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_missing_checkpoint_is_reported(tmp_path, capsys):
    assert execute("positions", [str(tmp_path / "none"), *KEYS, "-o", str(tmp_path / "a.csv")]) == 1
    assert "neither a folder or file here nor a repository" in capsys.readouterr().err


def test_the_command_reads_a_checkpoint_on_a_hub(checkpoint, hub, tmp_path):
    commit = hub.add("test/gpt2", checkpoint("gpt2"))
    assert execute("positions", ["test/gpt2", *KEYS, "-o", str(tmp_path / "hub.csv")]) == 0
    assert execute("positions", [str(checkpoint("gpt2")), *KEYS, "-o", str(tmp_path / "here.csv")]) == 0
    assert (tmp_path / "hub.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert json.loads((tmp_path / "hub.csv.note.json").read_text())["facts"]["commit"] == commit


def test_scores_with_positions_are_those_of_vectors_by_hand(checkpoint, tokenizer_folder, tmp_path):
    """Through the commands: cosines of means of row plus position, and the ranking that follows."""
    documents = ["The table of a model.", "Wide models have long rows.", "A layer adds to the vectors.", "Short."]
    queries = ["A model of the table.", "rows"]
    folder = tmp_path / "task"
    (folder / "qrels").mkdir(parents=True)
    for name, texts, prefix in (("corpus", documents, "d"), ("queries", queries, "q")):
        lines = [json.dumps({"_id": f"{prefix}{i}", "title": "", "text": text}) for i, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td3\t1\n")
    common = ["--tokenizer", str(tokenizer_folder), "--max-length", "64", "--special-tokens", "exclude"]
    made = tmp_path / "tokens.safetensors"
    assert execute("tokenize", [str(folder), *common, "-o", str(made)]) == 0
    table, placed = tmp_path / "table.safetensors", tmp_path / "placed.safetensors"
    arguments = [str(checkpoint("gpt2")), "--tokens", str(made), "--table", str(table)]
    assert execute("add-positions", [*arguments, "--placed-tokens", str(placed)]) == 0
    rows = tmp_path / "rows.parquet"
    options = ["--tokens", str(placed), "--beir", str(folder), "--metrics", "map_at_10", "--per-query", str(rows)]
    assert execute("score", [str(table), *options]) == 0
    found = pd.read_parquet(rows).set_index("query")["score"]

    weights = load_file(checkpoint("gpt2") / "model.safetensors")
    wte, wpe = (weights[f"transformer.{name}.weight"].double().numpy() for name in ("wte", "wpe"))
    groups, _ = tokens.load(made)
    means = {
        name: np.stack([(wte[group[i]] + wpe[: len(group[i])]).mean(axis=0) for i in range(len(group))])
        for name, group in groups.items()
    }
    ranks = (-cosine_similarity(means["queries"], means["documents"])).argsort(axis=1)
    expected = [1 / (ranks[query].tolist().index(document) + 1) for query, document in ((0, 0), (1, 3))]
    assert [found["q0"], found["q1"]] == pytest.approx(expected, abs=1e-4)
    assert table_files.load(table).shape == (300 + 64, 16)

    # The command that tells what positions change has the same score, and that of the table alone.
    numbers = ["--metric", "map_at_10", "--seeds", "1", "2", "--bootstrap-resamples", "50", "--bootstrap-seed", "1"]
    arguments = [str(checkpoint("gpt2")), "--beir", str(folder), "--tokens", str(made), *numbers, "--threads", "1"]
    for name in "ab":
        end = ["--suite", "s", "--model", "m", "-o", str(tmp_path / name)]
        assert execute("position-scores", [*arguments, *end]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    told = pd.read_csv(tmp_path / "a").set_index(["quantity", "kind"])
    assert told.loc[("score", "learned positions"), "value"].item() == pytest.approx(found.mean(), abs=1e-9)
    alone = ["--tokens", str(made), "--beir", str(folder), "--metrics", "map_at_10", "-o", str(tmp_path / "alone.csv")]
    table_files.save(tmp_path / "wte.safetensors", wte.astype(np.float32), {})
    assert execute("score", [str(tmp_path / "wte.safetensors"), *alone]) == 0
    alone = pd.read_csv(tmp_path / "alone.csv")["value"].item()
    assert told.loc[("score", "table alone"), "value"].item() == pytest.approx(alone, abs=1e-9)
    change = told.loc[("change", "learned positions"), "value"].item()
    assert change == pytest.approx(found.mean() - alone, abs=1e-9)
    assert told.loc[("score", "random positions"), "seed"].tolist() == [1, 2]


def test_texts_are_cut_after_so_many_tokens():
    texts = bag([1, 2, 3], [], [4], [5, 6])
    cut = first_tokens(texts, 2)
    assert [cut[i].tolist() for i in range(4)] == [[1, 2], [], [4], [5, 6]]
