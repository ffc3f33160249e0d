"""A task in two languages, from the repository of the benchmark to the rows of two suites."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from embscale.scoring.retrieval import Scorer
from embscale.texts import beir, tokens
from hub.repositories import ROWS, save, save_retrieval_by_language

pytestmark = pytest.mark.slow

XQUAD = "194842d6a49baddf6cd3f4d5130ab3c7756268d2"
LANGUAGES = {
    "es": tuple(f"palabra{i}" for i in range(30)),
    "zh": tuple(chr(0x4E00 + i) + chr(0x5E00 + i) for i in range(30)),
}
STAND_INS = {"bloom": ("bloom-560m", "bloom", "float16"), "pythia": ("pythia-70m", "gpt_neox", "float16")}
TABLES = ("word_embeddings.weight", "gpt_neox.embed_in.weight")  # their names in the files
WIDTH = 32
TASKS = [f"XQuADRetrieval:{language}" for language in LANGUAGES]
OVERLAY = {
    "study": "multilingual",
    "hub": {"registry": "suites.yaml", "pins": "pins.yaml"},
    "tasks": TASKS,
    "claims": {"task": TASKS[0]},
    "ladder": {"widths": [8], "seeds": [1]},
    "scores": {"lengths": ["all", 16], "variants": ["unit"], "random": {"dims": [8, WIDTH], "seeds": [42, 43]}},
    "layers": {"base": "ladder-w8", "pictured": ["ladder-w8"], "grid": {"models": ["ladder-w8"]}},
}
SCORES = "results/multilingual/per_query/{}/{}.parquet"
RANDOM = f"random-bloom-w{WIDTH}"
MODELS = [model for model, *_ in STAND_INS.values()]
TARGETS = [SCORES.format(task, model) for task in TASKS for model in (*MODELS, RANDOM)]


@pytest.fixture(scope="module")
def checkout(serving, copy_of_checkout, tmp_path_factory):
    """A copy of what git tracks in which both suites have one model each, which the hub holds, and the scores."""
    folder, published = copy_of_checkout("multilingual"), tmp_path_factory.mktemp("published")
    registry, kept = yaml.safe_load((folder / "workflow/suites.yaml").read_text()), {}
    for suite, (model, kind, dtype) in STAND_INS.items():
        block = kept[suite] = registry[suite]
        repo = block["repo"].format(model=model)
        save(kind, "safetensors", published / repo, dtype=dtype, hidden_size=WIDTH)
        serving.add(repo, published / repo)
        block["models"] = {model: block["models"][model] | {"shape": [ROWS, WIDTH], "checkpoint_gb": 0.001}}
        block["tokenizer"]["repo"] = repo
    save_retrieval_by_language(published / "xquad", LANGUAGES)
    serving.add("mteb/XQuADRetrieval", published / "xquad", kind="dataset", commit=XQUAD)
    (folder / "suites.yaml").write_text(yaml.safe_dump(kept))
    (folder / "pins.yaml").write_text("{}\n")
    (folder / "loopback.yaml").write_text(yaml.safe_dump(OVERLAY))
    studies = ["studies/multilingual.yaml", "studies/tiny.yaml", "loopback.yaml"]
    environment = serving.environment(folder / "home") | {"PYTHONPATH": str(folder / "src")}
    for command in (
        ["embscale", "pin", *studies],
        ["snakemake", "--cores", "2", "--configfile", *studies, "--", *TARGETS],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return folder


def test_every_suite_is_scored_in_every_language(checkout):
    """The scores are those of the published tensors on the published texts, computed here."""
    truth = save_retrieval_by_language(checkout / "truth", LANGUAGES)
    for task, language in zip(TASKS, LANGUAGES, strict=True):
        data = beir.load(checkout / "results/hub/tasks" / task)
        assert data.queries == truth[language]["queries"]
        for suite, (model, kind, dtype) in STAND_INS.items():
            rows = pd.read_parquet(checkout / SCORES.format(task, model)).query("variant == 'full' and length == 'all'")
            assert set(rows["task"]) == {task} and set(rows["suite"]) == {suite}
            state = save(kind, "safetensors", checkout / "truth" / model, dtype=dtype, hidden_size=WIDTH)
            (table,) = [state[name] for name in TABLES if name in state]
            tokenizer = tokens.load_tokenizer(checkout / "results/hub/tokenizers" / rows["tokenizer"].iloc[0])
            groups = [
                tokens.tokenise(list(texts.values()), tokenizer, max_length=128, special_tokens=False)
                for texts in (data.documents, data.queries)
            ]
            expected = Scorer(data, *groups).per_query(table.float().numpy(), ["ndcg_at_10"]).mean().item()
            assert np.isclose(rows.query("metric == 'ndcg_at_10'")["score"].mean(), expected)


def test_random_tables_are_scored_in_every_language(checkout):
    for task in TASKS:
        rows = pd.read_parquet(checkout / SCORES.format(task, RANDOM))
        assert set(rows["tokenizer"]) == {"bloom"} and set(rows["task"]) == {task} and set(rows["dim"]) == {WIDTH}
