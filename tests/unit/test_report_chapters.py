"""The report as pages by chapter: the same text, numbers and references as on one page."""

import json
import re
from html.parser import HTMLParser

import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.report.pandoc import DESIGN
from embscale.report.render import Renderer, render, render_chapters
from report_texts import write_report

BODY = """
## Beginning {#sec-beginning}

See @fig-slope, @tbl-scores, @eq-sum, @nte-care and @sec-detail. Zipf [@zipf1936] wrote first.[^why]

[^why]: Because he could.

## Middle {#sec-middle}

::: {#fig-slope}

{{< include figures/slope.md >}}

A slope.
:::

$$
s = \\sum_i x_i
$$ {#eq-sum}

### Detail {#sec-detail}

| model  | score |
|:-------|------:|
| narrow | 1.0   |

: Scores, as in @sec-beginning. {#tbl-scores}

## Boxes & *more*

::: {#nte-care .callout-note title="Take care"}
As in @fig-slope.
:::

## References {.unnumbered}

::: {#refs}
:::
"""
FRONT = "bibliography: refs.bib\nabstract: Short."


class Anchors(HTMLParser):
    """The labels of a page and where its links lead."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report"), BODY, FRONT)


@pytest.fixture(scope="module")
def pages(source):
    links = [{"title": "Explorer", "url": "../explorer.html"}]
    return render_chapters(source, commit="abc1234", links=links)


def test_there_is_a_page_for_each_chapter_and_one_in_front(pages):
    names = {"index.html", "sec-beginning.html", "sec-middle.html", "boxes-more.html", "references.html"}
    assert {name for name in pages if name.endswith(".html")} == names
    assert pages["figures/slope.svg"].startswith(b"<svg")
    for name in names - {"index.html"}:
        assert len(re.findall("<h1", pages[name].decode())) == 1


def test_every_link_between_pages_leads_to_a_label(pages):
    anchors = {name: Anchors(page.decode()) for name, page in pages.items() if name.endswith(".html")}
    for name, page in anchors.items():
        for link in page.links:
            if link == "../explorer.html":
                continue
            file, _, label = link.partition("#")
            assert (file or name) in anchors, (name, link)
            assert not label or label in anchors[file or name].ids, (name, link)
    assert "sec-middle.html#fig-slope" in anchors["sec-beginning.html"].links
    assert "sec-middle.html#tbl-scores" in anchors["sec-beginning.html"].links
    assert "references.html#ref-zipf1936" in anchors["sec-beginning.html"].links
    assert "sec-middle.html#fig-slope" in anchors["boxes-more.html"].links
    assert "../explorer.html" in anchors["index.html"].links


def words(page, target):
    """What the reference to a label says."""
    found = re.findall(rf'<a href="[^"]*#{target}" class="quarto-xref"[^>]*>(.*?)</a>', page, re.DOTALL)
    return [text.replace("\u00a0", " ") for text in found]


def test_numbers_and_captions_are_those_of_the_one_page(pages, source):
    together = render(source, Renderer("pandoc"))
    apart = "".join(page.decode() for name, page in sorted(pages.items()) if name.endswith(".html"))
    for target in ("fig-slope", "tbl-scores", "eq-sum", "nte-care", "sec-detail", "sec-beginning"):
        assert sorted(words(together, target)) == sorted(words(apart, target)) != []
    captions = [sorted(re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)) for text in (together, apart)]
    unlinked = [[re.sub(r'href="[^"]*"', "", caption) for caption in found] for found in captions]
    assert unlinked[0] == unlinked[1] and len(unlinked[0]) == 2


def test_each_page_leads_to_its_neighbours_and_to_all_chapters(pages):
    page = pages["sec-middle.html"].decode()
    assert re.search(r'href="sec-beginning.html[^"]*" rel="prev"', page)
    assert re.search(r'href="boxes-more.html[^"]*" rel="next"', page)
    chapters = re.search(r'<nav class="contents".*?</nav>', page, re.DOTALL)[0]
    assert re.findall(r'href="([^"]+)"', chapters) == [
        *("sec-beginning.html", "sec-middle.html", "boxes-more.html", "references.html"),
    ]
    assert "Boxes &amp; <em>more</em>" in chapters
    assert "abc1234" in page


def test_a_broken_reference_stops_the_pages_too(tmp_path):
    with pytest.raises(EmbscaleError, match="@fig-none: no such label"):
        render_chapters(write_report(tmp_path, "## A\n\nSee @fig-none."))


def test_command_writes_pages_and_one_note(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--commit", "abc1234", "--link", "Explorer=../explorer.html", "--input", str(source.parent / "refs.bib")]
    assert execute("chapters", [str(source), *flags, "-o", "site"]) == 0
    note = json.loads((tmp_path / "site/index.html.note.json").read_text("utf-8"))
    made = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert set(note["outputs"]) == made - {"site/index.html.note.json"}
    inputs = {name.rpartition("/")[2] for name in note["inputs"]}
    assert {"index.qmd", "style.css", "chapter.html"} <= inputs and len(inputs - {file.name for file in DESIGN}) == 2
    assert note["params"]["commit"] == "abc1234"


def test_a_link_without_an_address_is_reported(source, tmp_path, capsys):
    assert execute("chapters", [str(source), "--link", "Explorer", "-o", str(tmp_path / "site")]) == 1
    assert "--link Explorer: expected TITLE=URL" in capsys.readouterr().err


def test_two_runs_give_the_same_bytes(source, pages):
    links = [{"title": "Explorer", "url": "../explorer.html"}]
    assert render_chapters(source, commit="abc1234", links=links) == pages
