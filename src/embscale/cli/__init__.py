"""The command line: one module per command, found by its name.

A command module has a docstring (its first line is the help text), ``add_arguments(parser)`` and
``run(args)``.  `execute` parses, limits threads, runs, and reports an expected failure in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

from embscale.errors import EmbscaleError, words_of
from embscale.parameters import flags
from embscale.threads import limited

INTERRUPTED = 130  # exit status after Ctrl-C, as of a shell


def load(command: str) -> ModuleType:
    """The module of a command: ``train-ladder`` is ``embscale.cli.train_ladder``."""
    return importlib.import_module(f"embscale.cli.{command.replace('-', '_')}")


def execute(command: str, argv: list[str], *, debug: bool = False) -> int:
    """Run one command.

    Args:
        command: its name.
        argv: its arguments.
        debug: let what nobody foresaw through as it is, for whoever mends it.

    Returns:
        0 on success, 1 after an error that was reported in one line, 130 after Ctrl-C.
    """
    # First, because libraries read their limit on import, and a command's module imports some.
    with limited(_shared(command).parse_known_args(argv)[0].threads):
        return _run(command, parse(command, argv), debug=debug)


def parse(command: str, argv: list[str]) -> argparse.Namespace:
    """Parse the flags of a command: its own, and those shared by all commands."""
    shared, own = _shared(command).parse_known_args(argv)
    own_parser = parser(command)
    if unknown := _unknown(own_parser, own):
        own_parser.error(unknown)
    args = own_parser.parse_args(own, shared)
    if found := flags.problems(args) or list(_given_twice(own_parser, args)):
        own_parser.error("; ".join(found))
    args.command = command
    return args


def _given_twice(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Iterator[str]:
    """What is wrong with lists in which a value would count twice; files are looked at by those who read them."""
    for action in _actions(parser):
        values = getattr(args, action.dest, None) if action.nargs in ("*", "+") else None
        seen = set()
        for value in values if isinstance(values, list) else ():
            if isinstance(value, str | int | float) and value in seen:
                yield f"{(action.option_strings or [action.dest])[-1]}: {value} is given twice"
            seen.add(str(value) if isinstance(value, list) else value)


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
    if not (text.isdecimal() and len(text) < 5 and int(text)):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of threads, which is at least 1 and below 10000")
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


def _run(command: str, args: argparse.Namespace, *, debug: bool) -> int:
    try:
        load(command).run(args)
    except EmbscaleError as error:
        print(f"embscale {command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A full disk, a read-only folder, a vanished file: the system's message includes the name.
        print(f"embscale {command}: {error.filename or 'input/output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"embscale {command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # of whatever nobody foresaw
        if debug:
            raise
        print(f"embscale {command}: {_unforeseen(error)}", file=sys.stderr)
        return 1
    return 0


def _unforeseen(error: Exception) -> str:
    """The line about an error that is none of a file or a flag; its trace goes into a file."""
    advice = "run embscale --debug to see where"
    with contextlib.suppress(OSError):  # a full disk, on which the error was, too
        with tempfile.NamedTemporaryFile("w", prefix="embscale-", suffix=".trace", delete=False) as file:
            traceback.print_exception(error, file=file)
        advice = f"please report it with {file.name}"
    told = ": ".join(filter(None, [type(error).__name__, words_of(error)[:200]]))
    return f"{told}; nobody foresaw this: {advice}"
