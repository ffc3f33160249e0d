"""One browser for all tests, and the pages that they open: small ones made here, or finished ones that are named."""

import importlib.util
from pathlib import Path

import pytest

from embscale.cli import execute
from explorer_rows import (
    accuracy_rows,
    confusion_rows,
    curve_rows,
    difference_rows,
    estimate_rows,
    fact_rows,
    point_rows,
    query_rows,
    score_rows,
)


def pytest_addoption(parser):
    parser.addoption("--page", type=Path, help="a finished report to open instead of a small one")
    parser.addoption("--explorer", type=Path, help="a finished explorer to open instead of a small one")


@pytest.fixture(scope="session")
def browser():
    for module in ("playwright", "axe_playwright_python"):
        if not importlib.util.find_spec(module):
            pytest.skip(f"{module} is not installed (make test adds it): pages were not opened")
    from browser import browsing

    path = browsing.executable()
    if not path:
        pytest.skip(f"no browser (none of {', '.join(browsing.BROWSERS)}): pages were not opened")
    with browsing.running(path) as running:
        yield running


@pytest.fixture
def sheet(browser):
    """A function that opens an empty sheet in a fresh profile, such as one with dark colours."""
    from browser import browsing

    contexts = []

    def make(**options):
        contexts.append(browser.new_context(**(browsing.DESK | options)))
        return browsing.Sheet(contexts[-1])

    yield make
    for context in contexts:
        context.close()


def make_explorer(folder, tokenizer, **rows):
    """The explorer of these rows, which may leave out all but the scores; their means are added."""
    rows = {"estimates": estimate_rows(rows["scores"])} | rows
    flags = ["--title", "A study", "--metric", "ndcg_at_10", "--length", "64", "--tokenizer", f"wide={tokenizer}"]
    flags += ["--link", "Report=index.html"]
    for name, frame in rows.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        flags += [f"--{name}", str(folder / f"{name}.csv")]
    page = folder / "explorer.html"
    assert execute("explorer", [*flags, "-o", str(page)]) == 0
    return page


@pytest.fixture(scope="session")
def explorer(tmp_path_factory, tokenizer_folder):
    """The explorer of the small rows."""
    return make_explorer(
        tmp_path_factory.mktemp("explorer"),
        tokenizer_folder,
        scores=score_rows(),
        differences=difference_rows(score_rows()),
        curves=curve_rows(),
        facts=fact_rows(),
        queries=query_rows(),
        points=point_rows(),
        confusion=confusion_rows(),
        layers=accuracy_rows(),
    )
