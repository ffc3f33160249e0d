"""The worked examples of CONTRIBUTING.md, put into a copy of the repository and run."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from explorer_rows import score_rows

EXAMPLE = re.compile(
    r"In `(?P<path>[^`]+)`(?:, (?P<at>at the end|below `(?P<anchor>[^`]+)`))?:\n\n```\w+\n(?P<text>.*?)```",
    re.DOTALL,
)


def put(folder, example):
    """Write a block of the text where it says that it belongs."""
    path = folder / example["path"]
    if not example["at"]:
        path.write_text(example["text"])
        return
    text = path.read_text()
    before, anchor, after = text.partition(f"{example['anchor']}\n") if example["anchor"] else (text, "", "")
    assert anchor or example["at"] == "at the end", example["anchor"]
    path.write_text(before + anchor + example["text"] + after)


def command(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def examples(copy_of_checkout):
    """A copy of the repository with all examples in it."""
    folder = copy_of_checkout("contributing")
    found = list(EXAMPLE.finditer((folder / "CONTRIBUTING.md").read_text()))
    assert len(found) == 6
    for example in found:
        put(folder, example)
    # In place of `embscale pin`, which asks the hub.
    pins = folder / "workflow/pins.yaml"
    pins.write_text(f'{pins.read_text()}"distilbert/distilgpt2@main": {{commit: "{"0" * 40}", source: a test}}\n')
    return folder


@pytest.fixture(scope="module")
def planned(examples):
    """What a dry run of the example's study says."""
    return command(examples, "snakemake", "-n", "--cores", "1", "--configfile", "studies/mine.yaml")


def test_the_suite_is_fetched_and_scored(planned):
    assert "results/hub/tables/distilgpt2/main.safetensors" in planned
    assert "results/mine/per_query/NFCorpus/distilgpt2.parquet" in planned


def test_the_task_is_fetched_and_the_ladder_scored_on_it(planned):
    assert "results/hub/tasks/NFCorpus/" in planned
    assert "results/mine/per_query/NFCorpus/ladder-w16.parquet" in planned


def test_the_variants_are_those_of_the_example(planned, examples):
    variants = yaml.safe_load((examples / "studies/mine.yaml").read_text())["scores"]["variants"]
    told = command(
        examples, "snakemake", "-n", "--cores", "1", "--printshellcmds", "--configfile", "studies/mine.yaml",
        "--", "results/mine/per_query/NFCorpus/ladder-w16.parquet",
    )  # fmt: skip
    assert all(variant in told for variant in variants)


def test_the_figure_is_planned_drawn_and_described(planned, examples, tmp_path):
    assert "results/mine/report/figures/variant_bars.svg" in planned
    chosen = "metric == 'ndcg_at_10' and task == 'Cats' and special_tokens == 'exclude'"
    score_rows().query(chosen).to_csv(tmp_path / "scores.csv", index=False)
    outputs = [
        f"--{name}={tmp_path / file}" for name, file in (("svg", "a.svg"), ("partial", "a.md"), ("data", "a.csv"))
    ]
    command(examples, "embscale", "draw", "variant_bars", "--rows", str(tmp_path / "scores.csv"), *outputs)
    assert (tmp_path / "a.svg").read_text().count("<svg") == 1
    assert "Bars of nDCG@10 × 100 by variant: " in (tmp_path / "a.md").read_text()
