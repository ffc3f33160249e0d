"""The command line: one module per command, found by its name.

A command module has a docstring (its first line is the help text), ``add_arguments(parser)`` and
``run(args)``.  `execute` parses, limits threads, runs, and turns an expected failure into one readable line.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from types import ModuleType

from embscale.errors import EmbscaleError
from embscale.threads import limited


def load(command: str) -> ModuleType:
    """The module of a command: ``train-ladder`` is ``embscale.cli.train_ladder``."""
    return importlib.import_module(f"embscale.cli.{command.replace('-', '_')}")


def execute(command: str, argv: list[str]) -> int:
    """Run one command; 0 on success, 1 after an error that has been told in one line."""
    # First, because a library reads its limit when it is loaded, and a command's module loads some.
    with limited(_shared(command).parse_known_args(argv)[0].threads):
        return _run(command, parse(command, argv))


def parse(command: str, argv: list[str]) -> argparse.Namespace:
    """What the flags of a command say: its own, and those that all commands have."""
    shared, own = _shared(command).parse_known_args(argv)
    return _parser(command).parse_args(own, shared)


def _shared(command: str) -> argparse.ArgumentParser:
    """Of all commands; they can stand anywhere on the line, and no abbreviation hides them."""
    parser = argparse.ArgumentParser(prog=f"embscale {command}", add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--threads", type=_count, default=1, metavar="N", help="of each library; changes last digits (1)"
    )
    return parser


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of threads, which is at least 1")
    return int(text)


def _parser(command: str) -> argparse.ArgumentParser:
    module = load(command)
    parser = argparse.ArgumentParser(
        prog=f"embscale {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_shared(command)],
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def _run(command: str, args: argparse.Namespace) -> int:
    try:
        load(command).run(args)
    except EmbscaleError as error:
        print(f"embscale {command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A full disk, a read-only folder, a vanished file: the system's own words, with the name.
        print(f"embscale {command}: {error.filename or 'input/output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
