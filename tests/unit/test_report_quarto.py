"""The way through Quarto: when it is taken, how Quarto is called, how its log is read, and what its page is like.

No Python package holds Quarto's binary, so that a test of the real one is skipped where it is not installed.  An
executable named ``quarto`` stands in for it elsewhere: it does what the real one was seen to do, where that is what
went wrong before.  It takes every document of the project for an input and reads what each includes from that
document's folder, takes the values of ``--metadata`` for paragraphs, reads ``_metadata.yml``, and ends a failure with
its own error and the trace of its calls.
"""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.report import quarto
from embscale.report.render import choose, render
from report_texts import PROJECT, write_report

REPORT = Path(__file__).resolve().parents[2] / "report"

FAKE = r"""
import json, pathlib, re, sys
import yaml

here = pathlib.Path(__file__).parent
told = json.loads((here / "told.json").read_text())
if sys.argv[1:] == ["--version"]:
    print("1.10.18")
    sys.exit()
files = sorted(p.as_posix() for p in pathlib.Path(".").rglob("*") if p.is_file())
(here / "record.json").write_text(json.dumps({"argv": sys.argv[1:], "folder": str(pathlib.Path.cwd()), "files": files}))
print(told["log"], file=sys.stderr)


def fail(*lines):
    trace = ["", "Stack trace:", "    at includeFile (file:///opt/quarto/bin/quarto.js:28403:11)", "    at async x:1:2"]
    print("\x1b[91m" + "\n".join(["ERROR: " + lines[0], *lines[1:], *trace]) + "\x1b[39m", file=sys.stderr)
    sys.exit(1)


project = yaml.safe_load(pathlib.Path("_quarto.yml").read_text())["project"]
for main in map(pathlib.Path, project.get("render") or pathlib.Path(".").rglob("*.qmd")):
    waiting = [main]
    while waiting:
        for name in re.findall(r"{{< include (\S+) >}}", waiting.pop().read_text()):
            included = main.parent / name
            if not included.is_file():
                fail(
                    "Include directive failed.",
                    f"  in file {main.resolve()}, ",
                    f"  could not find file {included.absolute()}.",
                )
            waiting.append(included)
metadata = pathlib.Path("_metadata.yml")
known = yaml.safe_load(metadata.read_text()) if metadata.is_file() else {}
for word in (sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == "--metadata"):
    known[word.partition(":")[0]] = word.partition(":")[2] + "\n"
folder = pathlib.Path(project.get("output-dir", "."))
folder.mkdir(exist_ok=True)
page = told["page"].replace("METADATA", json.dumps(known, default=str))
folder.joinpath(sys.argv[sys.argv.index("--output") + 1]).write_text(page)
sys.exit(told["status"])
"""


