"""Scores of layers: states against the library's own, layer 0 against the table's score, means against numpy."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.figures import NothingToShow, layer_score_steps
from embscale.figures import layer_scores as figure
from embscale.layers import running, text_vectors
from embscale.provenance.artifacts import note_path, read_note
from embscale.report import numbers
from embscale.rows import tidy
from embscale.rows.spread import evenly
from embscale.scoring import layer_scores, scores
from embscale.texts import beir
from embscale.texts.tokens import TokenisedTexts
from hub.repositories import SENTENCES


def tokenised(*texts):
    ids = np.array([token for text in texts for token in text], np.int32)
    return TokenisedTexts(ids, np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)]))


def test_some_are_chosen_evenly_from_the_last_to_the_first():
    assert evenly(range(4), 2) == [0, 3]
    assert evenly(range(17), 6) == [0, 3, 6, 10, 13, 16]
    assert evenly("abc", 1) == ["c"]
    assert evenly("abc", 9) == ["a", "b", "c"]


def test_equal_texts_are_run_once():
    texts, (documents, queries) = text_vectors.distinct(tokenised([3, 4], [], [3, 4], [4, 3]), tokenised([4, 3], [7]))
    assert [texts[i].tolist() for i in range(len(texts))] == [[3, 4], [], [4, 3], [7]]
    assert (documents.tolist(), queries.tolist()) == ([0, 1, 0, 2], [2, 3])


@pytest.mark.parametrize("name", ["gpt_neox", "gpt2", "llama", "bert"])
def test_the_vector_of_a_text_is_the_mean_of_the_library_s_own_states(checkpoint, name):
    """By hand: each text alone, without padding, and the mean of what transformers returns."""
    generator = np.random.default_rng(1)
    lists = [generator.integers(0, 200, length).tolist() for length in (5, 3, 5, 1, 0, 7)]
    model = running.load_model(checkpoint(name))
    means = text_vectors.mean_states(model, tokenised(*lists), batch=2)
    blocks = [layer for layer in means if layer.startswith("block ") and layer != "block input"]
    assert next(iter(means)) == "embedding" and ("block input" in means) == (name in ("gpt2", "bert"))
    for number, ids in enumerate(lists):
        if not ids:
            assert all(not vectors[number].any() for vectors in means.values())
            continue
        with torch.inference_mode():
            output = model(torch.tensor([ids]), output_hidden_states=True)
        expected = {"embedding": model.get_input_embeddings().weight[torch.tensor(ids)]}
        if "block input" in means:
            expected["block input"] = output.hidden_states[0][0]
        # The library puts the final norm behind the last block.
        expected |= {layer: output.hidden_states[i][0] for i, layer in enumerate(blocks[:-1], 1)}
        expected["final norm" if "final norm" in means else blocks[-1]] = output.last_hidden_state[0]
        for layer, states in expected.items():
            np.testing.assert_allclose(means[layer][number], states.mean(0).detach(), rtol=2e-5, atol=2e-6)
    if "final norm" in means:
        last = means[blocks[-1]]
        assert np.abs(last - means["final norm"])[0].max() > 1e-3  # before the norm


def test_texts_that_do_not_fit_are_refused(checkpoint):
    model = running.load_model(checkpoint("gpt2"))
    most = model.config.max_position_embeddings
    with pytest.raises(EmbscaleError, match=f"1 texts have more than the {most} tokens .* the longest {most + 1}"):
        text_vectors.mean_states(model, tokenised([1], [2] * (most + 1)), batch=2)
    rows = len(model.get_input_embeddings().weight)
    with pytest.raises(EmbscaleError, match=f"token {rows} is beyond the table's {rows} rows"):
        text_vectors.mean_states(model, tokenised([1, rows]), batch=2)
    with torch.no_grad():
        model.get_input_embeddings().weight[5] = torch.inf
    with pytest.raises(EmbscaleError, match="a value is not finite in a text of 2 tokens, number 1"):
        text_vectors.mean_states(model, tokenised([1, 2], [5, 1]), batch=1)
    # Rotated positions have no end: such a model runs beyond the texts that it was made for.
    rotary = running.load_model(checkpoint("gpt_neox"))
    long = tokenised([2] * (rotary.config.max_position_embeddings + 1))
    assert text_vectors.beyond_context(rotary, long) == 1
    assert len(text_vectors.mean_states(rotary, long, batch=1)["block 1"]) == 1


def test_documents_are_ranked_by_the_cosine_of_given_vectors():
    documents = {"a": "", "b": "", "c": ""}
    data = beir.RetrievalData("T", documents, {"q": "", "r": ""}, {"q": {"b": 1}, "r": {"c": 1}}, "x", {})
    vectors = np.array([[1, 0], [5, 1], [0, 1]], np.float32)
    # Query q points as text 1 does, and document c has the same text as document b.
    scorer = layer_scores.vector_scorer(data, np.array([0, 1, 1]), np.array([1, 2]), depth=10, device="cpu")
    found = scorer.per_query(vectors, ["ndcg_at_10", "recall_at_1"])
    # Of equal documents the later name comes first: c before b for both queries.
    assert found["ndcg_at_10"].to_dict() == pytest.approx({"q": 1 / np.log2(3), "r": 1.0})
    assert found["recall_at_1"].to_dict() == {"q": 0.0, "r": 1.0}


@pytest.fixture(scope="module")
def task(tmp_path_factory, tokenizer_folder):
    """A task of thirty documents, some without tokens and some alike, and its tokens."""
    folder = tmp_path_factory.mktemp("task") / "Task"
    (folder / "qrels").mkdir(parents=True)
    words = [sentence.split() for sentence in SENTENCES]
    documents = [" ".join((words[i % 4] * 3)[i // 4 :]) for i in range(28)] + ["", " ".join(words[0] * 3)]
    corpus = [{"_id": f"{i}", "title": "", "text": text} for i, text in enumerate(documents)]
    queries = [{"_id": f"q{i}", "text": " ".join(words[i % 4][i % 3 : 5])} for i in range(12)]
    (folder / "corpus.jsonl").write_bytes(beir.jsonl_bytes(corpus))
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes(queries))
    judged = "".join(f"q{i}\t{(i * 3 + 1) % 28}\t1\n" for i in range(12))
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    made = folder.parent / "tokens.safetensors"
    given = [folder, "--tokenizer", tokenizer_folder, "--special-tokens", "exclude", "--max-length", "64"]
    assert execute("tokenize", list(map(str, [*given, "-o", made]))) == 0
    return folder, made


def scored(task, folders, output, *more):
    folder, made = task
    given = [*(f"{step}={path}" for step, path in folders), "--beir", folder, "--tokens", made, "--length", "16"]
    given += ["--metric", "ndcg_at_10", "--device", "cpu", "--model", "m", "--run", "7", "-o", output, *more]
    assert execute("layer-scores", list(map(str, given))) == 0
    return scores.read_parquet(output)


def wide(rows):
    return rows.pivot(index="query", columns=["step", "layer"], values="score")


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpt_neox", "gpt2"])
def test_layer_0_scores_what_the_table_scores(checkpoint, task, tmp_path, name):
    rows = scored(task, [("main", checkpoint(name))], tmp_path / "layers.parquet")
    table = tmp_path / "table.safetensors"
    assert execute("extract", [str(checkpoint(name)), "-o", str(table)]) == 0
    folder, made = task
    given = [table, "--beir", folder, "--tokens", made, "--lengths", "16", "--per-query", tmp_path / "table.parquet"]
    assert execute("score", list(map(str, [*given, "--bootstrap-resamples", "50", "--device", "cpu"]))) == 0
    expected = scores.read_parquet(tmp_path / "table.parquet").set_index("query")
    first = rows[rows["layer_number"] == 0].set_index("query")
    assert (first["layer"] == "embedding").all() and 0 < first["score"].mean() < 1
    pd.testing.assert_series_equal(first["score"], expected["score"].loc[first.index])
    # Whatever is the same for both is written in the same words.
    same = [*scores.OF_QUERIES, "special_tokens", "pooling", "task", "length", "metric", "data_sha256", "width", "dim"]
    same += ["step", "variant", "tokenizer", "tokenizer_sha256"]
    assert set(scores.KEYS) < set(rows.columns)
    pd.testing.assert_frame_equal(
        first[same].astype("str").sort_index(), expected[same].astype("str").sort_index(), check_dtype=False
    )
    others = wide(rows)[scores.NONE].drop(columns="embedding")
    assert (others.to_numpy() != first["score"].loc[others.index].to_numpy()[:, None]).any(axis=0).all()


@pytest.mark.long
def test_steps_batches_and_repetition_change_nothing_and_the_order_of_blocks_does(checkpoint, task, tmp_path):
    source, swapped = checkpoint("gpt_neox"), tmp_path / "swapped"
    shutil.copytree(source, swapped)
    tensors = load_file(source / "model.safetensors")
    exchange = {"layers.0.": "layers.1.", "layers.1.": "layers.0."}
    moved = {}
    for name, values in tensors.items():
        new = next((name.replace(a, b) for a, b in exchange.items() if a in name), name)
        moved[new] = values
    assert set(moved) == set(tensors)
    save_file(moved, swapped / "model.safetensors", {"format": "pt"})
    rows = scored(task, [(0, source), (5, swapped)], tmp_path / "a.parquet", "--batch", "1")
    again = scored(task, [(0, source), (5, swapped)], tmp_path / "b.parquet", "--batch", "1")
    pd.testing.assert_frame_equal(rows, again)
    of = wide(rows)
    assert of[0, "embedding"].equals(of[5, "embedding"])
    for layer in ("block 1", "block 2", "final norm"):
        assert not np.allclose(of[0, layer], of[5, layer])
    batched = wide(scored(task, [(0, source), (5, swapped)], tmp_path / "c.parquet", "--batch", "16"))
    np.testing.assert_allclose(batched, of, atol=1e-9)
    note = read_note(note_path(tmp_path / "a.parquet"))
    assert set(note["inputs"]) >= {str(source / "model.safetensors"), str(swapped / "config.json")}
    assert note["facts"]["texts"] < 42 and set(rows["run"]) == {7}


def test_tokens_of_other_texts_are_refused(checkpoint, task, tmp_path, capsys):
    folder, made = task
    other = tmp_path / "Task"
    shutil.copytree(folder, other)
    (other / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\t2\t1\n")
    given = [f"0={checkpoint('gpt_neox')}", "--beir", other, "--tokens", made, "--length", "16"]
    given += ["--metric", "ndcg_at_10", "--model", "m", "-o", tmp_path / "x.parquet"]
    assert execute("layer-scores", list(map(str, given))) == 1
    assert "made of other texts" in capsys.readouterr().err


QUERIES = [f"q{i:03}" for i in range(80)]
LAYERS = ("embedding", "block 1", "block 2", "final norm")
SAME = {
    "tokenizer": "t", "pooling": "mean", "special_tokens": "exclude", "task": "T", "length": "64",
    "metric": "ndcg_at_10",
}  # fmt: skip
SETTINGS = {"resamples": 2000, "seed": 1}
# What is added to the table's score, by layer, before and after training; and of run 1, 2 and 3.
ADDED = {0: (0.0, 0.02, 0.01, 0.0), 40: (0.0, -0.1, -0.2, -0.15)}
OF_RUN = (-0.02, 0.0, 0.02)


def frame(values, **keys):
    rows = pd.DataFrame({"query": QUERIES, "cluster": np.arange(80) // 2, "heldout": False, "score": values})
    return rows.assign(**{"run": -1, "step": -1, "seed": -1, "width": -1, "variant": "full"} | SAME | keys)


def made_up(runs=(1, 2, 3), widths=(8, 16), steps=(0, 40), suite="ladder"):
    """Scores whose means are known: every layer differs from its table by the same amount in every run and query."""
    generator = np.random.default_rng(0)
    base = generator.uniform(0.3, 0.6, 80)
    layers, tables = [], []
    for width in widths:
        for run in runs:
            for step in steps:
                for number, layer in enumerate(LAYERS):
                    values = base + width / 100 + OF_RUN[run - 1] + ADDED[step][number]
                    keys = {"suite": suite, "model": f"{suite}-w{width}", "run": run, "step": step, "width": width}
                    layers.append(frame(values, **keys, layer=layer, layer_number=number))
        for seed in (42, 43):
            random = {"suite": "random", "model": "random", "seed": seed, "width": width}
            noise = 0.001 * (seed - 42.5) + 0.02 * generator.normal(size=80)
            tables.append(frame(base + width / 100 + 0.05 + noise, **random, variant="random"))
            tables.append(frame(np.zeros(80), **random, variant="random+idf"))
    for name, value in (("bm25", 0.9), ("chance", 0.001)):
        tables.append(frame(np.full(80, value), suite="reference", model=name, variant=name))
    return pd.concat(layers, ignore_index=True), pd.concat(tables, ignore_index=True)


def estimated(*parts, **changes):
    layers, tables = parts or made_up()
    return layer_scores.estimates(layers, tables, **SETTINGS | changes)


def read_back(rows, path):
    """As a figure gets them."""
    rows.to_csv(path, index=False)
    return tidy.read([path], figure.COLUMNS, where=[])


def only(rows, **keys):
    (row,) = rows[(rows[list(keys)].astype(object) == pd.Series(keys)).all(axis=1)].to_dict("records")
    return row


def test_means_and_differences_are_those_that_were_put_in():
    rows = estimated()
    assert list(rows.columns) == layer_scores.COLUMNS
    base = np.random.default_rng(0).uniform(0.3, 0.6, 80).mean()
    of = {"model": "ladder-w16", "step": 40}
    score = only(rows, **of, layer="block 2", quantity="score")
    assert score["value"] == pytest.approx(base + 0.16 - 0.2)
    assert score["ci_low"] < score["value"] < score["ci_high"]
    assert (score["runs"], score["n"], score["clusters"], score["against"]) == (3, 80, 40, "none")
    less = {name: only(rows, **of, layer="block 2", quantity="difference", against=name) for name in
            ("table", "untrained", "random", "chance")}  # fmt: skip
    assert less["table"]["value"] == pytest.approx(-0.2) and less["untrained"]["value"] == pytest.approx(-0.21)
    assert less["random"]["value"] == pytest.approx(-0.25, abs=0.01)
    assert less["chance"]["value"] == pytest.approx(score["value"] - 0.001)
    # The same amount in every run and query: the difference is known without error, though the score is not.
    for name in ("table", "untrained"):
        assert less[name]["ci_low"] == pytest.approx(less[name]["ci_high"]) and less[name]["control_runs"] == 3
    assert score["ci_high"] - score["ci_low"] > 0.05
    assert less["random"]["control_runs"] == 2 and less["random"]["ci_low"] < -0.25 < less["random"]["ci_high"]
    # The table has nothing to be less than itself, and the untrained model nothing before it.
    first = rows[(rows["model"] == "ladder-w16") & (rows["step"] == 0) & (rows["layer"] == "embedding")]
    assert set(first["against"]) == {"none", "random", "chance"}
    assert only(rows, suite="random", width=16)["value"] == pytest.approx(base + 0.21, abs=0.01)
    assert only(rows, model="bm25")["value"] == pytest.approx(0.9)
    assert rows[rows["suite"].isin(["random", "reference"])]["layer_number"].isna().all()


def test_layers_in_another_order_give_other_numbers():
    layers, tables = made_up()
    other = layers.replace({"layer": {"block 1": "block 2", "block 2": "block 1"}})
    keys = {"model": "ladder-w8", "step": 40, "layer": "block 1", "quantity": "difference", "against": "table"}
    assert only(estimated(layers, tables), **keys)["value"] == pytest.approx(-0.1)
    assert only(estimated(other, tables), **keys)["value"] == pytest.approx(-0.2)


def test_one_run_has_the_interval_of_its_queries_and_one_cluster_none():
    one = estimated(*made_up(runs=(2,), widths=(16,)))
    three = estimated(*made_up(widths=(16,)))
    keys = {"model": "ladder-w16", "step": 40, "layer": "block 1", "quantity": "score"}
    narrow, wide_ = only(one, **keys), only(three, **keys)
    assert narrow["runs"] == 1 and narrow["value"] == pytest.approx(wide_["value"])
    assert 0 < narrow["ci_high"] - narrow["ci_low"] < wide_["ci_high"] - wide_["ci_low"]
    linked = estimated(*(part.assign(cluster=0) for part in made_up()))
    assert linked[["ci_low", "ci_high", "p"]].isna().all(axis=None) and (linked["clusters"] == 1).all()


def test_runs_that_a_step_lacks_are_not_paired():
    layers, tables = made_up()
    lost = layers[~((layers["run"] == 3) & (layers["step"] == 0))]
    keys = {"model": "ladder-w8", "step": 40, "layer": "block 1", "quantity": "difference", "against": "untrained"}
    row = only(estimated(lost, tables), **keys)
    assert (row["runs"], row["control_runs"]) == (3, 2) and row["ci_low"] < row["value"] < row["ci_high"]


def test_scores_of_other_queries_or_given_twice_are_refused():
    layers, tables = made_up()
    with pytest.raises(EmbscaleError, match="made on different queries"):
        estimated(layers[(layers["run"] != 2) | (layers["query"] != "q000")], tables)
    with pytest.raises(EmbscaleError, match="a score occurs twice"):
        estimated(pd.concat([layers, layers.iloc[:80]]), tables)


def test_a_tokenizer_without_layers_is_left_out():
    layers, tables = made_up()
    rows = estimated(layers, pd.concat([tables, tables.assign(tokenizer="other")]))
    assert set(rows["tokenizer"]) == {"t"}


def test_the_command_reads_files_and_chooses_rows(tmp_path, capsys):
    layers, tables = made_up()
    scores.write_parquet(layers, tmp_path / "l.parquet")
    more = [tables, tables.assign(length="all", score=0.0)]
    scores.write_parquet(pd.concat(more), tmp_path / "t.parquet")
    given = [tmp_path / "l.parquet", "--controls", tmp_path / "t.parquet", "--bootstrap-resamples", "200"]
    given = list(map(str, [*given, "--bootstrap-seed", "1", "-o", tmp_path / "rows.csv"]))
    assert execute("layer-estimates", [*given, "--where", "length=64"]) == 0
    rows = pd.read_csv(tmp_path / "rows.csv")
    row = only(rows, model="ladder-w8", step=40, layer="block 1", against="table")
    assert row["value"] == pytest.approx(-0.1) and row["length"] == 64
    assert execute("layer-estimates", [*given, "--where", "length=7"]) == 1
    assert "no rows with length=7; check --where" in capsys.readouterr().err


def test_the_figures_show_the_numbers(tmp_path):
    rows = read_back(estimated(), tmp_path / "rows.csv")
    drawn = figure.draw(rows)
    names = [text.get_text() for text in drawn.axes[0].get_xticklabels()]
    assert names == ["random\ntable", "table", "1", "2", "norm"]
    score = only(rows, model="ladder-w8", step=40, layer="final norm", quantity="score")
    words = figure.describe(rows)
    assert f"after the final norm {score['value'] * 100:.2f} [" in words and "BM25 90.00, chance 0.10" in words
    assert words.startswith("The table scores highest of all layers in 2 of 2 models.")
    assert "3 runs; 80 queries in 40 clusters" in words and "nan" not in words
    steps = layer_score_steps.draw(rows)
    assert [axes.get_title("left") for axes in steps.axes[:2]] == ["width 8", "width 16"]
    table = only(rows, model="ladder-w8", step=40, layer="embedding", quantity="score")["value"]
    assert f"step 40, table {table * 100:.2f}" in layer_score_steps.describe(rows)


def test_one_width_one_run_one_step_and_no_interval_are_drawn_or_said(tmp_path):
    one = read_back(estimated(*made_up(runs=(1,), widths=(16,), steps=(40,))), tmp_path / "one.csv")
    assert figure.draw(one).axes and "one run" in figure.describe(one)
    with pytest.raises(NothingToShow, match="no more than one step"):
        layer_score_steps.draw(one)
    bare = read_back(estimated(*(part.assign(cluster=0) for part in made_up())), tmp_path / "bare.csv")
    assert figure.draw(bare).axes and layer_score_steps.draw(bare).axes and "nan" not in figure.describe(bare)
    without = one[one["layer_number"].isna()]
    with pytest.raises(NothingToShow, match="No layer was scored"):
        figure.draw(without)


def test_published_models_of_other_depths_have_a_panel_of_their_own(tmp_path):
    layers, tables = made_up()
    published = made_up(runs=(1,), steps=(40,), suite="gpt2")[0].assign(run=-1, step=-1)
    deep = published[published["width"] == 16]
    deep = pd.concat([deep, deep[deep["layer_number"] == 3].assign(layer="block 3", layer_number=4)])
    both = pd.concat([layers, published[published["width"] == 8], deep])
    # Random tables of another tokenizer's texts stand beside its own models alone.
    of = both["suite"].map({"ladder": "t", "gpt2": "u"})
    others = tables.assign(tokenizer="u", score=0.5)
    rows = read_back(estimated(both.assign(tokenizer=of), pd.concat([tables, others])), tmp_path / "rows.csv")
    first, second = figure.draw(rows).axes
    assert (first.get_title("left"), second.get_title("left")) == ("ladder", "gpt2")
    assert [text.get_text() for text in second.get_xticklabels()] == ["random\ntable", "table", "last layer"]
    assert "gpt2-w16: random tables 50.00 [50.00, 50.00], table" in figure.describe(rows)
    assert "ladder-w16: random tables 50.00" not in figure.describe(rows) and layer_score_steps.draw(rows).axes


def test_the_numbers_of_the_text(tmp_path):
    found = numbers.layer_score_numbers(read_back(estimated(), tmp_path / "rows.csv"))
    assert set(found) == set(numbers.LAYER_SCORES)
    assert found["step"] == "40" and found["over"] == "3 runs and queries" and found["widest"] == "16"
    assert found["last_against_table"] == found["last_against_random"] == "below them at all 2 widths"
    assert found["untrained_against_table"] == "above them at all 2 widths"
    assert found["best_is_table"] == "2 of 2 widths"
    one = read_back(estimated(*made_up(runs=(1,), widths=(16,), steps=(40,))), tmp_path / "one.csv")
    alone = numbers.layer_score_numbers(one)
    assert alone["last_against_table"] == "below them at the only width" and alone["over"] == "queries, one run"
    assert alone["last_against_untrained"] == alone["untrained_against_table"] == "not run"
    assert set(numbers.layer_score_numbers(one.assign(suite="gpt2")).values()) == {"not run"}
