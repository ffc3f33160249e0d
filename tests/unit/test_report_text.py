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


def main_page():
    """The chapters that are read on the main page, in their order."""
    index = (REPORT / "index.qmd").read_text("utf-8")
    chapters = [(REPORT / name).read_text("utf-8") for name in re.findall(r"include (chapters/\S+)", index)]
    own = [".own-page}" in chapter for chapter in chapters]
    # Sections with a page of their own come last, so that the numbers of the others have no gap.
    assert own == sorted(own) and any(own)
    assert all(chapter.startswith("## ") and chapter.count("\n## ") == 0 for chapter in chapters)
    return [chapter for chapter, apart in zip(chapters, own, strict=True) if not apart]


FLOAT = re.compile(r"^::: \{#(fig|tbl)-[\w-]+\}.*?^:::$", re.MULTILINE | re.DOTALL)


def test_the_main_page_can_be_read_in_one_sitting():
    text = "\n".join(main_page())
    assert 10 <= text.count("::: {#fig-") <= 17
    prose = re.sub(r"\{\{<.*?>\}\}", "number", FLOAT.sub("", text))
    assert len(prose.split()) < 4000


def test_every_figure_of_the_main_page_is_mentioned_outside_its_caption():
    text = "\n".join(main_page())
    mentioned = set(re.findall(r"@(fig-[\w-]+)", FLOAT.sub("", text)))
    assert set(re.findall(r"::: \{#(fig-[\w-]+)", text)) <= mentioned


def test_the_answers_and_the_leading_figure_come_first():
    first = main_page()[0]
    assert re.findall(r"::: \{([.#][\w-]+)", first) == [".answers", "#fig-training"]
    assert all(re.match(r"- \*\*[^*]+\?\*\* .*\(@", line) for line in re.findall(r"^- .*", first, re.MULTILINE))


def test_the_appendix_lists_its_pages_in_their_order():
    index = (REPORT / "index.qmd").read_text("utf-8")
    chapters = [(REPORT / name).read_text("utf-8") for name in re.findall(r"include (chapters/\S+)", index)]
    pages = [label for chapter in chapters for label in re.findall(r"^## .*\{#([\w-]+) \.own-page\}", chapter, re.M)]
    listed = (REPORT / "chapters/appendix.qmd").read_text("utf-8")
    assert re.findall(r"^- @([\w-]+): ", listed, re.MULTILINE) == pages


def test_the_author_is_that_of_the_citation_file():
    cff = yaml.safe_load((REPORT.parent / "CITATION.cff").read_text("utf-8"))
    front = yaml.safe_load((REPORT / "index.qmd").read_text("utf-8").split("---\n")[1])
    names = [author["name"] for author in cff["authors"]]
    about = " ".join((REPORT / "chapters/cite.qmd").read_text("utf-8").split())
    assert [front["author"]] == names
    assert all(name.lower() in about.lower() for name in names) and f"**Licence:** {cff['license']}." in about


# Words of this project's own that stop a reader, each with the standard term.
PRIVATE = {
    r"rungs?": "model of the ladder, or the width",
    r"told|tells": "reported, describes, distinguished",
    r"kinship|alike": "similarity, similar",
    r"hold apart|kept apart|set apart": "separate",
    r"tak(?:e|es|en|ing) (?:[\w' -]+ )?off": "remove",
    r"apparatus": "appendix",
    r"mends?|leave away|leaves? .{1,20} away": "fix, drop",
    r"is at work": "is running",
    r"goes into the rows": "is recorded in the output",
    r"held against": "compared with",
    r"anyway": "already",
    r"what it takes": "compute and storage",
    r"this page leaves open|this page shows": "limitations, summary",
    r"where do the states lie": "geometry of hidden states",
    r"which knows": "which depends only on",
    r"brings? (?:nothing|no further)": "adds only",
    r"[ISR]\d?-\d+": "the reason itself; ids are private to design notes",
}
READ = [*TEXTS, REPORT.parent / "README.md", *sorted((REPORT.parent / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_readers_meet_standard_terms(path):
    """In prose: the names of files, flags and parameters are what they are."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text("utf-8"), flags=re.DOTALL)
    words = " ".join(prose.split())
    found = {term: re.findall(rf"(?<![\w-])(?:{term})(?![\w-])", words, re.IGNORECASE) for term in PRIVATE}
    assert not {hits[0]: PRIVATE[term] for term, hits in found.items() if hits}
