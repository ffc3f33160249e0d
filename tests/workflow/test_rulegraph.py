"""The graph of rules in the documentation is that of the Snakefile."""

import re
from pathlib import Path

import pytest

import rulegraph

ROOT = Path(__file__).resolve().parents[2]
MERMAID = """---
title: DAG
---
flowchart TB
	id0[all]
	id1[draw]
	id2[score]
	style id0 fill:#D95F57,stroke-width:2px,color:#333333
	id1 --> id0
	id2 --> id1
	id2 --> id0
"""


def test_arrows_that_a_longer_way_implies_are_left_out():
    assert re.findall(r"\w+ --> \w+", rulegraph.page(MERMAID)) == ["draw --> all", "score --> draw"]


@pytest.fixture(scope="module")
def written(copy_of_checkout, project):
    """The page as `snakemake docs` would write it."""
    return rulegraph.page(project(copy_of_checkout("graph")).snakemake("--rulegraph", "mermaid-js").stdout)


def test_the_graph_is_that_of_the_rules(written):
    assert (ROOT / "docs/rules.md").read_text("utf-8") == written, "snakemake docs writes it anew"


def test_the_graph_has_every_rule_that_the_page_needs(written):
    rules = {
        name
        for path in (ROOT / "workflow/rules").glob("*.smk")
        for name in re.findall(r"^rule (\w+):", path.read_text("utf-8"), re.MULTILINE)
    }
    # The default study fetches nothing, has no other tasks and no published suites; three targets are not of the page.
    left_out = {name for name in rules if name.startswith("fetch_") or "faithful" in name}
    left_out |= {"evaluate", "docs", "layer_costs", "paper"}
    assert rules - left_out <= set(re.findall(r"\w+", written))
