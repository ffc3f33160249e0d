"""Groups of parameters on the command line: declared, read with their bounds checked, and written by rules."""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embscale.parameters import schema

PARAMS = Path(__file__).resolve().parents[3] / "params.yaml"
GROUPS = "groups of parameters"  # that a parser has declared, in its defaults


def name_of(parameter: str) -> str:
    """``--test-fraction`` for ``test_fraction``."""
    return f"--{parameter.replace('_', '-')}"


def add(parser: argparse.ArgumentParser, *added: type, defaults: Mapping[str, Any] | None = None) -> None:
    """Declare a flag for each parameter of some groups.

    Args:
        parser: of a command.
        added: groups; a parameter that an earlier one has too is declared once.
        defaults: values by name, such as those of `section`; a parameter without one must be given.
    """
    defaults = defaults or {}
    declared = {action.dest for action in parser._actions}
    parser.set_defaults(**{GROUPS: (*(parser.get_default(GROUPS) or ()), *added)})
    for parameter in (parameter for group in added for parameter in schema.parameters(group)):
        if parameter.name in declared:
            continue
        declared.add(parameter.name)
        kind, words = schema.plain(parameter.kind), parameter.meaning.replace("%", "%%")
        options: dict[str, Any] = {"required": parameter.name not in defaults}
        if parameter.name in defaults:
            options["default"] = value = defaults[parameter.name]
            words += f" ({' '.join(map(str, value)) if isinstance(value, list | tuple) else value})"
        if kind is bool:
            parser.add_argument(name_of(parameter.name), action="store_true", help=words)
            continue
        if schema.is_list(parameter.kind):
            options["nargs"] = "*"
            if parameter.name not in defaults:
                options["action"] = "extend"
        if allowed := schema.choices(parameter.kind):
            options["choices"] = allowed
        else:
            name = getattr(kind, "__name__", "value")
            options |= {"type": functools.partial(schema.parse, kind), "metavar": name.upper()}
        parser.add_argument(name_of(parameter.name), help=words, **options)


def groups(parser: argparse.ArgumentParser) -> tuple[type, ...]:
    """The groups that a parser and its subparsers have declared."""
    found = tuple(parser.get_default(GROUPS) or ())
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += tuple(group for inner in action.choices.values() for group in groups(inner))
    return found


def problems(args: argparse.Namespace) -> list[str]:
    """What is wrong with the values of the flags that `add` has declared: which flag, what was given, what is allowed.

    They are removed from the list of what is to be checked.
    """
    from embscale.parameters import checking

    problems = []
    for group in dict.fromkeys(vars(args).pop(GROUPS, ())):
        given = vars(read(args, group))
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
        for problem in checking.problems(plain, schema.of_group(group)):
            end = next(place for place, letter in enumerate(problem) if letter in ":[.")
            problems.append(name_of(problem[:end]) + problem[end:])
    return list(dict.fromkeys(problems))


def read(args: argparse.Namespace, group: type) -> Any:  # noqa: ANN401 (the group)
    """A group from the flags of a command."""
    return schema.build(
        group, {parameter.name: getattr(args, parameter.name) for parameter in schema.parameters(group)}
    )


def line(group: type, values: Mapping[str, Any]) -> str:
    """The flags of a group with the values of ``params.yaml``, quoted for a shell: ``--seeds 1 2 3 --chunk 4096``."""
    words = []
    for parameter in schema.parameters(group):
        value = values[parameter.name]
        if value is True:
            words.append(name_of(parameter.name))
        elif isinstance(value, list | tuple):
            words += [name_of(parameter.name), *map(str, value)]
        elif value is not False:
            words += [name_of(parameter.name), str(value)]
    return shlex.join(words)


def section(*names: str) -> dict[str, Any]:
    """Values of a section of ``params.yaml``, for commands that people call by hand.

    Args:
        names: of the section and of those within it, such as ``layers``, ``geometry``.
    """
    import yaml

    if not PARAMS.is_file():
        return {}
    values = yaml.safe_load(PARAMS.read_text("utf-8"))
    for name in names:
        values = values[name]
    return dict(values)
