"""The page that pandoc makes: what is on it, what it loads, and what stops it."""

import itertools
import re
from html.parser import HTMLParser

import pytest

from embscale.errors import EmbscaleError
from embscale.report import offline
from embscale.report.render import Renderer, render, render_chapters
from report_texts import BODY_LINE, write_report

RENDERER = Renderer("pandoc for a test")

SLOPE = """
::: {#fig-slope}

{{< include figures/slope.md >}}

A slope, after @knuth1984.
:::
"""

EVERYTHING = f"""
## Beginning {{#sec-beginning}}

See @fig-slope, @tbl-scores, @eq-sum, [-@tbl-scores], [Fig. @fig-slope; @fig-pair-b], and @nte-care in @sec-detail.
Zipf [@zipf1936, p. 3] wrote first.[^why] Made by {{{{< meta renderer >}}}}.

[^why]: Because **he** could.
{SLOPE}
### Detail {{#sec-detail}}

$$
s = \\sum_i x_i
$$ {{#eq-sum}}

| model  | score |
|:-------|------:|
| narrow | {{{{< var best.score >}}}} |

: Scores of the models. {{#tbl-scores}}

::: {{#fig-pair layout-ncol=2}}

![Left](figures/slope.svg){{#fig-pair-a fig-alt="A line on the left"}}

![Right](figures/slope.svg){{#fig-pair-b fig-alt="A line on the right"}}

Two slopes.
:::

## Boxes

::: {{#nte-care .callout-note title="Take *care*"}}
Numbered.
:::

::: {{.callout-warning collapse="true"}}
## Folded
Inside.
:::

::: {{.panel-tabset}}

### Left

On the left.

### Right

On the right.

:::

## References {{.unnumbered}}

::: {{#refs}}
:::
"""


def page_of(folder, body, **kinds):
    return render(write_report(folder, body, **kinds), RENDERER)


def refusal(folder, body, **kinds):
    with pytest.raises(EmbscaleError) as error:
        page_of(folder, body, **kinds)
    return str(error.value).replace(f"{folder}/", "")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    front = (
        "subtitle: With _everything_\ndate: 2026-11-01\nauthor: Ada Example\n"
        "bibliography: refs.bib\nabstract: Short, see @fig-slope."
    )
    return page_of(tmp_path_factory.mktemp("report"), EVERYTHING, front=front)


