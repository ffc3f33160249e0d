"""Which first-party files a command can reach, so that a rule can name them as its inputs.

Snakemake does not see that a module imported by a rule's command has changed.  Listing the modules as inputs makes it
see them.  The list comes from the import statements alone: nothing is imported, and no more than the standard library
is needed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "embscale"


class SourceError(LookupError):
    """A module that was asked for, or that a module imports, does not exist."""


def command_sources(command: str, *extra_modules: str, root: Path = ROOT) -> list[str]:
    """Files that ``python -m embscale COMMAND`` can reach.

    Args:
        command: name on the command line, such as ``train-ladder``.
        extra_modules: modules that the command loads by a name that is not in its source, such as one figure.
        root: top of the repository.
    """
    module = f"{PACKAGE}.cli.{command.replace('-', '_')}"
    # The entry point loads commands by name, so that it reaches no command by itself.
    return sources(f"{PACKAGE}.__main__", f"{PACKAGE}.cli", module, *extra_modules, root=root)


def sources(*modules: str, root: Path = ROOT) -> list[str]:
    """First-party files that importing or running these modules can reach.

    Imports inside functions count, those under ``if TYPE_CHECKING:`` do not.  Other files (templates, style sheets,
    filters) count when they lie beside a reached module, except in the root package, whose folder every module shares.

    Args:
        modules: dotted names, such as ``embscale.cli.train_ladder``.
        root: top of the repository; the package lies in ``src`` below it.

    Returns:
        Sorted paths relative to `root`.

    Raises:
        SourceError: a module does not exist.
    """
    source_folder = root / "src"
    reached: set[str] = set()
    files: set[Path] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in reached:
            continue
        reached.add(module)
        package, _, _ = module.rpartition(".")
        if package:
            waiting.append(package)
        if path := _file(source_folder, module):
            files.add(path)
            waiting += _imports(source_folder, module)
    files |= {data for folder in {path.parent for path in files} for data in _package_data(source_folder, folder)}
    return sorted(path.relative_to(root).as_posix() for path in files)


def _file(source_folder: Path, module: str) -> Path | None:
    """Where a module's source lies; None for a folder without ``__init__.py``."""
    path = source_folder.joinpath(*module.split("."))
    for candidate in (path / "__init__.py", path.with_name(path.name + ".py")):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        return None
    raise SourceError(f"no module {module} in {source_folder}")


def _exists(source_folder: Path, module: str) -> bool:
    """Whether there is such a module, package or folder."""
    path = source_folder.joinpath(*module.split("."))
    return path.is_dir() or path.with_name(path.name + ".py").is_file()


@functools.cache
def _imports(source_folder: Path, module: str) -> list[str]:
    """First-party modules that a module's import statements name."""
    path = _file(source_folder, module)
    assert path is not None, module
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    named = []
    for statement in _import_statements(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(statement, ast.Import):
            named += [alias.name for alias in statement.names]
        else:
            base = _base(statement, package)
            named.append(base)
            # What follows "import" is a submodule or a name that the base module defines.
            submodules = (f"{base}.{alias.name}" for alias in statement.names)
            named += [name for name in submodules if _is_ours(name) and _exists(source_folder, name)]
    ours = [name for name in named if _is_ours(name)]
    for name in ours:
        if not _exists(source_folder, name):
            raise SourceError(f"{path}: imports {name}, which does not exist in {source_folder}")
    return ours


def _is_ours(module: str) -> bool:
    """Whether a module belongs to the package."""
    return module.partition(".")[0] == PACKAGE


def _base(statement: ast.ImportFrom, package: str) -> str:
    """The module after ``from``, absolute."""
    if not statement.level:
        return statement.module or ""
    parents = package.split(".")[: len(package.split(".")) - (statement.level - 1)]
    return ".".join([*parents, statement.module] if statement.module else parents)


def _import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All import statements below a node that run, in functions too."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
        return
    # Statements stand in blocks alone, so that expressions, which are most of a tree, need not be walked.
    blocks: tuple[str, ...] = ("body", "orelse", "handlers", "finalbody", "cases")
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        blocks = ("orelse",)
    elif not isinstance(node, ast.stmt | ast.mod | ast.excepthandler | ast.match_case):
        return
    for block in blocks:
        for child in getattr(node, block, ()):
            yield from _import_statements(child)


def _is_type_checking(test: ast.expr) -> bool:
    """Whether a condition is ``TYPE_CHECKING`` or ``typing.TYPE_CHECKING``."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _package_data(source_folder: Path, folder: Path) -> list[Path]:
    """Files of a package that are no Python; none for the root package."""
    if folder == source_folder / PACKAGE:
        return []
    return [
        path
        for path in folder.iterdir()
        if path.is_file() and path.suffix not in (".py", ".pyc") and not path.name.startswith(".")
    ]
