"""Terms are explained once, in running text, and nothing else of the page changes."""

import re
from pathlib import Path

import pytest
import yaml

from embscale.errors import EmbscaleError
from embscale.report import glossary
from embscale.report.render import Renderer, render
from report_texts import write_report

ROOT = Path(__file__).resolve().parents[2]
TERMS = {"BM25": "A ranking by words.", "random table": "No <training>.", "random tables": "No <training>."}


def page(text):
    return f'<html><body><p>BM25</p><main id="main">{text}</main><p>BM25</p></body></html>'


def plain(text):
    """The page without its explanations."""
    return re.sub(r'</?dfn[^>]*>|<span role="tooltip".*?</span>', "", text)


def test_a_term_is_explained_where_it_first_stands_and_only_there():
    before = page("<h2>BM25</h2><p>So <em>BM25</em>, then BM25 and BM250.</p>")
    after = glossary.explain(before, TERMS)
    assert after.count("<dfn") == 1 and "<em><dfn" in after
    assert plain(after) == before
    (described,) = re.findall(r'aria-describedby="([^"]+)"', after)
    assert f'<span role="tooltip" id="{described}">A ranking by words.</span>' in after
    assert 'tabindex="0"' in after


def test_forms_of_one_term_count_as_one_and_the_longest_is_marked():
    after = glossary.explain(page("<p>Many random tables, one random table.</p>"), TERMS)
    assert re.findall(r"<dfn[^>]*>([^<]*)</dfn>", after) == ["random tables"]
    assert "No &lt;training&gt;." in after


@pytest.mark.parametrize(
    "apart",
    ["<p><a href='#x'>BM25</a></p>", "<p><code>BM25</code></p>", "<p><svg><text>BM25</text></svg></p>",
     "<figure><p>BM25</p></figure>", "<details><p>BM25</p></details>", "<p title='BM25'>it</p>", "<!-- <p>BM25</p> -->",
     "<table><tr><td><p>BM25</p></td></tr></table>", "<div>BM25</div>"],
)  # fmt: skip
def test_what_is_no_running_text_is_left_alone(apart):
    assert glossary.explain(page(apart), TERMS) == page(apart)
    assert "<dfn" in glossary.explain(page(f"{apart}<p>BM25</p>"), TERMS)


def test_a_report_with_a_glossary_explains_its_terms(tmp_path):
    entries = [{"forms": ["slope", "slopes"], "means": "How steep."}]
    source = write_report(tmp_path, "All slopes rise.", files={glossary.FILE: yaml.safe_dump(entries)})
    assert 'All <dfn class="term"' in render(source, Renderer("pandoc"))


@pytest.mark.parametrize("text", ["- forms: [a]\n", "a: b\n", "- forms: [a, a]\n  means: x\n", "[", "- 1\n", "7\n"])
def test_a_broken_glossary_is_refused_with_its_file(tmp_path, text):
    (tmp_path / glossary.FILE).write_text(text, "utf-8")
    with pytest.raises(EmbscaleError, match=re.escape(str(tmp_path / glossary.FILE))):
        glossary.read(tmp_path)


def test_every_term_of_the_report_stands_in_its_text():
    """A term that no page uses is explained nowhere."""
    text = "\n".join(file.read_text("utf-8") for file in (ROOT / "report").rglob("*.qmd"))
    by_meaning = {}
    for form, means in glossary.read(ROOT / "report").items():
        by_meaning.setdefault(means, []).append(form)
    text = " ".join(text.split())
    assert [forms for forms in by_meaning.values() if not any(form in text for form in forms)] == []