class Elements(HTMLParser):
    """Every element with its attributes and the text directly in it."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


def text_of(html):
    return " ".join(re.sub(r"<[^>]+>", "", html).replace("\u00a0", " ").split())


def linked_words(page, target):
    return [
        text_of(words)
        for words in re.findall(rf'<a href="#{target}" class="quarto-xref"[^>]*>(.*?)</a>', page, re.DOTALL)
    ]


def test_references_show_the_number_of_what_they_point_at(everything):
    assert linked_words(everything, "fig-slope") == ["Figure 1", "Figure 1", "Fig. 1"]
    assert linked_words(everything, "tbl-scores") == ["Table 1", "1"]
    assert linked_words(everything, "eq-sum") == ["Equation 1"]
    assert linked_words(everything, "fig-pair-b") == ["Figure 2 (b)"]
    assert linked_words(everything, "nte-care") == ["Note 1"]
    assert linked_words(everything, "sec-detail") == ["Section 1.1"]


def test_every_inner_link_has_its_target_once(everything):
    elements = Elements(everything)
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in elements.named("a") if a.get("href", "").startswith("#")}
    assert {"fig-slope", "main", "ref-zipf1936"} <= targets <= set(ids)


def test_captions_are_numbered_and_cite(everything):
    captions = [text_of(c) for c in re.findall(r"<figcaption>(.*?)</figcaption>", everything, re.DOTALL)]
    assert captions == [
        "Figure 1: A slope, after Knuth (1984).",
        "Table 1: Scores of the models.",
        "(a) Left",
        "(b) Right",
        "Figure 2: Two slopes.",
    ]


def test_images_carry_their_words_and_their_bytes(everything):
    images = Elements(everything).named("img")
    assert [image["alt"] for image in images] == ["A line that rises", "A line on the left", "A line on the right"]
    assert all(image["src"].startswith("data:image/svg+xml") for image in images)


def test_headings_descend_and_landmarks_are_there(everything):
    elements = Elements(everything)
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for landmark in ("header", "nav", "main", "footer"):
        assert len(elements.named(landmark)) == 1, landmark
    assert elements.named("html") == [{"lang": "en"}]


def test_tables_scroll_in_a_named_box_and_numbers_stand_right(everything):
    box = next(attrs for attrs in Elements(everything).named("div") if attrs.get("class") == "table-box")
    assert (box["role"], box["tabindex"], box["aria-label"]) == ("region", "0", "Table\u00a01")
    assert '<td style="text-align: right;">41.20</td>' in everything


def test_callouts_name_their_kind_in_words(everything):
    titles = [text_of(t) for t in re.findall(r'class="callout-title">(.*?)</(?:div|summary)>', everything, re.DOTALL)]
    assert titles == ["Note 1 Take care", "Warning Folded"]
    assert '<details><summary class="callout-title">' in everything


def test_tabs_are_one_group_with_the_first_open(everything):
    tabs = [attrs for attrs in Elements(everything).named("details") if "name" in attrs]
    assert [attrs["name"] for attrs in tabs] == ["tabset-1", "tabset-1"]
    assert ["open" in attrs for attrs in tabs] == [True, False]


def test_formulas_are_mathml(everything):
    assert '<math display="block"' in everything
    assert re.search(r'<span id="eq-sum" class="equation">', everything)


def test_page_names_its_renderer_and_date(everything):
    assert everything.count("pandoc for a test") == 3  # in the head, in the text, in the last line
    assert "November 1, 2026" in everything


def test_page_loads_nothing(everything):
    assert offline.loads(everything) == []
    elements = Elements(everything)
    # One marks the contents, the other saves drawings; neither has a source.
    assert elements.named("script") == [{}, {}] and not elements.named("link")
    assert not re.search(r"@import|url\(", everything)


@pytest.mark.parametrize(
    "html",
    [
        '<img src="https://example.org/a.png">',
        '<img srcset="a.png 2x">',
        '<script src="//example.org/a.js"></script>',
        '<link rel="stylesheet" href="site/a.css">',
        "<style>@import 'https://example.org/a.css';</style>",
        "<style>p { background: url( 'https://example.org/a.png' ) }</style>",
        '<p style="background: url(a.png)">',
        '<svg><image xlink:href="a.png"/></svg>',
    ],
)
def test_what_a_browser_would_fetch_is_found(html):
    assert len(offline.loads(f"<html>{html}<p>text</p></html>")) == 1


def test_addresses_that_wait_for_a_click_or_are_embedded_are_fine():
    assert not offline.loads(
        '<a href="https://example.org">x</a><img src="data:image/png;base64,AA">'
        '<style>p { background: url("data:image/svg+xml,x") } @import url(data:text/css,x);</style>'
        "<script>fetch_is_not_seen = 'src=https://example.org'</script>"
    )


def test_two_renderings_give_the_same_bytes(tmp_path):
    first = page_of(tmp_path / "a", EVERYTHING)
    second = page_of(tmp_path / "b", EVERYTHING)
    assert first == second


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("See @fig-none.", 0, "@fig-none: no such label"),
        ("See @tbl-none.", 0, "@tbl-none: no such label"),
        ("See @sec-none.", 0, "@sec-none: no such label"),
        ("As [@nobody2000] wrote.", 0, "no entry 'nobody2000' in the bibliography"),
        ("Both [@zipf1936; @sec-a].\n\n## A {#sec-a}", 0, "mixes citations and cross-references"),
        ('![](figures/none.svg){fig-alt="none"}', 0, "no such file: figures/none.svg"),
        ("![A caption](figures/slope.svg)", 0, "without words for those who cannot see it; add {fig-alt"),
        ('![](figures/slope.svg){fig-alt=" "}', 0, "without words"),
        ('![](https://example.org/a.png){fig-alt="a"}', 0, "must be a file below the folder"),
        ('![](../a.png){fig-alt="a"}', 0, "must be a file below the folder"),
        ('![](figures/slope.svg){fig-alt="a" fig-align="left"}', 0, "attribute fig-align on a Image"),
        ("## A {#sec-a}\n\n## B {#sec-a}", 2, "label #sec-a is used twice"),
        (SLOPE + SLOPE, SLOPE.count("\n"), "label #fig-slope is used twice"),
        ('::: {#fig-a}\n\n![](figures/slope.svg){fig-alt="a"}\n\n:::', 0, "(#fig-a) has no caption"),
        ("::: {#fig-a}\nOnly words.\n:::", 0, "#fig-a is empty"),
        ("::: {.column-margin}\ntext\n:::", 0, "class .column-margin on a Div"),
        ("::: {#thm-a}\ntext\n:::", 0, "Quarto takes thm- for a theorem"),
        ("::: {.callout-note appearance=simple}\ntext\n:::", 0, "attribute appearance on a Div"),
        ('::: {.callout-note collapse="yes"}\ntext\n:::', 0, "collapse must be true or false"),
        ("::: {.panel-tabset}\ntext\n:::", 0, "begins with the heading of its first tab"),
        ("# Top", 0, "sections begin with ##"),
        ("## A\n\n#### B", 2, "skips a level; use ###"),
        ("Sum $\\nosuch{x}$.", 0, "formula cannot become MathML: \\nosuch{x}"),
        ("text\n\n$x$ {#eq-x}", 2, "belongs right behind the closing $$"),
        ("text {#fig-x}", 0, "{#fig-x} belongs to nothing"),
        ("Items:\n- one\n- two", 1, "a list needs an empty line above it"),
        ("Noted.[^1]", 0, "footnote [^1] has no text"),
        ("text\n\n[^1]: Never used.", 2, "not used"),
        ("See https://example.org now.", 0, "bare address https://example.org; write <https://example.org>"),
        ("See [there](#nowhere).", 0, "link to #nowhere: no such label"),
        ("See [there](data.csv).", 0, "link to data.csv breaks when the page is moved"),
        ("Value `{python} x`.", 0, "inline code that runs"),
        ('A <script src="a.js"></script>.', 0, "raw HTML that runs or loads something"),
        ("```{=latex}\n\\newpage\n```", 1, "raw latex is lost"),
    ],
)
def test_broken_or_foreign_constructs_stop_the_page(tmp_path, body, line, words):
    message = refusal(tmp_path, body)
    assert f"index.qmd:{BODY_LINE + line}: " in message
    assert words in message


def test_problems_in_an_included_file_are_found_there_and_reported_together(tmp_path):
    files = {"parts/a.md": "text\n\nSee @fig-lost.\n"}
    message = refusal(tmp_path, "{{< include parts/a.md >}}\n\nAnd [@lost2000].", files=files)
    assert "2 problems, no page made" in message
    assert "\n  parts/a.md:3: @fig-lost" in message
    assert f"\n  index.qmd:{BODY_LINE + 2}: no entry 'lost2000'" in message


def test_a_bibliography_that_is_missing_is_named(tmp_path):
    assert refusal(tmp_path, "Text.", front="bibliography: lost.bib").startswith("index.qmd:3: bibliography lost.bib")


DRAWN = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><text x="5" y="9">{}</text></svg>
"""


@pytest.mark.parametrize("name", ["chapters", "page"])
def test_a_drawing_with_one_for_phones_stands_in_the_page_with_its_words(tmp_path, name):
    drawn = {f"figures/line{end}.svg": DRAWN.format(f"words{end}") for end in ("", "-phone")}
    files = drawn | {"figures/line.md": '![](figures/line.svg){fig-alt="A \\"line\\" of 1 < 2"}\n'}
    body = "\n## One {#sec-one}\n" + SLOPE.replace("slope.md", "line.md").replace("@knuth1984", "all")
    source = write_report(tmp_path, body, files=files)
    page = render(source, RENDERER) if name == "page" else render_chapters(source, links=[])["sec-one.html"].decode()
    assert page.count("<svg") == 2 and "<img" not in page and "<?xml" not in page
    assert "<text" in page and ">words<" in page and ">words-phone<" in page
    assert 'role="img" aria-label="A &quot;line&quot; of 1 &lt; 2"' in page
    assert offline.loads(page) == [] and "A slope, after all." in text_of(page)
