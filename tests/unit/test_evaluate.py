"""Scores of tasks of every type are those that MTEB gives sentence-transformers; intervals are by the book."""

import json
import random
import subprocess
import sys
from types import SimpleNamespace

import mteb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import average_precision_score

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256, note_path, read_note
from embscale.scoring import scores, tasks
from embscale.tables import table_files
from embscale.texts import tokens
from hub.repositories import VOCABULARY, save_retrieval

pytestmark = pytest.mark.long

TASKS = [
    "SCIDOCS",
    "AskUbuntuDupQuestions",
    "STSBenchmark",
    "STS17:en-en,es-en",
    "TwitterSemEval2015",
    "Banking77Classification.v2",
    "TwentyNewsgroupsClustering.v2",
]
OVER = ["queries", "queries", "pairs", "pairs", "pairs", "experiments", "experiments"]

# MTEB with the plain encoder of sentence-transformers over the same table, no code of ours.
REFERENCE = """
import json, sys, mteb, safetensors.numpy, tokenizers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
table = safetensors.numpy.load_file(sys.argv[1])["table"]
module = StaticEmbedding(tokenizers.Tokenizer.from_file(sys.argv[2]), embedding_weights=table)
model = SentenceTransformer(modules=[module], device="cpu")
found = {}
for name in sys.argv[4:]:
    task = mteb.get_task(name.partition(":")[0], hf_subsets=name.partition(":")[2].split(",") if ":" in name else None)
    result = mteb.evaluate(model, task, cache=None, prediction_folder=sys.argv[3], show_progress_bar=False)
    found[name] = [row["main_score"] for rows in result.task_results[0].scores.values() for row in rows]
print("\\n" + json.dumps(found))
"""

chance = random.Random(0)
TOPICS = [[f"{letter}{chance.randrange(999)}{letter}" for _ in range(12)] for letter in "abcdef"]


def say(topic, words=8):
    """A text in which words of a topic are more frequent than others."""
    return " ".join(
        chance.choice(TOPICS[topic if chance.random() < 0.4 else chance.randrange(6)]) for _ in range(words)
    )


def publish(serving, folder, task, files, configs=None):
    """Put a data set on the hub at the revision that MTEB pins for a task, its rows as the real one has them."""
    for name, rows in files.items():
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    if configs:
        listed = [
            {"config_name": config, "data_files": [{"split": "test", "path": f"{name}.jsonl"}]}
            for config, name in configs.items()
        ]
        (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(listed)}\n---\n", "utf-8")
    pinned = mteb.get_task(task).metadata.dataset
    serving.add(pinned["path"], folder, kind="dataset", commit=pinned["revision"])


@pytest.fixture(scope="module")
def published(serving, tmp_path_factory):
    """A data set of each type of task; the judged values of the pairs, by task."""
    root = tmp_path_factory.mktemp("published")
    save_retrieval(root / "scidocs")
    publish(serving, root / "scidocs", "SCIDOCS", {})
    asked = [{"_id": f"q{i}", "text": say(i % 6)} for i in range(12)]
    corpus = [{"_id": f"d{i}", "title": "", "text": say(i % 6)} for i in range(60)]
    ranked = [{"query-id": row["_id"], "corpus-ids": [f"d{j}" for j in chance.sample(range(60), 20)]} for row in asked]
    judged = [
        {
            "query-id": row["query-id"],
            "corpus-id": name,
            "score": int(int(name[1:]) % 6 == int(row["query-id"][1:]) % 6),
        }
        for row in ranked
        for name in row["corpus-ids"]
    ]
    publish(
        serving,
        root / "askubuntu",
        "AskUbuntuDupQuestions",
        {"corpus": corpus, "queries": asked, "top_ranked": ranked, "qrels": judged},
        {"default": "qrels", "corpus": "corpus", "queries": "queries", "top_ranked": "top_ranked"},
    )

    def pairs(number):
        drawn = [(chance.randrange(6), chance.randrange(6)) for _ in range(number)]
        drawn = [(a, a if chance.random() < 0.4 else b) for a, b in drawn]
        return [
            {"sentence1": say(a), "sentence2": say(b), "score": 4.0 * (a == b) + chance.randrange(2)} for a, b in drawn
        ]

    truth = {"STSBenchmark": pairs(50), "en-en": pairs(40), "es-en": pairs(30)}
    publish(serving, root / "stsb", "STSBenchmark", {"test": truth["STSBenchmark"]})
    both = [pair | {"lang": name} for name in ("en-en", "es-en") for pair in truth[name]]
    publish(serving, root / "sts17", "STS17", {"test": both})
    drawn = pairs(60)
    twitter = {
        "sent1": [row["sentence1"] for row in drawn],
        "sent2": [row["sentence2"] for row in drawn],
        "labels": [int(row["score"] > 2) for row in drawn],
    }
    publish(serving, root / "twitter", "TwitterSemEval2015", {"test": [twitter]})
    labelled = {
        split: [{"text": say(i % 4), "label": i % 4, "label_text": f"topic {i % 4}"} for i in range(number)]
        for split, number in {"train": 80, "test": 40}.items()
    }
    publish(serving, root / "banking", "Banking77Classification.v2", labelled)
    groups = [{"sentences": [say(i % 3) for i in range(500)], "labels": [i % 3 for i in range(500)]} for _ in range(2)]
    publish(serving, root / "newsgroups", "TwentyNewsgroupsClustering.v2", {"test": groups})
    return truth


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "trained.safetensors"
    table_files.save(path, np.random.default_rng(7).standard_normal((VOCABULARY, 32)).astype(np.float32), {})
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One cache of data sets for all processes."""
    return tmp_path_factory.mktemp("home")


def run(serving, home, *arguments):
    """In a process of its own: the libraries for data sets read their settings once."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=serving.environment(home), capture_output=True, text=True)


