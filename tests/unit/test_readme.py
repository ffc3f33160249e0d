"""README.md tells the recorded results, and every file that it and CONTRIBUTING.md name exists."""

import re
from pathlib import Path

import pytest
import yaml

import readme
from embscale.cli import execute
from embscale.report import numbers
from embscale.rows import tidy
from embscale.rows.selection import where
from embscale.scoring import primary_length

ROOT = Path(__file__).resolve().parents[2]

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
RECORDED = ROOT / "recorded" / PARAMS["study"]
MAIN = {"task": PARAMS["corpus"]["task"], "metric": PARAMS["scores"]["primary_metric"]}
LENGTH = str(PARAMS["scores"]["lengths"][0])
WHERE = [f"tokenizer={PARAMS['tokenizer']['name']}"]


@pytest.fixture
def recorded():
    if not (RECORDED / "estimates.csv").is_file():
        pytest.skip("nothing is recorded yet (make record): README.md was not compared")
    return RECORDED


def test_the_findings_are_those_of_the_record(recorded):
    rows = [tidy.read([recorded / f"{name}.csv"], (), where=WHERE) for name in ("estimates", "differences")]
    found = readme.findings({
        "scores": numbers.score_numbers(*rows, **MAIN, length=LENGTH),
        "layers": numbers.layer_numbers(tidy.read([recorded / "layers.csv"], (), where=[]), ""),
    })  # fmt: skip
    text = (ROOT / "README.md").read_text("utf-8")
    assert readme.replace(text, found) == text, "snakemake docs writes README.md anew"


def test_the_figure_is_that_of_the_record(recorded, tmp_path):
    conditions = [*WHERE, f"metric={MAIN['metric']}", f"length={LENGTH}", "queries=all"]
    flags = [part for condition in conditions for part in ("--where", condition)]
    files = ["--svg", "a.svg", "--partial", "a.md", "--data", "a.csv"]
    files = [word if word.startswith("--") else str(tmp_path / word) for word in files]
    assert execute("draw", ["scaling", "--rows", str(recorded / "estimates.csv"), *flags, *files]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (ROOT / "docs/scaling.svg").read_bytes(), "snakemake docs brings it"


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
