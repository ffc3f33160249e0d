"""Write a small report into a folder, for the tests of its rendering."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

# The first line of a body given to `write_report` is this line of index.qmd.
BODY_LINE = 6

PROJECT = """\
project:
  type: default
  render: [index.qmd]
  output-dir: _site
format:
  html:
    theme: default
    toc: true
    number-sections: true
    embed-resources: true
    html-math-method: mathml
"""

BIBLIOGRAPHY = """\
@book{knuth1984, author = {Knuth, Donald E.}, title = {The {TeX}book}, publisher = {Addison-Wesley}, year = {1984}}
@article{zipf1936, author = {Zipf, George K.}, title = {Words}, journal = {Example Journal}, year = {1936}}
"""

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><path d="M5 55 L85 5" stroke="#246"/></svg>\n'

FILES = {
    "_quarto.yml": PROJECT,
    "_variables.yml": 'best: {score: "41.20", model: narrow}\nruns: 12\nratio: 5.90\nlong: |\n  one\n  two\n',
    "refs.bib": BIBLIOGRAPHY,
    "figures/slope.svg": SVG,
    "figures/slope.md": '![](figures/slope.svg){fig-alt="A line that rises"}\n',
}


def write_report(folder: Path, body: str, front: str = "", files: dict[str, str] | None = None) -> Path:
    """index.qmd with a title, `front` and `body`, and beside it the files of a small project."""
    for name, text in {**FILES, **(files or {})}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), "utf-8")
    source = folder / "index.qmd"
    head = "\n".join(["---", "title: Slopes", front or "bibliography: refs.bib", "---", ""])
    source.write_text(f"{head}\n{dedent(body).strip()}\n", "utf-8")
    return source
