"""The report in a real browser: figures seen, references followed, no barrier, on screen, phone and paper."""

import io
import itertools
import re
import shutil

import matplotlib.image
import pytest

from embscale.report.render import choose, render
from report_texts import write_report

browsing = pytest.importorskip("browser.browsing", reason="playwright is not installed: pages were not opened")

LONG = "A sentence that fills the page. " * 120
WIDE = "| " + " | ".join(f"column {i}" for i in range(14)) + " |\n" + "|--:" * 14 + "|\n" + "| 41.20 " * 14 + "|\n"

BODY = f"""
## Beginning {{#sec-beginning}}

The ranking by a slope of words is old; a slope is a slope.

See @fig-slope, @tbl-scores, @eq-sum, @nte-care and @sec-detail. Zipf [@zipf1936] wrote first.[^why]

[^why]: Because he could.

::: {{#fig-slope}}

{{{{< include figures/slope.md >}}}}

A slope.
:::

::: {{#fig-rise}}

![](figures/rise.svg){{fig-alt="A line rises"}}

A drawing.
:::

{LONG}

### Detail {{#sec-detail}}

$$
s = \\sum_i x_i
$$ {{#eq-sum}}

::: {{#tbl-scores}}

{WIDE}

Scores.
:::

```python
{"x" * 200} = 1
```

## Boxes

::: {{#nte-care .callout-note collapse="true" title="Folded"}}
Inside.
:::

::: {{.callout-warning}}
Mind.
:::

::: {{.panel-tabset}}

### Left

On the left.

### Right

On the right.

:::

{LONG}

::: {{.ledger}}

- **holds**: 1
- **fails**: 2

::: {{#tbl-ledger}}

| claim                                    | population        | our models | effect [95 % interval] |
|:-----------------------------------------|:------------------|:-----------|-----------------------:|
| [**C1**]{{#claim-C1}} Wider is better.     | all models        | **fails**  |    −2.24 [−5.57, 1.01] |
| [**C2**]{{#claim-C2}} Longer is better.    | two large models  | **holds**  |      10.50 [9.1, 11.8] |
| [**C10**]{{#claim-C10}} Deeper is better.  | two large models  | **fails**  |       0.02 [-0.9, 0.9] |

Claims.
:::

:::

## End

{LONG}

## References {{.unnumbered}}

::: {{#refs}}
:::
"""

GLOSSARY = "- forms: [slope]\n  means: How steep a line is.\n"
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="300pt" height="150pt" viewBox="0 0 300 150">'
    '<rect width="300" height="150" fill="#fff"/><path d="M5 145 L295 5" stroke="#246" stroke-width="9"/>'
    '<text x="20" y="30">rising</text></svg>'
)


def pytest_generate_tests(metafunc):
    """A page by each renderer, but where a finished one was named."""
    if "small" in metafunc.fixturenames:
        missing = pytest.mark.skipif(not shutil.which("quarto"), reason="quarto is not installed: no page of its")
        others = [] if metafunc.config.getoption("--page") else [pytest.param("quarto", marks=missing)]
        metafunc.parametrize("small", ["pandoc", *others], indirect=True, scope="module")


@pytest.fixture(scope="module")
def small(request, tmp_path_factory):
    """A page with everything that a report may hold."""
    folder = tmp_path_factory.mktemp("report")
    file = folder / "page.html"
    files = {"glossary.yml": GLOSSARY, "figures/rise-phone.svg": DRAWING, "figures/rise.svg": DRAWING}
    front = "subtitle: With all\nauthor: Ada Example\nabstract: Short.\nbibliography: refs.bib"
    file.write_text(render(write_report(folder / "source", BODY, front, files), choose(request.param)), "utf-8")
    return file


@pytest.fixture
def file(request, small):
    """The report that was named on the command line, else the small one."""
    return request.config.getoption("--page") or small


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [browsing.DESK, browsing.PHONE], ids=["desk", "phone"])
def test_no_error_no_request_no_barrier(sheet, file, scheme, device):
    opened = sheet(color_scheme=scheme, **device)
    page = opened.open(file)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert browsing.problems(page) == []
    assert browsing.sticking_out(page) == []
    assert opened.console == [] and opened.foreign(file) == []