@pytest.fixture(scope="module")
def evaluated(serving, published, home, table, tokenizer_folder, tmp_path_factory):
    """All tasks in one run of the command, and what MTEB alone says of the same table.

    The command has evaluated another before, to learn the texts: what MTEB draws for clustering must not change by it.
    """
    folder = tmp_path_factory.mktemp("evaluated")
    flags = [x for task in TASKS for x in ("--tasks", task)]
    flags += ["--variants", "idf", "--bootstrap-resamples", "2000", "--suite", "made", "--bootstrap-seed", "3"]
    flags += [
        "--tokenizer",
        tokenizer_folder,
        "-o",
        folder / "scores.csv",
        "--per-example",
        folder / "examples.parquet",
    ]
    done = run(serving, home, "-m", "embscale", "evaluate", f"40={table}", *flags)
    assert done.returncode == 0, done.stderr
    reference = run(
        serving, home, "-c", REFERENCE, table, tokenizer_folder / "tokenizer.json", folder / "predictions", *TASKS
    )
    assert reference.returncode == 0, reference.stderr
    return SimpleNamespace(
        scores=pd.read_csv(folder / "scores.csv"),
        examples=scores.read_parquet(folder / "examples.parquet"),
        reference=json.loads(reference.stdout.splitlines()[-1]),
        predictions=folder / "predictions",
        note=read_note(note_path(folder / "scores.csv")),
    )


def row(evaluated, task, variant="full"):
    (found,) = evaluated.scores[(evaluated.scores["task"] == task) & (evaluated.scores["variant"] == variant)].to_dict(
        "records"
    )
    return found


@pytest.mark.parametrize(("task", "over"), [*zip(TASKS, OVER, strict=True)])
def test_scores_are_those_of_sentence_transformers(evaluated, task, over):
    found = row(evaluated, task)
    assert found["value"] == pytest.approx(np.mean(evaluated.reference[task]), abs=1e-6)
    assert found["metric"] == mteb.get_task(task.partition(":")[0]).metadata.main_score
    assert found["interval_over"] == over and found["ci_low"] - 1e-9 <= found["value"] <= found["ci_high"] + 1e-9
    assert found["ci_low"] < found["ci_high"] and 0.05 < found["value"] < 1  # neither empty nor trivial


