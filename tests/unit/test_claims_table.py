"""Ledgers of claims as tables of the report: what stands in a row, what is counted, and where links lead."""

import re

import numpy as np
import pandas as pd
import pytest

from embscale.__main__ import main
from embscale.claims import verdicts
from embscale.claims.verdicts import Claim, Outcome, Part
from embscale.provenance import artifacts
from embscale.report import claims_table
from embscale.report.render import Renderer, render
from report_texts import write_report

LABELS = {"scaling": "fig-scaling"}


def part(value, low=0.0):
    return Part("a | b", np.concatenate([[value], np.random.default_rng(0).normal(value, 0.01, 4000)]), low)


def ledger(**published):
    """Five claims: one holds, one fails, one points to the first, one cannot be tested, one was not run."""
    asked = {"C1": [part(0.1)], "C2": [part(-0.1)], "C3": [part(0.1)], "C4": "No models.", "C10": [part(0.001)]}
    rows = []
    for name, parts in asked.items():
        claim = Claim(name, f"Words of {name}.", "s", "Models <5", "Cats", "f", "x", "scaling")
        ours = Outcome(parts, ["m"], n=1200, over="queries", runs=3)
        theirs = Outcome(
            published.get(name, "none was scored."), ["p"], n=9, over="queries", runs=1, ran=name in published
        )
        rows.append(
            verdicts.ledger_row(claim, theirs, ours, "", help_="h.", rows="rows/", command="embscale claims, f")
        )
    return verdicts.ledger(rows, verdicts.same_tests(asked))


@pytest.fixture
def rows(tmp_path):
    ledger().to_csv(tmp_path / "claims.csv", index=False)
    return claims_table.read(tmp_path / "claims.csv")


def test_each_verdict_is_counted_once(rows):
    assert claims_table.tallies(rows).splitlines() == [
        "- **holds**: 1",
        "- **fails**: 1",
        "- **unresolved**: 1",
        "- not tested: 1 (@sec-more-claims)",
    ]


def test_a_row_has_the_claim_its_population_verdict_effect_and_figure(rows):
    head, _, first, second, third, last = claims_table.verdicts_table(rows, LABELS, "claims.csv").splitlines()
    assert head == "| claim | population | our models | effect [95 % interval] | figure |"
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", first)[1:-1]]
    assert cells[0].startswith("[**C1**]{#claim-C1} Words of C1\\. `<details>") and "p " in cells[0]
    assert cells[1:3] == [r"Models \<5\, on Cats", "**holds**"]
    value, low, high = map(float, re.fullmatch(r"([\d.]+) \[([\d.]+),\u00a0([\d.]+)\]", cells[3]).groups())
    assert value == 10 and low == pytest.approx(8, abs=0.2) and high == pytest.approx(12, abs=0.2)
    assert cells[4] == "@fig-scaling"
    assert "−10.00 [−1" in second and "see [C1](#claim-C1)" in third and "details" not in third
    assert last.startswith("| [**C10**]")


def test_published_models_get_a_column_only_if_they_were_run(tmp_path):
    ledger(C1=[part(-0.2)]).to_csv(tmp_path / "claims.csv", index=False)
    rows = claims_table.read(tmp_path / "claims.csv")
    text = claims_table.verdicts_table(rows, {}, "claims.csv")
    assert "| population | published models | our models |" in text
    assert re.search(r"\| \*\*not reproduced\*\* −20\.00 \[", text)
    assert "- **not reproduced** on the published models: 1" in claims_table.tallies(rows)


def test_without_a_tested_claim_there_is_no_table(rows):
    assert claims_table.verdicts_table(rows.head(0), {}, "x.csv").startswith("None of the claims")


def test_figures_have_the_labels_of_the_text():
    text = "Words.\n\n::: {#fig-accuracy}\n\n{{< include figures/layer_accuracy.md >}}\n\nCaption.\n:::\n"
    assert claims_table.figure_labels([text, "none"]) == {"layer_accuracy": "fig-accuracy"}


def test_on_the_page_heads_have_scopes_and_cells_know_their_column(rows, tmp_path):
    body = "\n## More {#sec-more-claims}\n\n::: {#fig-scaling}\n\n{{< include figures/slope.md >}}\n\nA slope.\n:::\n\n"
    body += (
        "::: {.ledger}\n\n{{< include tallies.md >}}\n\n::: {#tbl-claims}\n\n{{< include table.md >}}\n\nClaims.\n:::\n"
    )
    body += "\n:::\n"
    files = {
        "tallies.md": claims_table.tallies(rows),
        "table.md": claims_table.verdicts_table(rows, LABELS, "claims.csv"),
    }
    page = render(write_report(tmp_path / "r", body, files=files), Renderer("pandoc"), data="data", links=[])
    assert "Claims can be filtered" in page
    page = page.partition("<main")[2].partition("</main>")[0]
    assert page.count('scope="col"') == 5 and page.count('scope="row"') == page.count('role="rowheader"') == 4
    assert page.count('data-verdict="fails"') == 1 and page.count('data-column="population"') == 4
    assert page.count("<summary>Test</summary>") == 3 and 'href="data/claims.csv.note.json"' in page
    assert '<a href="#fig-scaling"' in page


def test_the_ledger_beside_the_page_is_the_ledger(tmp_path):
    outputs = [tmp_path / "claims.csv"]
    with artifacts.write_with_provenance(command="claims", params={}, inputs=[], outputs=outputs) as [written]:
        ledger().to_csv(written, index=False)
    (tmp_path / "text.qmd").write_text("", "utf-8")
    flags = {"table": "t.md", "tallies": "c.md", "data": "site/claims.csv", "data-note": "site/claims.csv.note.json"}
    arguments = [word for flag, name in flags.items() for word in (f"--{flag}", str(tmp_path / name))]
    (tmp_path / "site").mkdir()
    assert main(["claims-table", str(tmp_path / "claims.csv"), "--text", str(tmp_path / "text.qmd"), *arguments]) == 0
    for name in ("claims.csv", "claims.csv.note.json"):
        assert (tmp_path / "site" / name).read_bytes() == (tmp_path / name).read_bytes()
    assert pd.read_csv(tmp_path / "site/claims.csv").columns.tolist() == verdicts.COLUMNS