def test_every_figure_is_seen_and_has_words(sheet, file):
    page = sheet().open(file)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    figures = page.locator("figure.float-fig")
    assert figures.count()
    # How many of a picture's points are not its background, seen from a canvas.
    inked = """async image => { await image.decode(); const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
        const pen = canvas.getContext('2d'); pen.drawImage(image, 0, 0);
        const seen = pen.getImageData(0, 0, canvas.width, canvas.height).data; let inked = 0;
        for (let i = 0; i < seen.length; i += 4)
          if (seen[i + 3] > 0 && Math.min(seen[i], seen[i + 1], seen[i + 2]) < 235) inked++;
        return inked; }"""
    for figure in figures.all():
        for image in figure.locator("img").all():
            box = image.bounding_box()
            assert box["width"] > 50 and box["height"] > 50
            assert image.evaluate(inked) > 50
            assert image.get_attribute("alt").strip()
        # A figure without a picture says why.
        assert figure.locator("img").count() or figure.locator("p").first.inner_text().strip()
        assert re.match(r"Figure\s\d+: \S", figure.locator("figcaption").first.inner_text())


def test_every_inner_link_leads_somewhere(sheet, file):
    page = sheet().open(file)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    lost = page.evaluate(
        """[...document.querySelectorAll('a[href^="#"]')].map(link => link.getAttribute('href').slice(1))
           .filter(id => !document.getElementById(id)?.getClientRects().length)"""
    )
    assert lost == []
    words = page.locator("main").inner_text()
    assert "??" not in words and "{{<" not in words
    assert not page.locator("a.quarto-xref").filter(has_not_text=re.compile(r"\w")).count()


def test_a_reference_brings_its_figure_into_view(sheet, file):
    page = sheet().open(file)
    for link in page.locator("main p > a.quarto-xref[href^='#']").all()[:5]:
        link.click()
        target = page.locator(f"[id='{link.get_attribute('href')[1:]}']")
        page.wait_for_function(
            """id => { const {top} = document.getElementById(id).getBoundingClientRect();
                 return top >= -2 && top < innerHeight; }""",
            arg=target.get_attribute("id"),
        )


def test_a_reference_to_another_page_names_a_place_there(sheet, file):
    links = sheet().open(file).locator("a.quarto-xref:not([href^='#'])")
    for link in set(links.evaluate_all("links => links.map(link => link.getAttribute('href'))")):
        name, _, place = link.partition("#")
        assert (f'id="{place}"' if place else "<main") in (file.parent / name).read_text("utf-8"), link


