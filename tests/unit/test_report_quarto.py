"""The way through Quarto: when it is taken, how Quarto is called, and how its log is read.

The real Quarto is not available to these tests (no Python package holds its binary).  A small
recording executable named ``quarto`` stands in for it, so they hold our side of the exchange only:
the command line, the copy that it works on, and the warnings as Quarto's sources write them.
"""

import html
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.report import quarto
from embscale.report.render import choose, render
from report_texts import write_report

FAKE = """\
#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print("1.10.18")
    sys.exit()
files = sorted(p.relative_to(".").as_posix() for p in pathlib.Path(".").rglob("*") if p.is_file())
record = {{"argv": sys.argv[1:], "folder": str(pathlib.Path.cwd()), "files": files}}
(here / "record.json").write_text(json.dumps(record))
print({log!r}, file=sys.stderr)
name = sys.argv[sys.argv.index("--output") + 1]
pathlib.Path("_site").mkdir(exist_ok=True)
pathlib.Path("_site", name).write_text({page!r})
sys.exit({status})
"""


@pytest.fixture
def fake_quarto(tmp_path, monkeypatch):
    """Put a ``quarto`` on PATH that notes how it is called; its log, page and status can be chosen."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(log="Output created: page", page="<html>by Quarto</html>", status=0):
        file = folder / "quarto"
        file.write_text(FAKE.format(python=sys.executable, log=log, page=page, status=status), "utf-8")
        file.chmod(0o755)
        return folder / "record.json"

    return install


def test_without_quarto_the_page_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    renderer = choose("auto")
    assert renderer.quarto is None
    assert renderer.label.startswith("pandoc 3.") and renderer.label.endswith(" (no Quarto on this machine)")
    with pytest.raises(EmbscaleError, match="not on PATH; install it"):
        choose("quarto")


def test_quarto_is_taken_where_it_is_installed_unless_told_otherwise(fake_quarto):
    fake_quarto()
    assert choose("auto").label == choose("quarto").label == "Quarto 1.10.18"
    assert choose("pandoc").quarto is None
    assert "no Quarto" not in choose("pandoc").label


def test_quarto_renders_a_copy_of_the_folder(fake_quarto, tmp_path):
    record = fake_quarto()
    source = write_report(tmp_path / "report", "Text by {{< meta renderer >}}.")
    before = sorted(source.parent.rglob("*"))
    assert render(source, choose("auto")) == "<html>by Quarto</html>"
    call = json.loads(record.read_text("utf-8"))
    assert call["argv"] == [
        *("render", "index.qmd", "--to", "html", "--output", quarto.PAGE),
        *("--metadata", "renderer:Quarto 1.10.18"),
    ]
    assert Path(call["folder"]) != source.parent
    assert {"index.qmd", "_quarto.yml", "_variables.yml", "figures/slope.svg"} <= set(call["files"])
    assert sorted(source.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "warning",
    [
        "WARNING (/opt/quarto/share/filters/main.lua:22004) Unable to resolve crossref @fig-none",
        "\x1b[33m[WARNING] Citeproc: citation nobody2000 not found\x1b[39m",
        "[WARNING] Could not fetch resource none.png",
        "[WARNING] Div at line 12 column 1 unclosed at line 20 column 1, closing implicitly.",
        "[WARNING] Duplicate identifier 'sec-a' at line 9 column 1",
        "\x1b[33mWARN: The following string was found in the document: :::\x1b[39m",
        "(W) something else",
        "ERROR: something worse",
    ],
)
def test_a_warning_in_quartos_log_is_an_error(fake_quarto, tmp_path, warning):
    fake_quarto(log=f"pandoc\n  to: html\n{warning}\nOutput created: page")
    with pytest.raises(EmbscaleError, match="Quarto warns: ") as error:
        render(write_report(tmp_path / "report", "Text."), choose("quarto"))
    assert "Output created" not in str(error.value) and "\x1b" not in str(error.value)


def test_ordinary_log_lines_are_not_complaints(fake_quarto, tmp_path):
    fake_quarto(log="metadata\n  title: Errors and warnings\n  subtitle: no WARNING here\nOutput created: page")
    assert render(write_report(tmp_path / "report", "Text."), choose("quarto"))


def test_a_failing_quarto_is_reported(fake_quarto, tmp_path):
    fake_quarto(log="YAML is wrong", status=1)
    with pytest.raises(EmbscaleError, match="exit status 1: YAML is wrong"):
        render(write_report(tmp_path / "report", "Text."), choose("quarto"))


def test_sources_are_checked_before_quarto_sees_them(fake_quarto, tmp_path):
    record = fake_quarto()
    source = write_report(tmp_path / "report", "![A caption](figures/slope.svg)")
    with pytest.raises(EmbscaleError, match="fig-alt"):
        render(source, choose("quarto"))
    assert not record.exists()


def test_a_page_that_loads_something_is_refused(fake_quarto, tmp_path):
    fake_quarto(page='<html><script src="index_files/a.js"></script></html>')
    with pytest.raises(EmbscaleError, match=r"would load index_files/a\.js"):
        render(write_report(tmp_path / "report", "Text."), choose("quarto"))


def test_command_writes_page_and_note(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_report(Path("report"), "Text.")
    arguments = ["report/index.qmd", "-o", "site/page.html", "--renderer", "pandoc", "--input", "report/refs.bib"]
    assert execute("render", arguments) == 0
    note = json.loads(Path("site/page.html.note.json").read_text("utf-8"))
    assert set(note["inputs"]) == {"report/index.qmd", "report/refs.bib"}
    assert note["params"]["renderer"] == choose("pandoc").label
    assert {"style.css", "template.html"} <= set(note["params"]["design"])
    assert "<p>Text.</p>" in Path("site/page.html").read_text("utf-8")


def test_a_refused_source_leaves_no_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_report(Path("report"), "See @fig-none.")
    assert execute("render", ["report/index.qmd", "-o", "page.html", "--renderer", "pandoc"]) == 1
    assert capsys.readouterr().err.startswith("embscale render: report/index.qmd:6: @fig-none: no such label")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report"]


BOTH = """
## Beginning {#sec-beginning}

