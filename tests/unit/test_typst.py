"""The report on paper: a PDF with the text, its figures and tables, and without what only a page can use."""

import re

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


def test_a_paper_is_set_twice_alike_and_leaves_nothing_behind(tmp_path):
    made = [paper.to_pdf(document(tmp_path)) for _ in range(2)]
    assert made[0].startswith(b"%PDF") and made[0] == made[1]
    assert not list(tmp_path.glob(".paper-*"))


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


def test_the_command_writes_the_paper_and_its_note(tmp_path):
    source = write_report(tmp_path / "text", "\n## One\n\nWords.\n")
    assert execute("paper", [str(source), "-o", str(tmp_path / "report.pdf")]) == 0
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF") and (tmp_path / "report.pdf.note.json").is_file()
