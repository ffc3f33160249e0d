"""The static list of sources holds every first-party file that a run can read."""

import subprocess
import sys
from pathlib import Path

import pytest

import sources

pytestmark = pytest.mark.long

COMMANDS = sorted(p.stem for p in (sources.ROOT / "src/embscale/cli").glob("*.py") if not p.stem.startswith("_"))


@pytest.fixture
def tree(tmp_path):
    """A function that writes files of a toy package and returns its root."""

    def write(files):
        for name, text in {"__init__.py": "", "cli/__init__.py": ""}.items() | files.items():
            path = tmp_path / "src/embscale" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def reached(root, *modules):
    """The files without the part that all share."""
    return [name.removeprefix("src/embscale/") for name in sources.sources(*modules, root=root)]


@pytest.mark.parametrize(
    "statement",
    [
        "import embscale.tables",
        "import json, embscale.tables as t",
        "from embscale import tables",
        "from embscale.tables import read",
        "from . import tables",
        "from .tables import read",
        "def f():\n    from embscale import tables",
        "try:\n    import embscale.tables\nexcept ImportError:\n    pass",
        "if True:\n    import embscale.tables",
    ],
)
def test_every_form_of_import_is_followed(tree, statement):
    root = tree({"a.py": statement, "tables.py": "import embscale.errors", "errors.py": "", "other.py": ""})
    assert reached(root, "embscale.a") == ["__init__.py", "a.py", "errors.py", "tables.py"]


def test_imports_for_type_checking_are_not_followed(tree):
    guarded = "if TYPE_CHECKING:\n    import embscale.tables\nelse:\n    import embscale.errors"
    root = tree({"a.py": f"import typing\n{guarded}\nif typing.TYPE_CHECKING:\n    import embscale.tables"})
    tree({"tables.py": "", "errors.py": ""})
    assert reached(root, "embscale.a") == ["__init__.py", "a.py", "errors.py"]


def test_relative_imports_climb_from_packages_and_modules(tree):
    root = tree(
        {"deep/__init__.py": "from .. import errors", "deep/a.py": "from ..tables import read\nfrom . import b"}
    )
    tree({"deep/b.py": "", "errors.py": "", "tables.py": ""})
    assert reached(root, "embscale.deep.a") == [
        "__init__.py", "deep/__init__.py", "deep/a.py", "deep/b.py", "errors.py", "tables.py",
    ]  # fmt: skip


def test_the_package_files_of_every_parent_are_followed(tree):
    root = tree({"deep/__init__.py": "import embscale.errors", "deep/more/a.py": "", "errors.py": ""})
    assert reached(root, "embscale.deep.more.a") == ["__init__.py", "deep/__init__.py", "deep/more/a.py", "errors.py"]


def test_a_circle_of_imports_ends(tree):
    root = tree({"a.py": "import embscale.b", "b.py": "import embscale.a"})
    assert reached(root, "embscale.a") == ["__init__.py", "a.py", "b.py"]


def test_data_beside_a_reached_module_counts_except_in_the_root_package(tree):
    root = tree({"py.typed": "", "page/__init__.py": "", "page/a.py": "", "page/style.css": "", "page/.hidden": ""})
    tree({"other/x.csv": "", "page/__pycache__/a.pyc": ""})
    assert reached(root, "embscale.page.a") == ["__init__.py", "page/__init__.py", "page/a.py", "page/style.css"]


def test_a_command_reaches_the_entry_point_and_what_its_arguments_name(tree):
    root = tree({"__main__.py": "import embscale.cli", "cli/make_it.py": "import embscale.b", "b.py": ""})
    tree({"figures/__init__.py": "", "figures/one.py": "", "figures/two.py": "", "cli/other.py": ""})
    assert sources.command_sources("make-it", "embscale.figures.one", root=root) == [
        f"src/embscale/{name}"
        for name in (
            "__init__.py", "__main__.py", "b.py", "cli/__init__.py", "cli/make_it.py",
            "figures/__init__.py", "figures/one.py",
        )
    ]  # fmt: skip


def test_a_missing_module_is_named(tree):
    root = tree({"a.py": "import embscale.gone"})
    with pytest.raises(sources.SourceError, match=r"no module embscale\.never "):
        sources.sources("embscale.never", root=root)
    with pytest.raises(sources.SourceError, match=r"a\.py: imports embscale\.gone, which does not exist"):
        sources.sources("embscale.a", root=root)


def test_the_list_for_this_package_names_existing_files_in_order():
    found = sources.sources("embscale.provenance.artifacts")
    assert found == sorted(found)
    assert "src/embscale/provenance/artifacts.py" in found
    assert all((sources.ROOT / name).is_file() for name in found)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_file_that_a_command_loads_is_in_its_list(command):
    script = f"""
import sys
import embscale.__main__
import embscale.cli.{command}
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "embscale" and getattr(module, "__file__", None):
        print(module.__file__)
"""
    loaded = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(sources.ROOT / "src"), "PATH": ""},
    )  # fmt: skip
    files = {Path(line).relative_to(sources.ROOT).as_posix() for line in loaded.stdout.splitlines()}
    assert files
    assert files <= set(sources.command_sources(command))
