"""The study of the published suites, whole, against a hub on loopback whose models are tiny."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from embscale.claims.published_cells import RENAMED
from embscale.scoring.retrieval import Scorer
from embscale.tables import random_tables, table_files
from embscale.texts import beir, tokens
from hub.repositories import BLOCKS, ROWS, WIDTH, save, save_retrieval, save_texts

pytestmark = pytest.mark.slow

STS = "b0fddb56ed78048fa8b90373c8a3cfc37b684831"
SCIDOCS = "f8c2fcf00f625baaa80f62ec5bd9e1fff3b8ae88"
STUDY = ["studies/paper.yaml", "studies/tiny.yaml", "loopback.yaml"]

# Of every suite of the study a model or two: the kind that stands in, its container, dtype and width.
STAND_INS = {
    "pythia": {
        "pythia-14m": ("gpt_neox", "safetensors", "float16", 32),
        "pythia-6.9b": ("gpt_neox", "safetensors-sharded", "float16", 64),
    },
    "pythia-2024": {"pythia-14m-deduped": ("gpt_neox", "bin", "float16", 96)},
    "opt": {"opt-350m": ("opt-projected", "bin-sharded", "float16", 32)},
    "cerebras-gpt": {"Cerebras-GPT-111M": ("gpt2", "bin", "float32", 32)},
    "bloom": {"bloom": ("bloom", "safetensors-sharded", "bfloat16", 64)},
    "t5-v1_1": {"t5-v1_1-small": ("t5", "legacy", "float32", 32)},
    "gpt2": {"gpt2": ("gpt2", "bin", "float32", 32)},
    "llama-2": {"Llama-2-7b-hf": ("llama", "safetensors-sharded", "float16", 32)},
}
# Published numbers of the stand-ins: rows as the studies' files have them, without values.
SCORED = ("pythia-14m", "pythia-6.9b", "opt-350m", "Cerebras-GPT-111M", "bloom", "t5-v1_1-small", "opt-175b")
WORDS = {"float16": "F16", "bfloat16": "BF16", "float32": "F32"}
RESTRICTED = "opt-175b"
GATED = "Llama-2-7b-hf"


def publish_numbers(folder):
    """Change the published numbers to those of stand-ins: few random tables, of their rows, and GPT-2 of two blocks."""
    scores = pd.read_csv(folder / "corey2024.csv", dtype=str, keep_default_na=False)
    few = (scores["variant_dims"] == "128") & scores["seed"].isin(["42", "43"])
    names = scores["published_name"].str.replace(r"\d+ vocab", f"{ROWS} vocab", regex=True)
    scores.assign(published_name=names)[(scores["suite"] != "random") | few].to_csv(
        folder / "corey2024.csv", index=False
    )
    runs = pd.read_csv(folder / "huang2024.csv", dtype=str, keep_default_na=False)
    short = (runs["model"] == "gpt2") & (runs["texts"] == "imdb") & (runs["tokens"] == "10")
    short &= runs["texts_count"] == "10"
    run = runs[short].assign(n_layers=str(BLOCKS + 1))
    other = run.assign(source="pile")  # so that claims about the grid do not read it twice
    again = [run, other.assign(n_layers=str(BLOCKS)), other.assign(masked="1 3")]
    pd.concat([runs[~short], *again]).to_csv(folder / "huang2024.csv", index=False)


@pytest.fixture(scope="module")
def checkout(serving, copy_of_checkout, tmp_path_factory):
    """A copy of what git tracks with an overlay that swaps the models, and the hub that holds them."""
    folder = copy_of_checkout("paper")
    registry = yaml.safe_load((folder / "workflow/suites.yaml").read_text())
    published = tmp_path_factory.mktemp("published")
    kept = {}
    for suite, models in STAND_INS.items():
        block = kept[suite] = registry[suite]
        facts = {name: block["models"][name] for name in models} | (
            {RESTRICTED: block["models"][RESTRICTED]} if suite == "opt" else {}
        )
        block["models"] = facts
        for name, (kind, container, dtype, width) in models.items():
            repo = block["repo"].format(model=name)
            sizes = {"gpt2": {"n_embd": width}, "t5": {"d_model": width}}.get(kind, {"hidden_size": width})
            save(kind, container, published / repo, dtype=dtype, **sizes)
            serving.add(repo, published / repo, gated=suite == "llama-2", lfs=2000)
            columns = WIDTH // 2 if kind == "opt-projected" else width
            facts[name] |= {"shape": [ROWS, columns], "dtype": WORDS[dtype], "checkpoint_gb": 0.001}
        block["tokenizer"]["repo"] = block["repo"].format(model=next(iter(models)))
    publish_numbers(folder / "src/embscale/claims/published_scores")
    (folder / "suites.yaml").write_text(yaml.safe_dump(kept))
    (folder / "pins.yaml").write_text("{}\n")
    save_retrieval(published / "scidocs")
    serving.add("mteb/scidocs", published / "scidocs", kind="dataset", commit=SCIDOCS)
    save_texts(published / "imdb")
    imdb = serving.add("stanfordnlp/imdb", published / "imdb", kind="dataset")
    pairs = [
        {"sentence1": f"word{i} word{i + 1}", "sentence2": f"word{i} word{9 * i}", "score": i % 5} for i in range(30)
    ]
    (published / "sts").mkdir()
    (published / "sts/test.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    serving.add("mteb/stsbenchmark-sts", published / "sts", kind="dataset", commit=STS)
    sources = [
        {"name": name, "of": "imdb", "strip_html": True, "strip_punctuation": name != "imdb"}
        for name in ("imdb", "imdb-unpunctuated")
    ]
    overlay = {
        "suites": list(STAND_INS),
        "tasks": ["SCIDOCS"],
        "other_tasks": ["STSBenchmark"],
        "study": "paper",
        "hub": {"registry": "suites.yaml", "pins": "pins.yaml"},
        "texts": {"imdb": {"revision": imdb}},
        "ladder": {"widths": [8]},
        "claims": {"task": "SCIDOCS"},
        "scores": {"lengths": ["all", 16], "variants": ["crop:128", "pad:14336:42", "pad_ratio:1:42", "unit", "idf"]},
        "layers": {
            "base": "gpt2",
            "pictured": ["gpt2"],
            "texts": sources,
            "texts_count": 15,
            "grid": {"models": ["gpt2"], "windows": [6, 14], "counts": [8, 15]},  # longer than the other states
        },
    }
    (folder / "loopback.yaml").write_text(yaml.safe_dump(overlay))
    return folder


@pytest.fixture
def run(checkout, hub, tmp_path_factory):
    """A function that runs a command in the checkout with the loopback hub and no token."""

    def command(*arguments, check=True, **more):
        environment = hub.environment(checkout / "home") | {"PYTHONPATH": str(checkout / "src")} | more
        module = [sys.executable, "-m", *arguments]
        done = subprocess.run(module, cwd=checkout, env=environment, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done

    return command


def test_the_study_runs_whole(checkout, run, hub):
    # Nothing is fetched before every revision stands for a commit.
    unpinned = run("snakemake", "-n", "--configfile", *STUDY, check=False)
    assert unpinned.returncode and "embscale pin" in unpinned.stdout + unpinned.stderr
    run("embscale", "pin", *STUDY)
    pins = yaml.safe_load((checkout / "pins.yaml").read_text())
    assert len(pins["EleutherAI/pythia-14m@main"]["commit"]) == 40

    hub.requests.clear()
    plan = run("embscale", "plan", *STUDY, "--no-measure").stdout
    assert "gated" in plan and RESTRICTED in plan and not hub.requests

    run("snakemake", "--cores", "2", "--configfile", *STUDY)
    nothing = run("snakemake", "-n", "--configfile", *STUDY, HF_HUB_OFFLINE="1")
    assert "Nothing to be done" in nothing.stdout
    assert not hub.matching(GATED + "/resolve") and not hub.matching(RESTRICTED)


def test_the_scores_are_those_of_the_published_tables(checkout, run):
    """What stands in scores.csv is what the state dict of the repository gives, computed here from its tensor."""
    import torch

    scores = pd.read_csv(checkout / "results/paper/scores.csv")
    wanted = {(suite, model) for suite, models in STAND_INS.items() for model in models if model != GATED}
    trained = scores[(scores["variant"] == "full") & scores["suite"].isin(list(STAND_INS))]
    assert set(zip(trained["suite"], trained["model"], strict=True)) == wanted
    assert set(scores["task"]) == {"SCIDOCS", "NetworkXSeeAlso", "NetworkXSummaries"}
    assert set(scores["tokenizer"]) >= {"gpt-neox-20b", "opt", "gpt2", "bloom", "t5-v1_1", "tiny-bpe"}
    data = beir.load(checkout / "results/hub/tasks/SCIDOCS")
    for suite, model in (("pythia", "pythia-6.9b"), ("t5-v1_1", "t5-v1_1-small"), ("bloom", "bloom")):
        kind, container, dtype, width = STAND_INS[suite][model]
        sizes = {"t5": {"d_model": width}}.get(kind, {"hidden_size": width})
        state = save(kind, container, checkout / "truth" / model, dtype=dtype, **sizes)
        names = ("gpt_neox.embed_in.weight", "shared.weight", "word_embeddings.weight")
        (table,) = [state[name] for name in names if name in state]
        tokenizer = trained.loc[trained["model"] == model, "tokenizer"].iloc[0]  # compared with its files elsewhere
        groups = [
            tokens.tokenise(
                list(texts.values()),
                tokens.load_tokenizer(checkout / "results/hub/tokenizers" / tokenizer),
                max_length=128,
                special_tokens=False,
            )
            for texts in (data.documents, data.queries)
        ]
        expected = Scorer(data, *groups).per_query(table.to(torch.float32).numpy(), ["ndcg_at_10"]).mean().item()
        rows = trained.query("task == 'SCIDOCS' and metric == 'ndcg_at_10' and length == 'all' and model == @model")
        assert np.isclose(rows["value"].item(), expected)
        stored = (checkout / "results/hub/tables" / model).glob("*.safetensors")
        found = [path for path in stored if "." not in path.stem]  # the input table, not the output table beside it
        assert np.array_equal(table_files.load(found[0]), table.float().numpy())


def test_published_numbers_are_repeated_by_both_protocols(checkout, run):
    """The faithful rows are what the study's protocol gives on the published tensors, computed here."""
    import torch

    run("embscale", "pin", *STUDY)
    run("snakemake", "--cores", "2", "--configfile", *STUDY, "--", "results/paper/report/reproduction.csv")
    rows = pd.read_csv(checkout / "results/paper/report/reproduction.csv", dtype=str, keep_default_na=False)
    data = beir.load(checkout / "results/hub/tasks/SCIDOCS")

    def score(table, tokenizer):
        groups = [
            tokens.tokenise(
                list(texts.values()), tokens.load_tokenizer(tokenizer), max_length=2048, special_tokens=True
            )
            for texts in (data.documents, data.queries)
        ]
        rounded = table.to(torch.bfloat16).to(torch.float32)
        return Scorer(data, *groups).per_query(rounded.numpy(), ["ndcg_at_10"]).mean().item()

    draw = torch.from_numpy(random_tables.faithful(ROWS, 14336, 42))
    stand_ins = {model: how for models in STAND_INS.values() for model, how in models.items() if model in SCORED}
    for model in stand_ins:
        found = rows[(rows["model"] == model) & (rows["task"] == "SCIDOCS") & (rows["metric"] == "ndcg_at_10")]
        found = found.drop_duplicates(["variant", "variant_dims"])  # some crops were published right and wrong
        # What the study scored under this name has another name now.
        weights = RENAMED.get(model, model)
        kind, container, dtype, width = (STAND_INS["pythia-2024"] | stand_ins)[weights]
        folder = checkout / "truth" / weights
        sizes = {"gpt2": {"n_embd": width}, "t5": {"d_model": width}}.get(kind, {"hidden_size": width})
        state = save(kind, container, folder, dtype=dtype, **sizes)
        # Compared with its files elsewhere.
        tokenizer = checkout / "results/hub/tokenizers" / found["tokenizer"].iloc[0]
        names = ("embed_in.weight", "shared.weight", "word_embeddings.weight", "wte.weight", "embed_tokens.weight")
        table = next(tensor for name, tensor in state.items() if name.endswith(names)).float()
        of = found.set_index(["variant", "variant_dims"])["faithful"].astype(float)
        assert np.isclose(of["full", ""], score(table, tokenizer))
        assert np.isclose(of["crop", "128"], of["full", ""])  # so narrow a table has no more columns
        padded = torch.cat([table, draw[:, table.shape[1] :]], dim=1)
        assert np.isclose(of["pad", "14336"], score(padded, tokenizer))
        random = found[found["variant"] == "random"]
        assert np.isclose(
            float(random["faithful"].item()), score(draw[:, : int(random["variant_dims"].item())], tokenizer)
        )
    assert set(rows.loc[(rows["suite"] == "random") & (rows["task"] == "SCIDOCS"), "status"]) == {"run"}
    of_tables = rows[(rows["study"] == "corey2024") & (rows["status"] == "run") & (rows["variant"] != "random")]
    assert (of_tables.loc[of_tables["variant"].isin(["full", "crop"]), "corrected"] != "").all()
    assert (of_tables.loc[of_tables["variant_dims"] == "14336", "corrected"] != "").all()

    restricted = rows[(rows["model"] == RESTRICTED) & (rows["variant"] != "random")]
    assert set(restricted["status"]) == {"needs weights"} and restricted["needs"].str.contains("on no hub").all()
    llama = rows[rows["model"] == GATED]
    assert set(llama["status"]) == {"needs weights"} and llama["needs"].str.contains("gated").all()
    layers = rows[(rows["model"] == "gpt2") & (rows["texts"] == "imdb") & (rows["n_layers"].str.len() == 1)]
    assert set(layers["status"]) == {"run"} and set(layers["n_layers"]) == {str(BLOCKS), str(BLOCKS + 1)}
    assert layers["faithful"].astype(float).between(0, 1).all() and (layers["corrected"] != "").all()


