"""Write the reference pages: a JSON Schema of the parameters for editors, their table, and the map of the package.

Usage: ``python workflow/lib/reference.py workflow/schema/params.schema.json docs/parameters.md src/embscale/README.md``
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from embscale import cli  # noqa: E402 (found through the line above)
from embscale.__main__ import commands  # noqa: E402
from embscale.parameters import flags, schema  # noqa: E402
from embscale.parameters.checking import allowed  # noqa: E402
from embscale.parameters.study import Study, study_schema  # noqa: E402

HEAD = """# Parameters

The parameters in `params.yaml`, written by `make docs` from the dataclasses in `src/embscale/parameters`. An editor
with a YAML language server shows the same beside each line. A study of your own is an overlay that names only what
differs, such as `studies/tiny.yaml`; each value is checked before the first job. The commands of `embscale` in the last
column take the parameter as a flag of the same name; parameters without one are read by the rules.

| parameter | in `params.yaml` | allowed | meaning | commands |
|---|---|---|---|---|
"""
LONGEST = 60  # characters of a value
PATTERN = re.compile(r"matching (\S+)")


def leaves(group: type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type, schema.Parameter]]:
    """Every parameter of a group and of the groups within it: where it lies, the group it is of, itself."""
    for parameter in schema.parameters(group):
        inner = schema.plain(parameter.kind)
        if schema.is_group(inner) and not schema.is_list(parameter.kind):
            yield from leaves(inner, (*path, parameter.name))
        else:
            yield (*path, parameter.name), group, parameter


def taken_by() -> dict[str, list[type]]:
    """The groups of parameters that each command has declared, those of its subcommands too."""
    return {command: list(dict.fromkeys(flags.groups(cli.parser(command)))) for command in commands()}


def users(group: type, name: str, taken: dict[str, list[type]]) -> list[str]:
    """The commands that take a parameter of a group."""
    return [
        command
        for command, several in taken.items()
        if any(issubclass(group, one) and name in {p.name for p in schema.parameters(one)} for one in several)
    ]


def cell(value: Any) -> str:  # noqa: ANN401 (of any parameter)
    """A value as YAML has it, in a table."""
    words = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else str(value)
    words = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return f"`{words}`".replace("|", "\\|") if words else ""


def table() -> str:
    """The page of all parameters."""
    values, root, taken = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8")), study_schema(), taken_by()
    lines = []
    for path, group, parameter in leaves(Study):
        value = values
        for name in path:
            value = value[name]
        words = PATTERN.sub(r"matching `\1`", allowed(schema.of_kind(parameter.kind), root)).replace("|", "\\|")
        named = ", ".join(f"`{command}`" for command in users(group, parameter.name, taken))
        lines.append(f"| `{'.'.join(path)}` | {cell(value)} | {words} | {parameter.meaning} | {named} |\n")
    return HEAD + "".join(lines)


# Folders in the order of the two stories: suites to scores, texts to probes, both to the report.
FOLDERS = ["parameters", "texts", "checkpoints", "tables", "training", "scoring", "layers", "planning", "primer"]
FOLDERS += ["claims", "answers", "rows", "plotting", "figures", "report", "explorer", "statistics", "provenance", "cli"]
MAP_HEAD = """# The package, module by module

Written by `make docs` from the first line of each module's docstring. Two stories run through the package from top to
bottom, suites → checkpoints → tables → scores → figures and texts → hidden states → probes → figures; both end in the
report. A folder imports folders that come before it in its story, never later ones (`tests/unit/test_layout.py`).

At the top, `__main__` finds the commands; `errors`, `devices`, `threads` and `progress` are what all of them need;
`resources/` holds the word lists.
"""


def first_line(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]


def package_map() -> str:
    """The page with a phrase for each module."""
    package, parts = ROOT / "src/embscale", [MAP_HEAD]
    for folder in FOLDERS:
        parts.append(f"\n## {folder}\n\n{first_line(package / folder / '__init__.py')}\n\n")
        for path in sorted((package / folder).rglob("*.py")):
            name = ".".join(path.relative_to(package / folder).with_suffix("").parts).removesuffix(".__init__")
            if not name.rpartition(".")[2].startswith("_"):
                parts.append(f"- `{name}`: {first_line(path)}\n")
    return "".join(parts)


if __name__ == "__main__":
    schema_file, page, map_page = map(Path, sys.argv[1:])
    map_page.write_text(package_map(), "utf-8")
    schema_file.write_text(json.dumps(study_schema(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    page.write_text(table(), "utf-8")