def test_fetched_data_sets_need_no_hub(serving, published, home, evaluated, table, tokenizer_folder, tmp_path):
    names, datasets = ["STSBenchmark", "STS17:en-en,es-en", "SCIDOCS"], tmp_path / "datasets"
    for name in names:
        fetched = tmp_path / f"{name}.json"
        done = run(serving, home, "-m", "embscale", "fetch-datasets", name, "--datasets", datasets, "-o", fetched)
        assert done.returncode == 0, done.stderr
        assert list(json.loads(fetched.read_text())) == [name]
    nowhere = serving.environment(tmp_path / "empty") | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "embscale", "evaluate", f"40={table}", "--datasets", datasets, "--suite", "made"]
    command += ["--tokenizer", tokenizer_folder, "-o", tmp_path / "scores.csv", "--tasks"]
    done = subprocess.run([*map(str, command), *names], env=nowhere, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = pd.read_csv(tmp_path / "scores.csv").set_index("task")["value"]
    for name in names:
        assert ours[name] == row(evaluated, name)["value"]
    done = subprocess.run([*map(str, command), "TwitterSemEval2015"], env=nowhere, capture_output=True, text=True)
    assert done.returncode == 1 and "not here yet" in done.stderr.splitlines()[-1]


def test_rows_tell_what_was_evaluated(evaluated, table, tokenizer_folder):
    assert list(evaluated.scores) == [*scores.KEYS, "value", "ci_low", "ci_high", "n", "interval_over"]
    assert len(evaluated.scores) == 2 * len(TASKS)
    full = row(evaluated, "STSBenchmark")
    assert (full["suite"], full["model"], full["step"], full["dim"]) == ("made", "trained", 40, 32)
    assert full["table_sha256"] == file_sha256(table) and np.isnan(full["strength"])
    assert evaluated.scores.groupby("task")["data_sha256"].nunique().eq(1).all()
    assert evaluated.scores["data_sha256"].nunique() == len(TASKS)
    pinned = mteb.get_task("STSBenchmark").metadata.dataset
    assert evaluated.note["facts"]["datasets"]["STSBenchmark"] == f"{pinned['path']}@{pinned['revision']}"


@pytest.mark.parametrize(("task", "n"), [*zip(TASKS, [8, 12, 50, 70, 60, 10, 10], strict=True)])
def test_every_interval_has_its_number(evaluated, task, n):
    assert row(evaluated, task)["n"] == n
    rows = evaluated.examples[(evaluated.examples["task"] == task) & (evaluated.examples["variant"] == "full")]
    assert len(rows) == n * (5 if task == "TwitterSemEval2015" else 1)


def examples(evaluated, task):
    found = evaluated.examples
    return found[(found["task"] == task) & (found["variant"] == "full")]


def test_similarity_is_spearmans_correlation(evaluated, published):
    rows = examples(evaluated, "STSBenchmark")
    judged = [pair["score"] for pair in published["STSBenchmark"]]
    assert rows["label"].tolist() == judged
    value = row(evaluated, "STSBenchmark")["value"]
    assert value == pytest.approx(stats.spearmanr(rows["score"], judged).statistic, abs=1e-12)
    predicted = json.loads((evaluated.predictions / "STSBenchmark_predictions.json").read_text())["default"]["test"]
    np.testing.assert_allclose(rows["score"], predicted["cosine_scores"], atol=1e-6)


def test_a_task_of_several_subsets_is_their_mean(evaluated, published):
    parts = examples(evaluated, "STS17:en-en,es-en").groupby("part")
    each = {name: stats.spearmanr(part["score"], part["label"]).statistic for name, part in parts}
    assert set(each) == {"en-en/test", "es-en/test"}
    found = row(evaluated, "STS17:en-en,es-en")
    assert found["value"] == pytest.approx(np.mean(list(each.values())), abs=1e-12)


def test_pairs_are_distinguished_by_the_best_comparison(evaluated):
    rows = examples(evaluated, "TwitterSemEval2015")
    each = [
        average_precision_score(part["label"], part["score"] * (-1 if name in ("manhattan", "euclidean") else 1))
        for name, part in rows.groupby("measure")
    ]
    assert row(evaluated, "TwitterSemEval2015")["value"] == pytest.approx(max(each), abs=1e-12)


@pytest.mark.parametrize("task", ["SCIDOCS", "AskUbuntuDupQuestions", *TASKS[5:]])
def test_means_over_queries_and_experiments_are_the_score(evaluated, task):
    # MTEB rounds means over queries to five digits.
    assert row(evaluated, task)["value"] == pytest.approx(examples(evaluated, task)["score"].mean(), abs=5.1e-6)


@pytest.mark.parametrize("task", TASKS[5:])
def test_intervals_over_experiments_are_students(evaluated, task):
    values, found = examples(evaluated, task)["score"], row(evaluated, task)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(expected, abs=1e-12)


def test_intervals_over_pairs_are_those_of_scipys_bootstrap(evaluated):
    rows, found = examples(evaluated, "STSBenchmark"), row(evaluated, "STSBenchmark")
    expected = stats.bootstrap(
        (rows["score"].to_numpy(), rows["label"].to_numpy()),
        lambda x, y: stats.spearmanr(x, y).statistic,
        paired=True,
        vectorized=False,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(expected, abs=0.03)


def test_a_variant_that_weights_tokens_sees_the_texts_of_its_task(evaluated, published, table, tokenizer_folder):
    """Of these 100 texts alone, all at hand here, each once."""
    pairs = published["STSBenchmark"]
    sides = [[pair[side] for pair in pairs] for side in ("sentence1", "sentence2")]
    tokenizer = tokens.load_tokenizer(tokenizer_folder)
    bags = [[tokenizer.encode(text, add_special_tokens=False).ids for text in texts] for texts in sides]
    holding = np.bincount([i for texts in bags for ids in texts for i in set(ids)], minlength=VOCABULARY)
    weighted = table_files.load(table) * np.log((1 + 100) / (1 + holding))[:, None]
    a, b = (np.array([weighted[ids].mean(axis=0) for ids in texts]) for texts in bags)
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    expected = stats.spearmanr(cosines, [pair["score"] for pair in pairs]).statistic
    assert row(evaluated, "STSBenchmark", "idf")["value"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tasks", "NoSuchTask"], "task NoSuchTask: neither a task of MTEB nor a tier (small, full)"),
        (["--tasks", "STS17:en-xx"], "task STS17: has no subset en-xx"),
        (["--tasks", "SummEvalSummarization.v2"], "of the type Summarization on text, which a static table cannot do"),
        (["--tasks", "CIFAR10Clustering"], "which a static table cannot do"),
        (["--tasks", "CQADupstackRetrieval"], "a collection of tasks; name those that you want of CQADupstackAndroid"),
        (["--tasks", "MindSmallReranking"], "no interval is known for its main score max_over_subqueries"),
        (["--tasks", "STSBenchmark", "--variants", "wide"], "variant 'wide': expected one of full"),
        (["none.safetensors", "--tasks", "STSBenchmark"], "none.safetensors: no such file"),
        (["random:9x4:1", "--tasks", "STSBenchmark"], "the table has 9 rows: it belongs to another tokenizer"),
        (["--tasks", "BIOSSES"], "mteb/biosses-sts@d3fb88f8f02e40887cd149695127462bbcf29b4a: no such data set"),
        (
            ["--tasks", "SICK-R"],
            "mteb/sickr-sts@20a6d6f312dd54037fe07a32d58e5e168867909d: not the data that MTEB",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_reported_in_one_line(
    serving, published, table, tokenizer_folder, arguments, words, tmp_path, capsys
):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").write_text("No data.\n")
    publish(serving, tmp_path / "empty", "SICK-R", {})
    arguments = [str(table), *arguments, "--tokenizer", str(tokenizer_folder), "-o", str(tmp_path / "s.csv")]
    assert execute("evaluate", arguments) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("embscale evaluate: ")]
    assert len(told) == 1 and words in told[0]
    assert not (tmp_path / "s.csv").exists()


def test_random_tables_and_their_variants(serving, published, tokenizer_folder, tmp_path):
    flags = ["--tasks", "STSBenchmark", "--tokenizer", str(tokenizer_folder), "-o", str(tmp_path / "s.csv")]
    asked = [f"random:{VOCABULARY}x16:5", f"random:{VOCABULARY}x24:6:legacy", "--variants", "sif:0.01"]
    assert execute("evaluate", [*asked, *flags, "--bootstrap-resamples", "20", "--special-tokens", "include"]) == 0
    found = pd.read_csv(tmp_path / "s.csv")
    assert found["variant"].tolist() == ["random", "random+sif", "random_legacy", "random_legacy+sif"]
    assert found["dim"].tolist() == found["width"].tolist() == [16, 16, 24, 24]
    assert found["seed"].tolist() == [5, 5, 6, 6] and found["strength"].tolist()[1::2] == [0.01, 0.01]
    assert set(found["special_tokens"]) == {"include"} and set(found["suite"]) == {"random"}
    # Token overlap is what random tables measure: both draws of it agree on these texts of 8 words.
    assert found["value"].nunique() == 4 and np.ptp(found["value"]) < 0.3


def test_a_table_that_says_nothing_is_reported(serving, published, tokenizer_folder, tmp_path, capsys):
    table_files.save(tmp_path / "zero.safetensors", np.zeros((VOCABULARY + 12, 4), np.float32), {})
    flags = ["--tasks", "STSBenchmark", "--tokenizer", str(tokenizer_folder), "-o", str(tmp_path / "s.csv")]
    assert execute("evaluate", [str(tmp_path / "zero.safetensors"), *flags]) == 1
    said = capsys.readouterr().err
    assert "is not a number; does the table give all texts the same vector?" in said
    assert "zero.safetensors: 312 rows, of which the tokenizer has no use for 12" in said


def test_tiers_are_tasks_of_these_types():
    for tier in tasks.TIERS.values():
        for name, kind in tier.items():
            assert tasks.find(name).metadata.type == kind
    assert tasks.expand(["SciFact", "small", "SCIDOCS"]) == ["SciFact", *(t for t in tasks.SMALL if t != "SciFact")]


def test_the_full_tier_is_the_english_benchmark_without_great_corpora():
    left_out = ("TRECCOVID", "Touche2020", "FEVER", "ClimateFEVER", "HotpotQA", "MindSmall", "SummEval")
    benchmark = {
        (task.metadata.name, tuple(task.hf_subsets), tuple(task.eval_splits))
        for task in mteb.get_benchmark("MTEB(eng, v2)").tasks
        if not task.metadata.name.startswith(left_out)
    }
    ours = [tasks.find(name) for name in tasks.FULL]
    names = {(task.metadata.name, tuple(task.hf_subsets)) for task in ours}
    assert names == {(name, subsets) for name, subsets, _ in benchmark}
    assert all(list(task.eval_splits) == ["test"] for task in ours)


resampled = st.integers(0, 2**32).map(np.random.default_rng)


@given(resampled, st.integers(3, 30), st.integers(2, 9))
def test_spearman_of_counts_is_spearman_of_repeated_pairs(generator, n, levels):
    x, y = generator.integers(levels, size=n) / 3, generator.integers(levels, size=n)
    counts = next(tasks.resampled_counts(n, 5, seed=int(generator.integers(99))))
    for sample, found in zip(counts, tasks.spearman(x, y, counts), strict=True):
        a, b = np.repeat(x, sample), np.repeat(y, sample)
        if len(set(a)) > 1 and len(set(b)) > 1:
            assert found == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
        else:
            assert np.isnan(found)


@given(resampled, st.integers(3, 30), st.integers(2, 9))
def test_average_precision_of_counts_is_that_of_repeated_pairs(generator, n, levels):
    values, labels = generator.integers(levels, size=n) / 3, generator.integers(2, size=n)
    counts = next(tasks.resampled_counts(n, 5, seed=int(generator.integers(99))))
    for sample, found in zip(counts, tasks.average_precision(values, labels, counts), strict=True):
        a, b = np.repeat(values, sample), np.repeat(labels, sample)
        assert found == pytest.approx(average_precision_score(b, a), abs=1e-12) if b.any() else np.isnan(found)


def test_resamples_are_of_the_size_asked_for(monkeypatch):
    monkeypatch.setattr(tasks, "VALUES_PER_CHUNK", 70)
    counts = np.concatenate(list(tasks.resampled_counts(20, 1000, seed=1)))
    assert counts.shape == (1000, 20) and (counts.sum(axis=1) == 20).all()
    assert counts.mean(axis=0) == pytest.approx(1, abs=0.15) and counts.var() == pytest.approx(1 - 1 / 20, abs=0.05)


def test_experiments_of_subsets_are_averaged_one_by_one():
    parts = [np.array([0.1, 0.2, 0.6]), np.array([0.3, 0.2, 0.4])]
    n, low, high = tasks.over_experiments(parts)
    assert n == 3
    assert (low, high) == pytest.approx(stats.ttest_1samp([0.2, 0.2, 0.5], 0).confidence_interval(0.95))
    for wrong in ([np.array([0.1])], [np.arange(3), np.arange(4)]):
        with pytest.raises(EmbscaleError, match="experiments by subset"):
            tasks.over_experiments(wrong)
