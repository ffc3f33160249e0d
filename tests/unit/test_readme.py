"""README.md tells the recorded results, and every file that it and CONTRIBUTING.md name exists."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

import readme
from embscale.answers import words
from embscale.cli import execute
from embscale.figures import training
from embscale.report import numbers
from embscale.rows import tidy
from embscale.rows.selection import where
from embscale.scoring import primary_length

ROOT = Path(__file__).resolve().parents[2]

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
RECORDED = ROOT / "recorded" / PARAMS["study"]
MAIN = {"task": PARAMS["corpus"]["task"], "metric": PARAMS["scores"]["primary_metric"]}
LENGTH = str(PARAMS["scores"]["lengths"][0])
# What the report shows of the ladder: the record of the longer study, where there is one.
BESIDE = ROOT / "recorded" / PARAMS["report"]["beside"] / "ladder"
ANSWERS = BESIDE if BESIDE.is_dir() else RECORDED / "ladder"
QUOTED = ("crossings", "effects", "explanations", "fits", "costs")
WHERE = [f"tokenizer={PARAMS['tokenizer']['name']}"]


def curves(recorded):
    return list(dict.fromkeys([recorded / "ladder/curves.csv", ANSWERS / "curves.csv"]))


@pytest.fixture
def recorded():
    if not (RECORDED / "estimates.csv").is_file():
        pytest.skip("nothing is recorded yet (make record): README.md was not compared")
    return RECORDED


def test_the_findings_are_those_of_the_record(recorded):
    rows = [tidy.read([recorded / f"{name}.csv"], (), where=WHERE) for name in ("estimates", "differences")]
    answers = {name: tidy.read([ANSWERS / f"{name}.csv"], (), where=[]) for name in QUOTED}
    found = readme.findings({
        "scores": numbers.score_numbers(*rows, **MAIN, length=LENGTH),
        "layers": numbers.layer_numbers(tidy.read([recorded / "layers.csv"], (), where=[]), ""),
        "answers": words.variables(answers, study=ANSWERS.parent.name, own=False),
    }, training.describe(tidy.read(curves(recorded), training.COLUMNS, where=[])))  # fmt: skip
    text = (ROOT / "README.md").read_text("utf-8")
    assert readme.replace(text, found) == text, "snakemake docs writes README.md anew"


def test_the_figure_is_that_of_the_record(recorded, tmp_path):
    files = ["--svg", "a.svg", "--partial", "a.md", "--data", "a.csv"]
    files = [word if word.startswith("--") else str(tmp_path / word) for word in files]
    assert execute("draw", ["training", "--rows", *map(str, curves(recorded)), *files]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (ROOT / "docs/training.svg").read_bytes(), "snakemake docs brings it"
    assert f"({ROOT.joinpath('docs/training.svg').relative_to(ROOT)})" in (ROOT / "README.md").read_text("utf-8")


def test_a_figure_without_alternative_text_is_refused():
    assert readme.description('![](figures/a.svg){fig-alt="Lines that rise."}\n') == "Lines that rise."
    with pytest.raises(ValueError, match="no alternative text"):
        readme.description("![](figures/a.svg)")


def test_the_first_length_is_the_one_that_the_rule_chooses(recorded):
    rows = tidy.read([recorded / "estimates.csv"], (), where=[*WHERE, "queries=all"])
    found = primary_length.ratios(where(rows, **MAIN))
    assert primary_length.choice(found) == LENGTH, f"put the chosen length first in scores.lengths:\n{found}"


def test_findings_stand_between_their_marks():
    text = f"a\n{readme.BEGIN}\nold\n{readme.END}\nb"
    assert readme.replace(text, "new\n") == f"a\n{readme.BEGIN}\n\nnew\n\n{readme.END}\nb"
    assert readme.replace(readme.replace(text, "new\n"), "new\n") == readme.replace(text, "new\n")
    with pytest.raises(ValueError, match="put them back"):
        readme.replace("text without marks", "new")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "workflow/README.md"])
def test_every_linked_file_exists(name):
    file = ROOT / name
    links = re.findall(r"\]\(([^)#]+)\)", file.read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (file.parent / link).exists()] == []


def test_the_tree_of_the_readme_exists():
    tree = (ROOT / "README.md").read_text("utf-8").partition("## The tree")[2].partition("\nEvery artifact")[0]
    named = re.findall(r"^    (\S+?),? ", tree, re.MULTILINE)
    made = {"results/", "logs/"}
    assert len(named) > 8 and [path for path in named if path not in made and not (ROOT / path).exists()] == []


def test_the_figures_words_open_with_its_conclusion():
    """Other numbers, another sentence."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert "![Compared with random tables of the same width, trained ones score " in text
    values = defaultdict(str, against_random="above them at all 3 widths")
    found = readme.findings({"scores": values, "layers": values, "answers": values}, "Lines.")
    conclusion = "Compared with random tables of the same width, trained ones score above them at all 3 widths."
    assert found.startswith(f"![{conclusion} Lines.](")