def test_headings_descend(sheet, file):
    page = sheet().open(file)
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(h => +h.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_contents_show_where_the_reader_is(sheet, file):
    page = sheet().open(file)
    links = page.locator(".contents a")
    assert links.count()
    for link in (links.nth(1), links.last, links.first):
        target = link.get_attribute("href")[1:]
        page.evaluate("id => document.getElementById(id).scrollIntoView({block: 'start'})", target)
        page.wait_for_function(
            "id => document.querySelector('.contents [aria-current]')?.hash === '#' + id", arg=target
        )
    assert page.locator(".contents [aria-current]").count() == 1


def test_first_contents_are_visible_within_a_second(sheet, file):
    def painted():
        page = sheet().open(file)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")

    assert min(painted() for _ in range(3)) < 1000
    assert file.stat().st_size <= 8_000_000


def test_paper_is_light_and_complete(sheet, file):
    """What is folded on the screen is open on paper, and what only a screen can use is not there."""
    page = sheet(color_scheme="dark").open(file)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator(".contents").is_visible()
    for fold in page.locator("main details:not(.tabset details)").all():
        assert fold.locator("> :not(summary)").first.bounding_box()["height"] > 0
    assert page.pdf().startswith(b"%PDF")


def test_a_fold_opens_with_the_keyboard(sheet, file):
    page = sheet().open(file)
    fold = page.locator("main details").first
    fold.locator("summary").focus()
    assert not fold.evaluate("fold => fold.open")
    page.keyboard.press("Enter")
    assert fold.evaluate("fold => fold.open")


def claims(page):
    """The ids of the claims that are seen, from top to bottom."""
    return page.locator(".ledger tbody [id^=claim-]:visible").evaluate_all("all => all.map(e => e.id.slice(6))")


@pytest.mark.parametrize("device", [browsing.DESK, browsing.PHONE], ids=["desk", "phone"])
def test_claims_can_be_filtered_and_sorted(sheet, small, device):
    page = sheet(**device).open(small)
    ledger = page.locator(".ledger")
    assert claims(page) == ["C1", "C2", "C10"]
    fails = ledger.get_by_role("button", name="fails: 2")
    fails.click()
    assert claims(page) == ["C1", "C10"] and fails.get_attribute("aria-pressed") == "true"
    assert ledger.get_by_role("status").inner_text() == "2 of 3 claims shown"
    fails.click()
    ledger.get_by_label("Find a claim").fill("large")
    assert claims(page) == ["C2", "C10"]
    ledger.get_by_label("Find a claim").fill("")
    effect = ledger.get_by_role("columnheader", name="effect")
    for order, expected in (("ascending", ["C1", "C10", "C2"]), ("descending", ["C2", "C10", "C1"])):
        effect.get_by_role("button").click()
        assert claims(page) == expected and effect.get_attribute("aria-sort") == order
    ledger.get_by_role("columnheader", name="claim").get_by_role("button").click()
    assert claims(page) == ["C1", "C2", "C10"] and not effect.get_attribute("aria-sort")


def test_without_scripts_a_claim_is_a_card_on_a_phone(sheet, small):
    page = sheet(java_script_enabled=False, **browsing.PHONE).open(small)
    assert page.locator(".ledger button").count() == 0
    cards = page.locator(".ledger tbody tr").all()
    assert len(cards) == 3
    for card in cards:
        box = card.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= browsing.PHONE["viewport"]["width"]
        places = [cell.bounding_box() for cell in card.locator("th, td").all()]
        assert all(above["y"] + above["height"] <= below["y"] + 1 for above, below in itertools.pairwise(places))


@pytest.mark.parametrize("device", [browsing.DESK, browsing.PHONE], ids=["desk", "phone"])
def test_a_term_is_explained_to_pointer_tap_and_keyboard(sheet, small, device):
    page = sheet(**device).open(small)
    term = page.locator(".term")
    explanation = page.get_by_role("tooltip", include_hidden=True)
    assert term.count() == 1 and not explanation.is_visible()
    assert page.locator(f"[id='{term.get_attribute('aria-describedby')}']").text_content() == "How steep a line is."
    if device is browsing.PHONE:
        term.tap()
    else:
        term.hover()
        assert explanation.is_visible()
        page.mouse.move(0, 0)
        assert not explanation.is_visible()
        term.focus()
    assert explanation.is_visible() and explanation.bounding_box()["x"] >= 0
    assert browsing.sticking_out(page) == []
    page.keyboard.press("Escape")
    assert not explanation.is_visible()


@pytest.mark.parametrize("form", ["SVG", "PNG"])
def test_a_figure_can_be_saved(sheet, small, form):
    page = sheet(accept_downloads=True).open(small)
    button = page.get_by_role("button", name=re.compile(f"Save Figure.2 as {form}"))
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == f"rise.{form.lower()}"
    content = download.value.path().read_bytes()
    if form == "SVG":
        assert content.startswith(b"<svg") and b"M5 145 L295 5" in content
    else:
        image = matplotlib.image.imread(io.BytesIO(content), format="png")
        assert image.shape[:2] == (450, 900) and image[..., :3].min() < 0.6 < image[0, 0, :3].min()


def test_without_scripts_no_figure_offers_to_be_saved(sheet, small):
    assert not sheet(java_script_enabled=False).open(small).locator(".save").count()
