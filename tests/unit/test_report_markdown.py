"""Words from data on the page: whatever they are, they are shown and do nothing."""

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embscale.cli.draw import markdown as image_markdown
from embscale.errors import EmbscaleError
from embscale.report.render import Renderer, render
from embscale.rows.markdown import escape, source_fold
from explorer_rows import HOSTILE
from report_texts import BODY_LINE, write_report

RENDERER = Renderer("pandoc")
NASTY = [
    HOSTILE,
    "**bold** _it_ ~~no~~ `code` $x^2$ [link](https://example.org) ![i](a.png)",
    "a | b || c",
    "<!-- comment --> &amp; &copy; <b>",
    "{{< include /etc/passwd >}} {{< var x >}}",
    "@fig-slope @knuth1984 [^1] #tag {#id .class}",
    "https://example.org/a-b_c -- --- ... 'quoted' \"words\"",
    "::: {.callout-note}",
    "- item",
    "1. item",
    "# heading",
    "name\nwith\r\nlines",
    "\\ backslash \\* \\",
    "gpt-neox-20b, 1.4b/step143000",
]


def shown(page, tag):
    """The text of the first element of a kind."""
    inside = re.search(rf"<{tag}[^>]*>(.*?)</{tag}>", page.split('<main id="main">')[1], re.DOTALL)[1]
    return html.unescape(re.sub(r"<[^>]+>", "", inside)).strip()


@pytest.mark.parametrize("words", NASTY)
def test_escaped_words_are_shown_as_they_are(tmp_path, words):
    page = render(write_report(tmp_path, f"{escape(words)}\n\nText."), RENDERER)
    assert shown(page, "p") == " ".join(words.split())
    assert "hacked = 1</script>" not in page and "<img" not in page


@pytest.mark.parametrize("words", NASTY)
def test_escaped_words_stay_in_their_table_cell(tmp_path, words):
    table = f"| model | score |\n| :-- | --: |\n| {escape(words)} | 1.0 |\n"
    page = render(write_report(tmp_path, table), RENDERER)
    assert shown(page, "td") == " ".join(words.split())
    assert len(re.findall("<td", page)) == 2


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), min_size=20, max_size=20))
def test_any_ascii_words_survive(tmp_path_factory, texts):
    texts = [" ".join(text.split()) or "x" for text in texts]
    body = "\n\n".join(f"x{escape(text)}x" for text in texts)
    page = render(write_report(tmp_path_factory.mktemp("report"), body), RENDERER)
    inside = page.split('<main id="main">')[1].split("</main>")[0]
    paragraphs = [html.unescape(re.sub(r"<[^>]+>", "", p)) for p in re.findall(r"<p>(.*?)</p>", inside, re.DOTALL)]
    assert paragraphs == [f"x{text}x" for text in texts]


def test_ordinary_names_stay_readable():
    assert escape("ladder-w16") == "ladder-w16"
    assert escape("results/desk/scores.csv") == "results/desk/scores.csv"


FOLD = {
    "of": "this figure",
    "rule": "draw",
    "command": "draw slope",
    "module": "embscale.figures.slope",
    "digests": {"results/a.csv": "0123456789abcdef" * 4},
    "where": [f"model={HOSTILE}", "metric=ndcg_at_10"],
    "data": "slope.csv",
}


def float_with_fold(tmp_path, **extra):
    files = {"figures/slope.md": image_markdown("figures/slope.svg", f"A line of {HOSTILE}") + source_fold(**FOLD)}
    body = "::: {#fig-slope}\n\n{{< include figures/slope.md >}}\n\nA slope.\n:::\n\nSee @fig-slope."
    return render(write_report(tmp_path, body, files=files), RENDERER, commit="abc1234", data="data", **extra)


def test_a_figure_tells_its_source_in_a_fold(tmp_path):
    page = float_with_fold(tmp_path)
    fold = re.search(r'<details class="source">(.*?)</details>', page, re.DOTALL)[1]
    text = html.unescape(re.sub(r"<[^>]+>", "", fold))
    for words in ("rule draw", "embscale draw slope", "embscale.figures.slope", "commit abc1234", "results/a.csv"):
        assert words in text
    assert "SHA-256 0123456789ab)" in text and f"model={HOSTILE} and metric=ndcg_at_10" in text
    assert '<a href="data/slope.csv">The rows behind it</a>' in fold
    caption = re.search(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL)[1]
    assert html.unescape(re.sub(r"<[^>]+>", "", caption)).strip() == "Figure\u00a01: A slope."
    assert page.index("<figure") < page.index('<details class="source">') < page.index("</figure>")


def test_the_words_of_a_figure_may_hold_anything(tmp_path):
    page = float_with_fold(tmp_path)
    alt = re.search(r'alt="([^"]*)"', page)[1]
    assert html.unescape(alt) == f"A line of {HOSTILE}"
    assert "<script>alert" not in page and page.count("<script") == 1  # the one that saves drawings


def test_a_link_elsewhere_than_to_the_rows_is_refused(tmp_path):
    with pytest.raises(EmbscaleError, match=rf"index.qmd:{BODY_LINE}: link to other/a.csv breaks"):
        render(write_report(tmp_path, "See [there](other/a.csv)."), RENDERER, data="data")


def test_a_missing_figure_is_named(tmp_path):
    with pytest.raises(EmbscaleError, match=r"include figures/lost.md: no such file in .*; make it first"):
        render(write_report(tmp_path, "{{< include figures/lost.md >}}"), RENDERER)
