"""Names of suites and models that attack, figure by figure; no rows; a thousand models."""

import re
from xml.etree import ElementTree

import pytest

from embscale.cli import execute
from embscale.report.render import Renderer, render
from embscale.rows.treatments import treatments
from explorer_rows import HOSTILE, score_rows
from report_texts import write_report

NAMES = [HOSTILE, "$\\frac{$", "a & b < c > d", "*x* `y` | z", "{{< meta title >}}"]
BODY = "::: {#fig-suites}\n\n{{< include figures/suites.md >}}\n\nA caption.\n:::"
SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL | re.IGNORECASE)


def rendered(report):
    return render(report, Renderer("pandoc"), commit="c", data="data", explorer="explorer.html")


def drawn(rows, folder):
    """The figure of suites as the command draws it, and its Markdown."""
    folder.mkdir(exist_ok=True)
    rows = treatments(rows)
    rows.to_csv(folder / "rows.csv", index=False)
    files = {"--svg": "suites.svg", "--partial": "suites.md", "--data": "suites.csv"}
    outputs = [part for flag, name in files.items() for part in (flag, str(folder / name))]
    where = ["--where", "metric=ndcg_at_10", "--where", "special_tokens=exclude"]
    status = execute(
        "draw", ["suites", "--rows", str(folder / "rows.csv"), *where, *outputs, "--image", "figures/s.svg"]
    )
    return status, folder / "suites.svg", folder / "suites.md"


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_drawn_and_shown_and_does_nothing(tmp_path, name):
    rows = score_rows({name: {f"{name} small": 16, f"{name} large": 32}})
    status, svg, partial = drawn(rows, tmp_path)
    assert status == 0
    picture = ElementTree.parse(svg)
    assert not [element for element in picture.iter() if element.tag.endswith(("script", "foreignObject"))]
    files = {"figures/s.svg": svg.read_text("utf-8"), "figures/suites.md": partial.read_text("utf-8")}
    page = rendered(write_report(tmp_path / "report", BODY, files=files))
    alt = ElementTree.fromstring("<img " + page.split("<img ")[1].split(">")[0].rstrip("/") + "/>").get("alt")
    assert f"{name} small" in alt and f"{name} large" in alt
    assert SCRIPT.findall(page) == SCRIPT.findall(rendered(write_report(tmp_path / "plain", "No name.")))
    assert "onerror" not in page.replace(alt, "").split("<img")[0]


@pytest.mark.long
def test_a_thousand_models_are_drawn(tmp_path):
    rows = score_rows({"wide": {f"model-{i:04}": 16 * 2 ** (i % 6) for i in range(1000)}})
    status, svg, partial = drawn(rows, tmp_path)
    assert status == 0 and svg.stat().st_size < 2_000_000 and len(partial.read_text("utf-8")) < 4000


def test_no_rows_are_reported(tmp_path, capsys):
    status, _, _ = drawn(score_rows().iloc[:0], tmp_path)
    assert status == 1 and "rows.csv: no rows; make it again" in capsys.readouterr().err
