"""The bibliography: every entry is cited, no work has two, and each can be found."""

import json
import re
from pathlib import Path

import pypandoc
import pytest

REPORT = Path(__file__).resolve().parents[2] / "report"

# What its authors put nowhere with a year or an address that can be relied on.
UNPUBLISHED = {"johnthequant", "chatgptfromscratch"}


@pytest.fixture(scope="module")
def entries():
    """As pandoc reads them, by key."""
    read = pypandoc.convert_file(REPORT / "references.bib", "csljson", format="biblatex")
    return {entry["id"]: entry for entry in json.loads(read)}


def test_every_entry_is_cited_and_every_citation_has_an_entry(entries):
    texts = [path.read_text("utf-8") for path in (REPORT / "index.qmd", *sorted((REPORT / "chapters").glob("*.qmd")))]
    cited = set(re.findall(r"(?<![\w.])@([a-z]\w+)\b(?!\{)", "\n".join(texts)))
    assert cited - {"fig", "tbl", "eq", "sec", "nte"} == set(entries)


def test_no_work_has_two_entries(entries):
    titles = [re.sub(r"\W", "", re.sub("<[^>]*>", "", entry["title"])).lower() for entry in entries.values()]
    assert sorted(titles) == sorted(set(titles))


def test_every_entry_tells_who_when_and_where(entries):
    for key, entry in entries.items():
        assert entry.get("author"), key
        assert key in UNPUBLISHED or (entry.get("issued") and (entry.get("URL") or entry.get("container-title"))), key
