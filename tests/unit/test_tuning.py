"""Tuning: the best of the grid on development queries is chosen, whatever the test queries say; one flag changes."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from small_corpus import MADE_OF, save_corpus

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.parameters.training import FastText, Window
from embscale.provenance.artifacts import note_path, read_note
from embscale.tables import table_files
from embscale.texts import tokens
from embscale.training import ladder, tuning
from embscale.training.static_embeddings import Trained
from embscale.training.tuning import DEV, TEST, Scored

pytestmark = pytest.mark.usefixtures("one_thread")

FASTTEXT = FastText(window=5, epochs=3, learning_rate=0.1, subsample=0.0, negative=5, ngrams=(3, 6), buckets=100)


def of_grid(dev, test, *, broken=()):
    """Rows of a grid of windows whose scores are given by window; a window in `broken` diverges."""

    def train(settings):
        table = np.full((3, 4), np.nan if settings.window in broken else settings.window, np.float32)
        return Trained(table, 100, 2)

    def score(table, split):
        value = {DEV: dev, TEST: test}[split][int(table[0, 0])]
        return Scored(value, value - 0.1, value + 0.1, {DEV: 20, TEST: 80}[split], 7)

    return tuning.rows("m", "window", list(map(Window, dev)), train=train, score=score, metric="ndcg_at_10")


def test_the_best_on_development_queries_is_chosen_and_scored_on_the_others():
    rows, best = of_grid({2: 0.3, 5: 0.6, 9: 0.4}, {2: 0.9, 5: 0.1, 9: 0.9})
    assert list(rows.columns) == list(tuning.COLUMNS) and (best.table == 5).all()
    assert rows["queries"].tolist() == [DEV, DEV, DEV, TEST] and rows["tried"].tolist() == [2, 5, 9, 5]
    assert rows["value"].tolist() == [0.3, 0.6, 0.4, 0.1] and rows["n"].tolist() == [20, 20, 20, 80]
    assert rows["chosen"].tolist() == [False, True, False, True]
    assert set(rows["tokens_seen"]) == {100} and set(rows["tokens_processed"]) == {200}
    assert tuning.chosen(rows) == {"method": "m", "setting": "window", "value": 5}


def test_of_equal_scores_the_first_is_chosen():
    assert tuning.chosen(of_grid({5: 0.4, 2: 0.4}, {5: 0, 2: 1})[0])["value"] == 5


def test_a_training_that_diverged_has_no_score_and_is_not_chosen():
    rows, _ = of_grid({2: 0.3, 5: 0.6}, {2: 0.2}, broken=[5])
    assert math.isnan(rows["value"][1]) and rows["n"][1] == 0 and tuning.chosen(rows)["value"] == 2
    with pytest.raises(EmbscaleError, match=r"m: training diverged with every window tried \(2, 5\); try smaller ones"):
        of_grid({2: 0.3, 5: 0.6}, {2: 0.2}, broken=[2, 5])


def test_exactly_one_setting_is_replaced():
    changed = tuning.with_setting(FASTTEXT, "learning_rate", 0.5)
    assert vars(changed) == vars(FASTTEXT) | {"learning_rate": 0.5}
    window = tuning.with_setting(FASTTEXT, "window", 7.0).window  # as a flag or a JSON file gives it
    assert window == 7 and isinstance(window, int)


@pytest.mark.parametrize(
    "setting, value, words",
    [
        ("x_max", 3, "setting 'x_max': the method has none of this name; it has window, epochs, learning_rate, "),
        ("ngrams", 3, "setting 'ngrams': the method has none"),
        ("window", 2.5, "setting window: given 2.5 "),
        ("learning_rate", -1, "setting learning_rate: given -1 "),
        ("learning_rate", math.nan, "setting learning_rate: given nan "),
    ],
)
def test_a_setting_that_the_method_cannot_have_is_reported(setting, value, words):
    with pytest.raises(EmbscaleError, match=words):
        tuning.with_setting(FASTTEXT, setting, value)


@pytest.mark.parametrize(
    "text, words",
    [
        (None, "no such file; make it with embscale tune"),
        ("[1]", "not a chosen setting; expected a JSON object with method, setting and value"),
        ("window = 5", "not a chosen setting"),
        ('{"method": "cbow", "setting": "window"}', "not a chosen setting"),
        ('{"method": "glove", "setting": "window", "value": 5}', "the chosen setting of glove, but the method is cbow"),
        ('{"method": "cbow", "setting": "window", "value": "5"}', "value '5': expected a name and a number"),
        ('{"method": "cbow", "setting": "window", "value": true}', "value True: expected a name and a number"),
    ],
)
def test_a_wrong_file_of_settings_is_reported(text, words, tmp_path):
    if text is not None:
        (tmp_path / "choice.json").write_text(text, "utf-8")
    with pytest.raises(EmbscaleError, match=words) as error:
        tuning.read_choice(tmp_path / "choice.json", "cbow")
    assert str(error.value).startswith(str(tmp_path / "choice.json"))


QUERIES = {DEV: range(30), TEST: range(30, 60)}


@pytest.fixture
def study(tmp_path):
    """A corpus in which each query is the start of the document that it should find, half of them for tuning."""
    save_corpus(tmp_path)
    texts = [json.loads(line)["text"] for line in (tmp_path / "corpus.jsonl").read_text("utf-8").splitlines()]
    queries = [" ".join(text.split()[:4]) for text in texts]
    lines = [json.dumps({"_id": f"q{i}", "text": query}) for i, query in enumerate(queries)]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "qrels").mkdir()
    for split in (DEV, TEST):
        judge(tmp_path, split)
    tokenizer, groups = tokens.load_tokenizer(tmp_path), {}
    for name, some in (("documents", texts), ("dev_queries", queries[:30]), ("queries", queries[30:])):
        groups[name] = tokens.tokenise(some, tokenizer, max_length=100, special_tokens=False)
    tokens.save(tmp_path / "tokens.safetensors", groups, MADE_OF)
    return tmp_path


def judge(folder, split, shift=0):
    """Judgements of a split: a query's own document, or another one."""
    lines = [f"q{i}\t{(i + shift) % 60}\t1" for i in QUERIES[split]]
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n", "utf-8")


