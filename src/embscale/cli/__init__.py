"""The command line: one module per command, found by its name.

A command module has a docstring (its first line is the help text), ``add_arguments(parser)`` and
``run(args)``.  `execute` parses, runs, and turns an expected failure into one readable line.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from types import ModuleType

from embscale.errors import EmbscaleError


def load(command: str) -> ModuleType:
    """The module of a command: ``train-ladder`` is ``embscale.cli.train_ladder``."""
    return importlib.import_module(f"embscale.cli.{command.replace('-', '_')}")


def execute(command: str, argv: list[str]) -> int:
    """Run one command; 0 on success, 1 after an error that has been told in one line."""
    module = load(command)
    parser = argparse.ArgumentParser(
        prog=f"embscale {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        module.run(args)
    except EmbscaleError as error:
        print(f"embscale {command}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A full disk, a read-only folder, a vanished file: the system's own words, with the name.
        print(f"embscale {command}: {error.filename or 'input/output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
