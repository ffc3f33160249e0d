"""The report's text: no number typed in, no trap of Markdown with numbers that come from rules."""

import re
from pathlib import Path

import pytest
import yaml

import embscale

REPORT = Path(__file__).resolve().parents[2] / "report"
TEXTS = sorted(path for path in REPORT.rglob("*.qmd") if "_site" not in path.parts)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_score_is_typed_into_the_text(path):
    # The version of this repository is no score; a test below holds it to CITATION.cff.
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("  version = ")]
    assert not [line for line in lines if re.search(r"(?<![\w.@#-])\d+\.\d+", line)]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_line_begins_with_a_variable(path):
    """A number followed by a point at the start of a line would become a list."""
    lines = path.read_text("utf-8").splitlines()
    assert not [line for line in lines if line.lstrip().startswith("{{< var")]


def entries():
    """The entries of the bibliography: kind and fields by key."""
    text = (REPORT / "references.bib").read_text("utf-8")
    found = re.findall(r"^@(\w+)\{([\w-]+),\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert len(found) == text.count("\n@") + text.startswith("@")
    keys = [key for _, key, _ in found]
    assert len(set(keys)) == len(keys)
    return {key: (kind, dict(re.findall(r"^  (\w+) = \{(.*)\},?$", body, re.MULTILINE))) for kind, key, body in found}


def cited():
    texts = "".join(path.read_text("utf-8") for path in TEXTS)
    return {key for key in re.findall(r"(?<![\w.])-?@([\w-]+)", texts) if not re.match(r"(fig|tbl|sec|eq|nte)-", key)}


def test_every_source_is_cited_and_every_citation_has_its_source():
    # The citation of this repository is an example of BibTeX, not a source.
    assert set(entries()) == cited() - {"software"}


REQUIRED = {
    "article": {"journal", "year"},
    "inproceedings": {"booktitle", "year"},
    "misc": set(),  # but a way to find it: see the test
}


@pytest.mark.parametrize(("key", "entry"), entries().items(), ids=list(entries()))
def test_a_source_can_be_found(key, entry):
    kind, fields = entry
    assert {"author", "title"} | REQUIRED[kind] <= set(fields)
    assert kind != "misc" or fields.keys() & {"url", "eprint", "note"}
    assert all(value.strip() and value.count("{") == value.count("}") for value in fields.values())
    year = re.search(r"\d{4}", key)
    assert not year or fields["year"] == year[0]


def test_how_to_cite_says_what_the_citation_file_says():
    told = (REPORT / "chapters/cite.qmd").read_text("utf-8")
    cff = yaml.safe_load((REPORT.parent / "CITATION.cff").read_text("utf-8"))
    fields = dict(re.findall(r"^  (\w+) = \{+(.*?)\}+,?$", told, re.MULTILINE))
    assert fields == {
        "author": cff["authors"][0]["name"],
        "title": cff["title"],
        "version": cff["version"],
        "license": cff["license"],
    }
    assert cff["version"] == embscale.__version__
    sources = {fields["title"].replace("{", "").replace("}", ""): fields for _, fields in entries().values()}
    for work in cff["references"]:
        source = sources[work["title"]]
        assert str(work["year"]) == source["year"] and work["url"] == source["url"]
        assert all(person["family-names"] in source["author"] for person in work["authors"])


def test_every_chapter_is_on_the_page_once():
    index = (REPORT / "index.qmd").read_text("utf-8")
    included = re.findall(r"include (chapters/\S+)", index)
    assert sorted(included) == sorted(path.relative_to(REPORT).as_posix() for path in TEXTS if path.parent != REPORT)