SHARED = {
    "dim": 4, "vocab_size": 14, "seed": 1, "metric": "ndcg_at_10", "length": 8, "tokenizer_name": "words",
    "bootstrap_resamples": 200, "bootstrap_seed": 1,
}  # fmt: skip
STATIC = {"max_tokens": 500, "order_seed": 1, "window": 5}
CBOW = STATIC | {"epochs": 3, "learning_rate": 0.05, "subsample": 0, "negative": 5, "setting": "learning_rate"}
PPMI = STATIC | {"setting": "window"}
MODEL = {
    "blocks": 1, "head_width": 4, "context": 8, "batch": 2, "learning_rate": 0.01, "final_learning_rate": 1.0,
    "warmup": 1, "embedding_rate": 1.0, "weight_decay": 0.0, "table_decay": 0.0, "steps": 6, "setting": "learning_rate",
}  # fmt: skip


def tune(folder, method, values, flags, name="a", run=()):
    given = [str(word) for key, value in (SHARED | flags).items() for word in (f"--{key.replace('_', '-')}", value)]
    files = ["--corpus", folder, "--tokens", folder / "tokens.safetensors", "--tokenizer", folder]
    outputs = ["--rows", folder / f"{name}.csv", "--choice", folder / f"{name}.json"]
    files += [*outputs, "-o", folder / f"{name}.safetensors", *(["--run", *run] if run else [])]
    return execute("tune", [method, *map(str, files), *given, "--values", *map(str, values)])


def test_test_queries_have_no_part_in_the_choice(study):
    assert tune(study, "ppmi-svd", [1, 3, 8], PPMI) == 0
    judge(study, TEST, shift=13)
    assert tune(study, "ppmi-svd", [1, 3, 8], PPMI, "b") == 0
    one, other = (pd.read_csv(study / f"{name}.csv") for name in "ab")
    assert (study / "a.json").read_bytes() == (study / "b.json").read_bytes()
    pd.testing.assert_frame_equal(one[one["queries"] == DEV], other[other["queries"] == DEV])
    assert one["value"].iloc[-1] != other["value"].iloc[-1]  # the test score, which says that they are others
    judge(study, DEV, shift=13)
    assert tune(study, "ppmi-svd", [1, 3, 8], PPMI, "c") == 0
    assert one["value"][0] != pd.read_csv(study / "c.csv")["value"][0]


