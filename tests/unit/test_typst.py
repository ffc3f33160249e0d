"""The report on paper: a PDF or a text with the words, figures and tables, and without what only a page can use."""

import re
import zipfile
from xml.etree import ElementTree

import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.report import paper, qmd
from report_texts import write_report

pytest.importorskip("typst", reason="typst is not installed: no paper was set")

BODY = """
## One {#sec-one}

See @fig-slope, @tbl-scores, @eq-sum and @sec-two, after @zipf1936, and [the rows]({{< meta data >}}/rows.csv).

::: {#fig-slope}

{{< include figures/slope.md >}}

<details class="source">
<summary>Source of this figure</summary>

- Folded words.

</details>

A slope.
:::

$$
s = \\sum_i x_i
$$ {#eq-sum}

::: {.ledger}

::: {#tbl-scores}

| model | score |
|:------|------:|
| narrow `<details><summary>Test</summary>`{=html}Tested thus.`</details>`{=html} | {{< var best.score >}} |

Scores.
:::

:::

## Two {#sec-two .own-page}

::: {.callout-note collapse="true" title="Folded away"}
Nothing refers to this.
:::

::: {.callout-note title="Seen"}
Seen words.
:::

## References {.unnumbered}

::: {#refs}
:::
"""


def document(folder, body=BODY, **kinds):
    return qmd.read(write_report(folder, body, **kinds), {"renderer": "pandoc", "data": "data", "links": []})


@pytest.mark.parametrize(("form", "start"), [(".pdf", b"%PDF"), (".odt", b"PK")])
def test_a_paper_is_set_twice_alike_and_leaves_nothing_behind(tmp_path, form, start):
    made = [paper.FORMS[form](document(tmp_path)) for _ in range(2)]
    assert made[0].startswith(start) and made[0] == made[1]
    assert not list(tmp_path.glob(".paper-*"))


def test_a_text_for_a_word_processor_has_the_words_drawings_numbers_and_targets_of_references(tmp_path):
    (tmp_path / "report.odt").write_bytes(paper.to_odt(document(tmp_path)))
    with zipfile.ZipFile(tmp_path / "report.odt") as archive:
        assert sum(name.endswith(".svg") for name in archive.namelist()) == 1
        content = ElementTree.fromstring(archive.read("content.xml"))
    words = "".join(content.itertext())
    assert "Folded words" not in words and "Tested thus" not in words and "Nothing refers" not in words
    for there in ("1 One", "Seen words", "41.20", "Figure\u00a01: A slope.", "Table\u00a01: Scores."):
        assert there in words, there
    text, link = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}", "{http://www.w3.org/1999/xlink}"
    bookmarks = [*content.iter(f"{text}bookmark"), *content.iter(f"{text}bookmark-start")]
    names = {element.get(f"{text}name") for element in bookmarks}
    targets = {element.get(f"{link}href") for element in content.iter(f"{text}a")}
    inner = {target[1:] for target in targets if target.startswith("#")}
    assert {"fig-slope", "tbl-scores", "eq-sum", "sec-two"} <= inner <= names
    assert not any("rows.csv" in target for target in targets), "it leads out, so it stands in a note"


def test_another_form_is_refused(tmp_path, capsys):
    source = write_report(tmp_path / "text", "\n## One\n\nWords.\n")
    assert execute("paper", [str(source), "-o", str(tmp_path / "report.docx")]) == 1
    assert "expected a name that ends in .pdf or .odt" in capsys.readouterr().err


def test_what_only_a_page_can_use_is_left_out_and_outer_links_are_footnotes(tmp_path):
    from embscale.report import design, pandoc

    flags = [f"--template={design.PAPER}", f"--lua-filter={design.PAPER_FILTER}"]
    pandoc.convert(document(tmp_path), "typst", flags, tmp_path / "paper.typ")
    text = (tmp_path / "paper.typ").read_text("utf-8").partition("Slopes")[2]
    assert "Folded words" not in text and "Tested thus" not in text and "Nothing refers" not in text
    assert "Seen words" in text and "41.20" in text and "A slope." in text
    assert "#footnote[`data/rows.csv`]" in text
    for label in ("fig-slope", "tbl-scores", "eq-sum", "sec-two"):
        assert f"#link(<{label}>)" in text and re.search(rf"[^(]<{label}>", text), label


def test_a_broken_text_is_refused_as_for_the_page(tmp_path):
    with pytest.raises(EmbscaleError, match="no such label"):
        paper.to_pdf(document(tmp_path, "\nSee @fig-none.\n"))


@pytest.mark.parametrize(("name", "start"), [("report.pdf", b"%PDF"), ("report.odt", b"PK")])
def test_the_command_writes_the_paper_and_its_note(tmp_path, name, start):
    source = write_report(tmp_path / "text", "\n## One\n\nWords.\n")
    assert execute("paper", [str(source), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(start) and (tmp_path / f"{name}.note.json").is_file()
