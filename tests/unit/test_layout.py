"""The package's folders depend on each other in one direction, and an edit reaches what uses it and nothing else."""

import ast

import pytest

import sources
from embscale.__main__ import commands

# Later folders may import earlier ones.  What stands on one line does not import its neighbours.
ORDER = [
    {"errors"},
    {"devices", "progress", "threads", "resources", "statistics", "rows"},
    {"parameters", "provenance", "plotting"},
    {"checkpoints", "texts"},
    {"tables"},
    {"scoring", "training", "layers"},
    {"claims", "primer"},
    {"planning"},
    {"answers"},
    {"figures", "report"},
    {"explorer"},
    {"cli"},
    {"__main__"},
]
PLACE = {folder: place for place, folders in enumerate(ORDER) for folder in folders}


def modules():
    """Each module's dotted name and file."""
    root = sources.ROOT / "src"
    for path in sorted((root / "embscale").rglob("*.py")):
        yield ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"), path


def folder(module):
    """The folder of a module, or its own name if it lies at the top."""
    return module.split(".")[1]


def arrows():
    """Pairs of modules of different folders, of which the first imports the second."""
    for module, path in modules():
        if module == "embscale":
            continue
        for statement in sources._import_statements(ast.parse(path.read_text("utf-8"))):
            named = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
            if isinstance(statement, ast.ImportFrom):
                assert not statement.level, f"{module}: relative import"
                base = statement.module or ""
                named = [f"{base}.{alias.name}" for alias in statement.names] if base == "embscale" else [base]
            for name in named:
                if name.startswith("embscale.") and folder(name) != folder(module):
                    yield module, name


def test_no_two_tests_share_a_name():
    """In one run pytest imports a single module of a name, packages apart; runs of a folder do not tell."""
    files = [path for path in (sources.ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.name for path in files]
    assert not {name for name in names if names.count(name) > 1}


def test_every_folder_has_its_place():
    found = {folder(module) for module, _ in modules() if module != "embscale"}
    assert found == set(PLACE)


def test_no_folder_imports_a_later_one():
    assert len(set(arrows())) > 100
    assert [(a, b) for a, b in arrows() if PLACE[folder(b)] >= PLACE[folder(a)]] == []


def test_modules_at_the_top_are_few():
    at_the_top = {path.stem for path in (sources.ROOT / "src/embscale").glob("*.py")}
    assert at_the_top == {"__init__", "__main__", "devices", "errors", "progress", "threads"}


def test_folders_that_many_jobs_share_have_no_data_files():
    for name in ("rows", "plotting", "provenance", "statistics", "report", "cli", "figures", "parameters"):
        data = [path.name for path in (sources.ROOT / "src/embscale" / name).iterdir() if path.is_file()]
        assert [file for file in data if not file.endswith(".py")] == [], name


def test_each_folder_says_what_it_is_for():
    for path in (sources.ROOT / "src/embscale").rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path


def users(edited):
    """Commands, and figures as ``draw FIGURE``, whose declared sources include a file."""
    found = {command for command in commands() if edited in sources.command_sources(command)}
    figures = [path.stem for path in (sources.ROOT / "src/embscale/figures").glob("*.py") if path.stem != "__init__"]
    drawn = {f"draw {f}" for f in figures if edited in sources.command_sources("draw", f"embscale.figures.{f}")}
    assert len(figures) > 40
    return found | drawn


# An edit of the file on the left reruns what is on the right, and nothing else.
PAGES = {"render", "chapters", "project", "paper", "explorer"}
EXACTLY = {
    "report/design/style.css": PAGES,
    "report/design/template.html": PAGES,
    "report/design/elements.lua": PAGES,
    "explorer/explorer.css": {"explorer"},
    "figures/layer_accuracy.py": {"draw layer_accuracy"},
    "figures/scaling.py": {"draw scaling"},
    "figures/layer_norms.py": {"draw layer_norms"},
    "cli/check.py": {"check"},
    "cli/costs.py": {"costs"},
    "claims/layer_claims.py": {"layer-claims"},
}


@pytest.mark.parametrize("edited", EXACTLY)
def test_an_edit_reruns_exactly_what_it_touches(edited):
    assert users(f"src/embscale/{edited}") == EXACTLY[edited]


# Commands whose jobs take long, or fit; none of them may follow an edit of these.
FITS = {"probe", "grid", "ablate", "transfer", "geometry", "reductions", "train", "static", "tune", "warm-start"}


@pytest.mark.parametrize(
    "edited",
    ["checkpoints/families.py", "checkpoints/suites.py", "report/numbers.py", "rows/labels.py", "plotting/theme.py"],
)
def test_what_was_fitted_stays_where_an_edit_does_not_concern_it(edited):
    assert not FITS & users(f"src/embscale/{edited}")