def site(checkout):
    """What a reader finds: the main page and the chapters with the appendix."""
    pages = sorted((checkout / "report/_site/studies/paper").rglob("*.html"))
    return "".join(page.read_text() for page in pages if page.name != "explorer.html")


def test_tasks_of_another_kind_are_scored_and_shown(checkout):
    rows = pd.concat(pd.read_csv(path) for path in (checkout / "results/paper/other_tasks").glob("*.csv"))
    assert set(rows["task"]) == {"STSBenchmark"} and set(rows["n"]) == {30} and set(rows["interval_over"]) == {"pairs"}
    assert set(rows["model"]) >= {"ladder-w8", "glove-d8"} | {m for ms in STAND_INS.values() for m in ms if m != GATED}
    assert "STSBenchmark" in site(checkout)


def test_claims_are_put_to_the_published_suites(checkout):
    claims = pd.read_csv(checkout / "results/paper/claims.csv").set_index("claim")
    # Of the models of this claim only one is here, of the other both.
    assert claims.loc["C2a", "verdict"] == "published models not run"
    assert claims.loc["C16b", "verdict"] != "published models not run"


def test_layers_of_whole_checkpoints_are_classified(checkout):
    models = {path.name.partition(".csv")[0] for path in (checkout / "results/paper/probes").glob("*.csv.note.json")}
    assert models == {"ladder-w8", "gpt2"}


def test_the_page_says_what_took_part_and_what_did_not(checkout):
    page = site(checkout)
    assert "No published suite" not in page
    for model in (RESTRICTED, GATED, "opt-350m"):
        assert model in page
    inventory = pd.read_csv(checkout / "results/paper/inventory.csv").set_index("model")
    assert inventory.loc[GATED, "status"] == "gated" and "licen" in inventory.loc[GATED, "reason"]
    assert inventory.loc[RESTRICTED, "status"] == "restricted"
    assert (inventory.drop([GATED, RESTRICTED])["status"] == "fetch").all()


def test_a_change_of_the_fetching_code_does_not_fetch_again(checkout, run, hub):
    source = checkout / "src/embscale/tables/extraction.py"
    before = source.read_text()
    source.write_text(before + "\n# changed\n")
    hub.requests.clear()
    table = "results/hub/tables/gpt2/main.safetensors"
    done = run("snakemake", "--cores", "1", "--configfile", *STUDY, "--", table)
    assert "fetch_table" in done.stdout + done.stderr
    assert not hub.matching(r"resolve|blob") and (checkout / table).is_file()
    source.write_text(before)
    os.utime(source)