@pytest.fixture
def fake_quarto(tmp_path, monkeypatch):
    """Put a ``quarto`` on PATH that notes how it is called; its log, page and status can be chosen."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(log="Output created: page", page="<html>by Quarto</html>", status=0):
        file = folder / "quarto"
        file.write_text(f"#!{sys.executable}\n{FAKE}", "utf-8")
        file.chmod(0o755)
        (folder / "told.json").write_text(json.dumps({"log": log, "page": page, "status": status}), "utf-8")
        return folder / "record.json"

    return install


def test_quarto_that_is_asked_for_and_missing_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbscaleError, match="not on PATH; install it"):
        choose("quarto")


def test_what_makes_the_page_is_chosen_and_not_found(fake_quarto):
    fake_quarto()
    assert choose("quarto").label == "Quarto 1.10.18"
    assert choose("pandoc").quarto is None
    assert re.fullmatch(r"pandoc [\d.]+", choose("pandoc").label)


def test_quarto_renders_a_copy_of_the_folder(fake_quarto, tmp_path):
    record = fake_quarto()
    source = write_report(tmp_path / "report", "Text by {{< meta renderer >}}.")
    before = sorted(source.parent.rglob("*"))
    assert render(source, choose("quarto")) == "<html>by Quarto</html>"
    call = json.loads(record.read_text("utf-8"))
    assert call["argv"] == ["render", "index.qmd", "--to", "html", "--output", quarto.PAGE]
    assert Path(call["folder"]) != source.parent
    assert {"index.qmd", "_quarto.yml", "_variables.yml", "figures/slope.svg"} <= set(call["files"])
    assert {quarto.METADATA, *(f"design/{file.name}" for file in quarto.DESIGN)} <= set(call["files"])
    assert sorted(source.parent.rglob("*")) == before


def test_every_value_reaches_quarto_as_it_is(fake_quarto, tmp_path):
    """Lists too, and words without the newline that Quarto puts behind what its command line says."""
    fake_quarto(page="<html>METADATA</html>")
    told = {
        "commit": "abc1234",
        "data": "data",
        "links": [{"title": "Ü: “x”", "url": "a.html"}],
        "machine": "m, 2 cores",
    }
    page = render(write_report(tmp_path / "report", "Text."), choose("quarto"), **told)
    found = json.loads(page.removeprefix("<html>").removesuffix("</html>"))
    assert {key: found[key] for key in told} == told
    assert found["renderer"] == "Quarto 1.10.18"


CHAPTER = {"chapters/one.qmd": "{{< include figures/slope.md >}}\n"}


def test_only_the_main_document_is_a_page(fake_quarto, tmp_path):
    """A chapter's includes are found from the main document's folder, and not from its own."""
    fake_quarto()
    source = write_report(tmp_path / "report", "{{< include chapters/one.qmd >}}", files=CHAPTER)
    assert render(source, choose("quarto")) == "<html>by Quarto</html>"
    (source.parent / "_quarto.yml").write_text(PROJECT.replace("  render: [index.qmd]\n", ""), "utf-8")
    with pytest.raises(EmbscaleError) as error:
        render(source, choose("quarto"))
    assert str(error.value) == (
        f"{source}: Quarto failed: ERROR: Include directive failed. in file {source.parent}/chapters/one.qmd, "
        f"could not find file {source.parent}/chapters/figures/slope.md. (exit status 1)"
    )


def test_the_report_has_one_page_too():
    settings = yaml.safe_load((REPORT / "_quarto.yml").read_text("utf-8"))["project"]
    assert settings["render"] == ["index.qmd"] and settings["output-dir"] == quarto.BY_HAND


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
    with pytest.raises(EmbscaleError, match=r"index\.qmd: Quarto failed: YAML is wrong \(exit status 1\)$"):
        render(write_report(tmp_path / "report", "Text."), choose("quarto"))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("pandoc\n  to: html\nERROR: Bad.\n  in a file\n\nStack trace:\n    at f (x.js:1:2)", "ERROR: Bad. in a file"),
        ("ERROR: Bad.\n    at f (file:///q.js:1:2)\n    at async g:3:4", "ERROR: Bad."),
        ("quarto: cannot execute\n", "quarto: cannot execute"),
        ("", "it said nothing"),
    ],
)
def test_a_failure_is_reported_in_quartos_words_on_one_line(log, words):
    assert quarto.failure(log) == words


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
    ours = {name for name in note["inputs"] if name.startswith("embscale/")}
    assert set(note["inputs"]) - ours == {"report/index.qmd", "report/refs.bib"}
    assert {"embscale/report/design/style.css", "embscale/report/design/template.html"} <= ours
    assert note["facts"]["renderer"] == choose("pandoc").label
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


@pytest.fixture
def completed(tmp_path):
    """A report with what ``embscale project`` puts beside it."""
    source = write_report(tmp_path / "report", "Made at {{< meta commit >}}: [rows]({{< meta data >}}/slope.csv.gz).")
    links = ["--link", "Explorer=../../site/explorer.html", "--data", "../../site/data", "--commit", "abc1234"]
    assert execute("project", [str(source), *links]) == 0
    return source


def test_a_completed_folder_holds_all_that_quarto_reads(completed):
    folder = completed.parent
    settings = yaml.safe_load((folder / quarto.METADATA).read_text("utf-8"))
    assert settings["commit"] == "abc1234" and settings["data"] == "../../site/data"
    assert settings["links"] == [{"title": "Explorer", "url": "../../site/explorer.html"}]
    form = settings["format"]["html"]
    named = [form["template"], *form["template-partials"], *(part["path"] for part in settings["filters"])]
    assert all((folder / name).is_file() for name in named)
    note = json.loads((folder / f"{quarto.METADATA}.note.json").read_text("utf-8"))
    made = {folder / quarto.METADATA, *(folder / "design" / file.name for file in quarto.DESIGN)}
    assert set(map(Path, note["outputs"])) == made
    # A second time it replaces its own.
    assert execute("project", [str(completed)]) == 0


real = pytest.mark.skipif(not shutil.which("quarto"), reason="quarto is not installed: its pages were not looked at")


@real
def test_quarto_by_hand_gives_the_whole_page(completed):
    subprocess.run(["quarto", "render"], cwd=completed.parent, check=True, capture_output=True)
    page = (completed.parent / "_site/index.html").read_text("utf-8")
    assert "Made at abc1234" in page and "?meta" not in page
    assert 'href="../../site/data/slope.csv.gz"' in page and '<a href="../../site/explorer.html">Explorer</a>' in page
    assert "rendered by Quarto at commit <code>abc1234</code>" in page and "prefers-color-scheme: dark" in page


@real
def test_the_real_quarto_is_reported_by_its_own_error(tmp_path):
    source = write_report(tmp_path / "report", "Text.")
    (source.parent / "_quarto.yml").write_text(PROJECT.replace("type: default", "type: nonsense"), "utf-8")
    with pytest.raises(EmbscaleError, match=r"Quarto failed: ERROR: .*nonsense") as error:
        render(source, choose("quarto"))
    assert "\n" not in str(error.value) and ".js:" not in str(error.value)


@pytest.mark.skipif(not shutil.which("quarto"), reason="quarto is not installed: its pages were not compared")
def test_both_renderers_show_the_same(tmp_path):
    source = write_report(tmp_path, BOTH, "bibliography: refs.bib")
    assert shown(render(source, choose("quarto"))) == shown(render(source, choose("pandoc")))


@pytest.mark.skipif(not shutil.which("quarto"), reason="quarto is not installed: the report was not compared")
def test_both_renderers_show_the_same_report():
    source = REPORT.parent / "results/desk/report/index.qmd"
    if not source.is_file():
        pytest.skip("the default study was not run here: its report was not compared")
    extra = {"commit": "abc1234", "data": "data", "machine": "a machine", "links": []}
    assert shown(render(source, choose("quarto"), **extra)) == shown(render(source, choose("pandoc"), **extra))
