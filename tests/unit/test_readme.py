"""README.md tells the recorded results, and every file that it and CONTRIBUTING.md name exists."""

import re
from pathlib import Path

import pytest
import yaml

import readme
from embscale.cli import execute
from embscale.report import numbers
from embscale.rows import tidy

ROOT = Path(__file__).resolve().parents[2]

PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
RECORDED = ROOT / "recorded" / PARAMS["study"]
WHERE = [
    f"metric={PARAMS['scores']['primary_metric']}",
    f"task={PARAMS['corpus']['task']}",
    f"tokenizer={PARAMS['tokenizer']['name']}",
]


@pytest.fixture
def recorded():
    if not (RECORDED / "scores.csv").is_file():
        pytest.skip("nothing is recorded yet (make record): README.md was not compared")
    return RECORDED


def test_the_findings_are_those_of_the_record(recorded):
    found = readme.findings({
        "scores": numbers.score_numbers(tidy.read([recorded / "scores.csv"], (), where=WHERE)),
        "layers": numbers.layer_numbers(tidy.read([recorded / "layers.csv"], (), where=[]), ""),
    })  # fmt: skip
    text = (ROOT / "README.md").read_text("utf-8")
    assert readme.replace(text, found) == text, "snakemake docs writes README.md anew"


def test_the_figure_is_that_of_the_record(recorded, tmp_path):
    where = [part for condition in WHERE for part in ("--where", condition)]
    files = ["--svg", "a.svg", "--partial", "a.md", "--data", "a.csv"]
    files = [word if word.startswith("--") else str(tmp_path / word) for word in files]
    assert execute("draw", ["scaling", "--rows", str(recorded / "scores.csv"), *where, *files]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (ROOT / "docs/scaling.svg").read_bytes(), "snakemake docs brings it"


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