See @fig-slope, @tbl-scores, @eq-sum, @nte-care and @sec-detail. Zipf [@zipf1936] wrote first.

::: {#fig-slope}

{{< include figures/slope.md >}}

A slope, after @knuth1984.
:::

### Detail {#sec-detail}

$$
s = \\sum_i x_i
$$ {#eq-sum}

| model  | score |
|:-------|------:|
| narrow | {{< var best.score >}} |

: Scores of the models. {#tbl-scores}

::: {#nte-care .callout-note title="Take care"}
As in @fig-slope.
:::

## References {.unnumbered}

::: {#refs}
:::
"""


def shown(page):
    """What a reader sees of a page that a renderer may not change: figures, numbers, captions, references, contents."""

    def text(html_text):
        return " ".join(html.unescape(re.sub(r"<[^>]+>", "", html_text)).replace("\u00a0", " ").split())

    toc = re.search(r'<nav[^>]*(?:id="TOC"|class="contents")[^>]*>(.*?)</nav>', page, re.DOTALL)[1]
    return {
        "alt": re.findall(r'<img[^>]*alt="([^"]*)"', page),
        "captions": sorted(
            text(caption) for caption in re.findall(r"<figcaption[^>]*>(.*?)</figcaption>", page, re.DOTALL)
        ),
        "references": [
            (target, text(words))
            for target, words in re.findall(r'<a href="#([\w-]+)" class="quarto-xref"[^>]*>(.*?)</a>', page, re.DOTALL)
        ],
        "cells": [text(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page, re.DOTALL)],
        "contents": [text(entry) for entry in re.findall(r"<a [^>]*>(.*?)</a>", toc, re.DOTALL)],
        "sources": sorted(re.findall(r'id="(ref-[\w-]+)"', page)),
    }


def test_what_is_compared_between_renderers_is_there(tmp_path):
    found = shown(render(write_report(tmp_path, BOTH, "bibliography: refs.bib"), choose("pandoc")))
    assert found["captions"] == ["Figure 1: A slope, after Knuth (1984).", "Table 1: Scores of the models."]
    assert dict(found["references"])["nte-care"] == "Note 1" and len(found["references"]) == 6
    assert all(found.values())


@pytest.mark.skipif(not shutil.which("quarto"), reason="quarto is not installed: its pages were not compared")
def test_both_renderers_show_the_same(tmp_path):
    source = write_report(tmp_path, BOTH, "bibliography: refs.bib")
    assert shown(render(source, choose("quarto"))) == shown(render(source, choose("pandoc")))


@pytest.mark.skipif(not shutil.which("quarto"), reason="quarto is not installed: the report was not compared")
def test_both_renderers_show_the_same_report():
    source = Path(__file__).resolve().parents[2] / "results/desk/report/index.qmd"
    if not source.is_file():
        pytest.skip("the default study was not run here: its report was not compared")
    extra = {"commit": "abc1234", "data": "data", "machine": "a machine", "links": []}
    assert shown(render(source, choose("quarto"), **extra)) == shown(render(source, choose("pandoc"), **extra))
