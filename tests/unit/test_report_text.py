"""The report's text: no number typed in, no trap of Markdown with numbers that come from rules."""

import re
from pathlib import Path

import pytest

TEXTS = sorted((Path(__file__).resolve().parents[2] / "report").rglob("*.qmd"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_score_is_typed_into_the_text(path):
    typed = [line for line in path.read_text("utf-8").splitlines() if re.search(r"(?<![\w.@#-])\d+\.\d+", line)]
    assert not typed


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_line_begins_with_a_variable(path):
    """A number followed by a point at the start of a line would become a list."""
    lines = path.read_text("utf-8").splitlines()
    assert not [line for line in lines if line.lstrip().startswith("{{< var")]
