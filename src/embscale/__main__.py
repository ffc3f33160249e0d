"""``embscale COMMAND ...``: list the commands, or hand over to one of them."""

from __future__ import annotations

import os
import sys

if not __package__:
    # Rules run ``python src/embscale``: the package in that folder, and no other.  It needs no installation and no
    # search path, such as PYTHONPATH, which Snakemake removes in conda environments, which a colon in a folder's name
    # splits, and which may lead to another checkout.  Python puts the package's own folder first, where its modules
    # would hide some of the standard library; the folder above takes that place before anything else is imported.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120

import ast
import pkgutil
import signal
from pathlib import Path
from types import FrameType
from typing import NoReturn

import embscale
import embscale.cli


def commands() -> dict[str, str]:
    """Every command with the first line of its docstring, read without importing the command."""
    folder = Path(embscale.cli.__file__).parent
    found = {}
    for module in pkgutil.iter_modules([str(folder)]):
        if not module.name.startswith("_"):
            docstring = ast.get_docstring(ast.parse((folder / f"{module.name}.py").read_text("utf-8")))
            found[module.name.replace("_", "-")] = (docstring or "").partition("\n")[0]
    return found


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """End as after an error, so that temporary outputs are removed; a second signal ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    print(f"embscale: ended by {signal.Signals(number).name}", file=sys.stderr)
    raise SystemExit(128 + number)


def main(argv: list[str] | None = None) -> int:
    """Entry point of the ``embscale`` command and of ``python -m embscale``."""
    argv = sys.argv[1:] if argv is None else argv
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _stop)
    known = commands()
    debug = argv[:1] == ["--debug"]
    argv = argv[debug:]
    if argv[:1] == ["--version"]:
        print(embscale.__version__)
        return 0
    if argv and argv[0] in known:
        return embscale.cli.execute(argv[0], argv[1:], debug=debug)
    width = max(map(len, known), default=0)
    listing = "\n".join(f"  {name:{width}}  {summary}" for name, summary in known.items())
    usage = f"usage: embscale [--debug] COMMAND [--help]\n\n{embscale.__doc__}\n\ncommands:\n{listing}"
    if not argv or argv[0] in ("-h", "--help"):
        print(usage)
        return 0
    print(f"embscale: no command {argv[0]!r}; known are {', '.join(known)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
