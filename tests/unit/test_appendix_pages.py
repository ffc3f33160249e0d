"""The main page: what has a page of its own is not on it, and links lead there."""

import re

import pytest

from embscale.report.render import Renderer, render, render_chapters
from report_texts import write_report

RENDERER = Renderer("pandoc for a test")

BODY = """
See @fig-slope, @sec-far and @fig-far, [@knuth1984].

::: {#fig-slope}

{{< include figures/slope.md >}}

A slope.
:::

## Near {#sec-near}

### Below {#sec-below}

Words that stay, with @sec-deep.

## Far {#sec-far .own-page}

As in @fig-slope and @sec-near. Words that go [@zipf1936].

### Deep {#sec-deep}

::: {#fig-far}

{{< include figures/slope.md >}}

Far.
:::

## Farther {#sec-farther .own-page}

## Last {#sec-last}

## References {.unnumbered}

::: {#refs}
:::
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report"), BODY)


@pytest.fixture(scope="module")
def whole(source):
    return render(source, RENDERER)


@pytest.fixture(scope="module")
def main(source):
    return render(source, RENDERER, "chapters")


def links(page):
    return re.findall(r'<a\b[^>]*?\shref="([^"]+)"', page)


def test_a_section_with_its_own_page_leaves_the_main_page_and_nothing_else_does(whole, main):
    assert "Words that go" in whole and "Words that go" not in main
    gone = {"sec-far", "sec-deep", "fig-far", "sec-farther"}
    ids = [set(re.findall(r'\sid="([^"]+)"', page)) for page in (whole, main)]
    assert {label for label in ids[0] - ids[1] if not label.startswith("toc-")} >= gone
    assert {"sec-near", "sec-below", "fig-slope", "sec-last", "refs", "ref-zipf1936", "ref-knuth1984"} <= ids[1]
    assert main.count("<section") == main.count("</section>") == whole.count("<section") - 3


def test_the_contents_list_only_what_is_on_the_main_page(main):
    contents = re.search(r'<nav class="contents".*?</nav>', main, re.DOTALL)[0]
    assert re.findall(r'href="#([\w-]+)"', contents) == ["sec-near", "sec-below", "sec-last", "references"]
    assert contents.count("<li") == contents.count("</li>") == 4


def test_a_link_into_the_appendix_leads_to_a_page_that_has_its_target(source, main):
    pages = {name: content.decode("utf-8") for name, content in render_chapters(source).items() if "html" in name}
    outside = [link for link in links(main) if link.startswith("chapters/")]
    assert {
        "chapters/sec-far.html", "chapters/sec-far.html#sec-deep", "chapters/sec-far.html#fig-far"
    } == set(outside)  # fmt: skip
    for link in outside:
        file, _, label = link.removeprefix("chapters/").partition("#")
        assert not label or f'id="{label}"' in pages[file]
    inner = [link[1:] for link in links(main) if link.startswith("#")]
    assert inner and all(f'id="{label}"' in main for label in inner)


def test_numbers_are_those_of_the_whole_document(whole, main):
    words = [re.findall(r'class="quarto-xref"[^>]*>(.*?)</a>', page) for page in (whole, main)]
    assert set(words[1]) <= set(words[0])
    assert "Figure\u00a02" in " ".join(words[1]) and "Section\u00a02" in " ".join(words[1])