@pytest.mark.parametrize("method, values, flags", [("cbow", [0.01, 0.2], CBOW), ("ppmi-svd", [2, 8], PPMI)])
def test_the_chosen_table_is_that_of_static_with_the_choice(method, values, flags, study):
    assert tune(study, method, values, flags) == 0
    rows = pd.read_csv(study / "a.csv")
    best = rows.loc[rows[rows["queries"] == DEV]["value"].idxmax(), "tried"]
    assert json.loads((study / "a.json").read_text("utf-8")) == {
        "method": method, "setting": flags["setting"], "value": best
    }  # fmt: skip
    given = {name: value for name, value in flags.items() if name != "setting"} | {
        "dim": 4,
        "vocab_size": 14,
        "seed": 1,
    }
    words = [str(word) for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    files = ["--corpus", study, "--tokens", study / "tokens.safetensors", "--tokenizer", study]
    static = [method, *map(str, files), *words, "--settings", str(study / "a.json")]
    assert execute("static", [*static, "-o", str(study / "s.safetensors")]) == 0
    assert np.array_equal(table_files.load(study / "s.safetensors"), table_files.load(study / "a.safetensors"))
    note = read_note(note_path(study / "s.safetensors"))
    assert note["facts"]["settings"][flags["setting"]] == best
    assert all(note["params"][name] == value for name, value in given.items())  # the flags, as they were given


def test_every_method_reads_the_same_tokens(study):
    """As many as steps of a language model hold, separators included."""
    seen = MODEL["steps"] * MODEL["batch"] * MODEL["context"]
    found = []
    for method, values, flags in (
        ("cbow", [0.05], CBOW | {"max_tokens": seen}),
        ("ppmi-svd", [2], PPMI | {"max_tokens": seen}),
        ("ladder", [0.01], MODEL),
    ):
        assert tune(study, method, values, flags, method) == 0
        found.append(pd.read_csv(study / f"{method}.csv"))
    assert [set(rows["tokens_seen"]) for rows in found] == [{seen}] * 3
    assert [set(rows["epochs"]) for rows in found] == [{3}, {1}, {1}]
    assert found[0]["tokens_processed"].tolist() == [3 * seen] * 2
    assert found[2]["heldout_loss"].notna().all() and found[0]["heldout_loss"].isna().all()


def test_the_language_model_is_that_of_the_ladder(study):
    assert tune(study, "ladder", [0.001, 0.03], MODEL) == 0
    choice = json.loads((study / "a.json").read_text("utf-8"))["value"]
    from embscale.texts import streams

    training, unseen, _ = streams.read(study / "corpus.jsonl", study / "tokens.safetensors", study, seed=1)
    model = ladder.build(width=4, blocks=1, head_width=4, vocab_size=14, context=8, seed=1, positions="rotary")
    schedule = ladder.Schedule(
        steps=6, batch=2, context=8, learning_rate=choice, final_learning_rate=1.0, warmup=1, seed=1
    )
    ladder.train(model, training, schedule, reached=lambda step, loss: None)
    assert np.array_equal(table_files.load(study / "a.safetensors"), ladder.input_table(model).detach().numpy())
    rows = pd.read_csv(study / "a.csv")
    loss = ladder.heldout_loss(model, unseen[: ladder.HELDOUT_TOKENS], context=8, batch=2)
    assert rows[rows["chosen"]]["heldout_loss"].tolist() == pytest.approx([loss, loss])


def test_a_run_of_the_ladder_is_not_trained_again(study, capsys):
    given = {name: value for name, value in MODEL.items() if name != "setting"}
    given |= {"seed": 1, "vocab_size": 14, "width": 4, "positions": "rotary", "input_table": "trained", "device": "cpu"}
    words = [str(word) for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    files = ["--corpus", study, "--tokens", study / "tokens.safetensors", "--tokenizer", study, "-o", study / "run"]
    files += ["--runs", study / "runs"]
    assert execute("train", [*map(str, files), *words, "--checkpoints", "6"]) == 0
    table = study / "run.safetensors"
    assert execute("extract", [str(study / "run" / "step6"), "-o", str(table)]) == 0
    assert tune(study, "ladder", [0.01, 0.03], MODEL) == 0
    assert tune(study, "ladder", [0.01, 0.03], MODEL, "b", run=[study / "run" / "losses.csv", table]) == 0
    assert (study / "a.safetensors").read_bytes() == (study / "b.safetensors").read_bytes()
    pd.testing.assert_frame_equal(pd.read_csv(study / "a.csv"), pd.read_csv(study / "b.csv"))
    others = MODEL | {"steps": 5}
    assert tune(study, "ladder", [0.01, 0.03], others, "c", run=[study / "run" / "losses.csv", table]) == 1
    assert "losses.csv: of a run with steps 6, expected 5; give another or no --run" in capsys.readouterr().err


def test_errors_are_one_line(study, capsys):
    for flags, values, words in (
        (CBOW | {"setting": "x_max"}, [1], "setting 'x_max': the method has none of this name"),
        (CBOW | {"setting": "window"}, [2.5], "setting window: given 2.5"),
    ):
        assert tune(study, "cbow", values, flags) == 1
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1
    (study / "qrels" / "dev.tsv").unlink()
    assert tune(study, "ppmi-svd", [2], PPMI) == 1
    assert "dev.tsv" in capsys.readouterr().err
    assert not (study / "a.safetensors").exists()
