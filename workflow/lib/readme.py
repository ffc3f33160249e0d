"""Write the findings of a study into README.md: ``python workflow/lib/readme.py _variables.yml training.md README.md``.

They stand between two marks, with the figure, so that they are those of a run and not of somebody's memory.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

BEGIN, END = "<!-- findings: written by `snakemake docs` -->", "<!-- end of findings -->"


def findings(variables: Mapping[str, Any], described: str) -> str:
    """The figure and the findings in four lines, from the numbers of the report.

    Args:
        variables: of the report.
        described: what the figure shows.
    """
    scores, layers, answers = variables["scores"], variables["layers"], variables["answers"]
    # Who hears the figure hears first what it shows.
    conclusion = f"Compared with random tables of the same width, trained ones score {scores['against_random']}."
    return f"""\
![{conclusion} {described}](docs/training.svg)

- **Tables.** Against random tables of their own width, trained ones score {scores["against_random"]}
  ({scores["metric"]}, {scores["runs"]} of each width, {scores["length"]}). At width {scores["widest_width"]} they
  score {scores["widest"]}, {scores["less_random_widest"]} against random tables; chance is {scores["chance"]},
  BM25 {scores["bm25"]}.
- **Which tokens count.** With rare tokens weighted up (idf), the trained table of width {scores["widest_width"]}
  scores {scores["idf_widest"]} and random ones with the same weights {scores["random_idf_widest"]}: the difference
  is {scores["less_random_idf_widest"]}. Counting tokens without any table gives {scores["overlap_idf"]}.
- **Training** (study `{answers["of"]}`, recorded): {answers["crossings"]}.
  Why would tables stay below random ones? {answers["explanations"]}.
- **Layers.** A linear classifier names the layer of a hidden state in {layers["worst"]} to {layers["best"]} % of the
  cases, on texts that it has not seen; chance is {layers["chance"]}.
"""


def description(partial: str) -> str:
    """The alternative text of a figure of the report.

    Raises:
        ValueError: there is none.
    """
    found = re.search(r'fig-alt="([^"]+)"', partial)
    if not found:
        raise ValueError("the figure has no alternative text")
    return found[1]


def replace(text: str, lines: str) -> str:
    """The text with these lines between the marks.

    Raises:
        ValueError: the marks are not there.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no lines {BEGIN!r} and {END!r} to write the findings between; put them back")
    return f"{before}{BEGIN}\n\n{lines}\n{END}{after}"


if __name__ == "__main__":
    numbers, figure, readme = map(Path, sys.argv[1:])
    found = findings(yaml.safe_load(numbers.read_text("utf-8")), description(figure.read_text("utf-8")))
    readme.write_text(replace(readme.read_text("utf-8"), found), "utf-8")
