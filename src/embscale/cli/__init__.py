"""The command line: one module per command, found by its name.

A command module has a docstring (its first line is the help text), ``add_arguments(parser)`` and
``run(args)``.  `execute` parses, limits threads, runs, and reports an expected failure in one line.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.threads import limited


def load(command: str) -> ModuleType:
    """The module of a command: ``train-ladder`` is ``embscale.cli.train_ladder``."""
    return importlib.import_module(f"embscale.cli.{command.replace('-', '_')}")


def execute(command: str, argv: list[str]) -> int:
    """Run one command; returns 0 on success, 1 after an error that was reported in one line."""
    # First, because libraries read their limit on import, and a command's module imports some.
    with limited(_shared(command).parse_known_args(argv)[0].threads):
        return _run(command, parse(command, argv))


def parse(command: str, argv: list[str]) -> argparse.Namespace:
    """Parse the flags of a command: its own, and those shared by all commands."""
    shared, own = _shared(command).parse_known_args(argv)
    own_parser = parser(command)
    if unknown := _unknown(own_parser, own):
        own_parser.error(unknown)
    args = own_parser.parse_args(own, shared)
    if found := flags.problems(args):
        own_parser.error("; ".join(found))
    args.command = command
    return args


def line(command: str, values: Mapping[str, Any]) -> list[str]:
    """The command line that passes these values, such as the parameters of a note, to a command.

    Raises:
        EmbscaleError: the command has no such flag.
    """
    words, left = _words(parser(command), dict(values))
    if left:
        raise EmbscaleError(f"embscale {command} has no flag for {', '.join(left)}")
    return [command, *words]


def flags_of(command: str) -> set[str]:
    """The names of a command's arguments."""
    return {action.dest for action in _actions(parser(command))}


def _words(parser: argparse.ArgumentParser, values: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The command-line words for the values that a parser knows, and the values that it does not know."""
    words: list[str] = []
    for action in parser._actions:
        value = values.pop(action.dest, None)
        if value is None or value is False or (value == [] and not (action.option_strings and action.nargs == "*")):
            continue
        if isinstance(action, argparse._SubParsersAction):
            rest, values = _words(action.choices[value], values)
            words += [value, *rest]
        elif isinstance(action, argparse._AppendAction):
            # A flag that must be given is given where its list is empty, too.
            for item in value or ([[]] if action.required else []):
                words += [action.option_strings[-1], *map(str, item if isinstance(item, list) else [item])]
        else:
            several = value if isinstance(value, list) else [] if value is True else [value]
            words += [*action.option_strings[-1:], *map(str, several)]
    return words, values


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with the error and a pointer to the help."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help lists the flags)\n")


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a parser and of its subparsers."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _unknown(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """The error for the first unknown flag, with the nearest known one; empty if all are known."""
    known = [option for action in _actions(parser) for option in action.option_strings]
    for flag in (word.partition("=")[0] for word in words if word.startswith("--")):
        if flag not in known:
            close = difflib.get_close_matches(flag, known, n=1)
            return f"no flag {flag}" + (f"; did you mean {close[0]}?" if close else "")
    return ""


def _shared(command: str) -> argparse.ArgumentParser:
    """Flags of all commands; they may be anywhere on the command line and cannot be abbreviated."""
    parser = argparse.ArgumentParser(prog=f"embscale {command}", add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--threads", type=_count, default=1, metavar="N", help="of each library; changes last digits (1)"
    )
    return parser


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads, which is at least 1")
    return int(text)


def parser(command: str) -> argparse.ArgumentParser:
    """The parser of a command."""
    module = load(command)
    made = _Parser(
        prog=f"embscale {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_shared(command)],
        allow_abbrev=False,
    )
    module.add_arguments(made)
    return made


def _run(command: str, args: argparse.Namespace) -> int:
    try:
        load(command).run(args)
    except EmbscaleError as error:
        print(f"embscale {command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A full disk, a read-only folder, a vanished file: the system's message includes the name.
        print(f"embscale {command}: {error.filename or 'input/output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
