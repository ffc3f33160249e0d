"""Warm starts: what each start is, that runs of a seed differ in it alone, and what the rows hold."""

import numpy as np
import pandas as pd
import pytest
import torch
from small_corpus import save_corpus

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.tables import table_files
from embscale.texts import streams
from embscale.training import ladder
from embscale.training.warm_start import COLUMNS, HELDOUT_LOSS, STARTS, losses_and_tables, run_rows

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = {"vocab_size": 14, "blocks": 1, "head_width": 4, "context": 8, "tied": False}
SCHEDULE = ladder.Schedule(steps=6, batch=2, context=8, learning_rate=0.01, final_learning_rate=0.1, warmup=2, seed=3)
TABLE = np.random.default_rng(0).normal(size=(14, 8)).astype(np.float32)


@pytest.fixture
def study(tmp_path):
    """A corpus that is a retrieval task as well, and a table."""
    save_corpus(tmp_path)
    (tmp_path / "tokens.safetensors").unlink()  # of the documents alone
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "word1"}\n{"_id": "q2", "text": "word2"}\n', "utf-8")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\t1\t1\nq2\t2\t1\n", "utf-8")
    flags = ["--tokenizer", str(tmp_path), "--max-length", "100", "--special-tokens", "exclude"]
    assert execute("tokenize", [str(tmp_path), *flags, "--output", str(tmp_path / "tokens.safetensors")]) == 0
    table_files.save(tmp_path / "t.safetensors", TABLE, {})
    return tmp_path


def settings(study):
    training, unseen, _ = streams.read(study / "corpus.jsonl", study / "tokens.safetensors", study, seed=3)
    return {"table": TABLE, "training": training, "unseen": unseen, "shape": SHAPE, "schedule": SCHEDULE}


def untrained():
    model = ladder.build(**SHAPE, width=8, seed=3, positions="rotary")
    return model.get_input_embeddings().weight.detach().numpy()


def test_each_start_is_what_it_is_called(study):
    ends = {start: losses_and_tables(start, checkpoints=[0, 6], **settings(study))[1] for start in STARTS}
    random, table = untrained(), TABLE * (np.linalg.norm(untrained()) / np.linalg.norm(TABLE))
    for start, found in ends.items():
        assert found[0] == pytest.approx(table if start.startswith("static") else random, rel=1e-5)
        assert np.array_equal(found[0], found[6]) == start.endswith("frozen")


def test_a_random_start_is_the_model_of_the_ladder(study):
    given = settings(study)
    losses, found = losses_and_tables("random", checkpoints=[6], **given)
    model = ladder.build(**SHAPE, width=8, seed=3, positions="rotary")
    ladder.train(model, given["training"], SCHEDULE, reached=lambda step, loss: None)
    assert torch.equal(model.get_input_embeddings().weight, torch.from_numpy(found[6]))
    assert losses[6] == ladder.heldout_loss(model, given["unseen"], context=8, batch=2)


def test_rows_hold_losses_and_scores_at_both_ends(study):
    given = settings(study)
    scores = [(0.5, 4), (0.2, 4), (1.0, 4), (0.1, 4)]
    waiting = list(scores)
    made = run_rows(["random", "static"], checkpoints=[0, 3, 6], metric="m", score=lambda table: waiting.pop(0),
                chance=0.01, **given)  # fmt: skip
    assert list(made.columns) == list(COLUMNS) and set(made["seed"]) == {3} and set(made["width"]) == {8}
    loss = made[made["metric"] == HELDOUT_LOSS]
    assert loss["step"].tolist() == [0, 3, 6] * 2 and loss["tokens"].tolist() == [0, 48, 96] * 2
    assert loss["value"].tolist()[:3] == list(losses_and_tables("random", checkpoints=[0, 3, 6], **given)[0].values())
    score = made[made["metric"] == "m"]
    assert score["start"].tolist() == ["random"] * 2 + ["static"] * 2 + ["chance"]
    assert score["step"].tolist() == [0, 6] * 2 + [0]
    assert list(zip(score["value"], score["n"], strict=True)) == [*scores, (0.01, 4)]


def test_what_does_not_fit_is_reported(study):
    with pytest.raises(EmbscaleError, match="checkpoint 7: training ends after 6 steps"):
        losses_and_tables("random", checkpoints=[0, 7], **settings(study))
    with pytest.raises(EmbscaleError, match="12 rows and 8 columns, but the model 14 and 8"):
        losses_and_tables("static", checkpoints=[0], **settings(study) | {"table": TABLE[:12]})


def test_the_command_writes_the_same_rows_twice_and_scores_as_score_does(study, capsys):
    numbers = {**SHAPE, "batch": 2, "steps": 4, "learning_rate": 0.01,
               "final_learning_rate": 0.1, "warmup": 1, "seed": 3, "embedding_rate": 1,
               "weight_decay": 0, "table_decay": 0, "threads": 1, "metric": "ndcg_at_10", "length": "10"}  # fmt: skip
    del numbers["tied"]  # which is a flag without a value
    flags = [str(text) for name, value in numbers.items() for text in (f"--{name.replace('_', '-')}", value)]
    files = ["--corpus", study, "--tokens", study / "tokens.safetensors", "--tokenizer", study]
    given = [str(study / "t.safetensors"), *map(str, files), *flags, "--checkpoints", "0", "4"]
    for name in "ab":
        assert execute("warm-start", [*given, "--starts", "static", "--starts", "random", "-o", str(study / name)]) == 0
    assert (study / "a").read_bytes() == (study / "b").read_bytes()
    score = [
        "score",
        [str(study / "t.safetensors"), "--tokens", str(study / "tokens.safetensors"), "--beir", str(study)],
    ]
    assert (
        execute(
            score[0], [*score[1], "-o", str(study / "scores.csv"), "--bootstrap-resamples", "50", "--lengths", "10"]
        )
        == 0
    )
    made = pd.read_csv(study / "a").set_index(["start", "step", "metric"]).loc["static", 0, "ndcg_at_10"]
    expected = pd.read_csv(study / "scores.csv").iloc[0]
    assert made[["value", "n"]].tolist() == pytest.approx(expected[["value", "n"]].tolist(), abs=1e-6)
