"""Write the findings of a study into README.md: ``python workflow/lib/readme.py _variables.yml README.md``.

They stand between two marks, so that they are those of a run and not of somebody's memory.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

BEGIN, END = "<!-- findings: written by `snakemake docs` -->", "<!-- end of findings -->"


def findings(variables: Mapping[str, Any]) -> str:
    """The findings in three lines, from the numbers of the report."""
    scores, layers = variables["scores"], variables["layers"]
    return f"""\
- **Tables.** Against random tables of their own width, trained ones score {scores["against_random"]}
  ({scores["metric"]}, {scores["runs"]} of each width, {scores["length"]}). At width {scores["widest_width"]} they
  score {scores["widest"]}, {scores["less_random_widest"]} against random tables; chance is {scores["chance"]},
  BM25 {scores["bm25"]}.
- **Which tokens count.** With rare tokens weighted up (idf), the trained table of width {scores["widest_width"]}
  scores {scores["idf_widest"]} and random ones with the same weights {scores["random_idf_widest"]}: the difference
  is {scores["less_random_idf_widest"]}. Counting tokens without any table gives {scores["overlap_idf"]}.
- **Layers.** A linear classifier names the layer of a hidden state in {layers["worst"]} to {layers["best"]} % of the
  cases, on texts that it has not seen; chance is {layers["chance"]}.
"""


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
    numbers, readme = map(Path, sys.argv[1:])
    found = findings(yaml.safe_load(numbers.read_text("utf-8")))
    readme.write_text(replace(readme.read_text("utf-8"), found), "utf-8")
