"""``embscale COMMAND ...``: list the commands, or hand over to one of them."""

from __future__ import annotations

import ast
import pkgutil
import sys
from pathlib import Path

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


def main(argv: list[str] | None = None) -> int:
    """Entry point of the ``embscale`` command and of ``python -m embscale``."""
    argv = sys.argv[1:] if argv is None else argv
    known = commands()
    if argv[:1] == ["--version"]:
        print(embscale.__version__)
        return 0
    if argv and argv[0] in known:
        return embscale.cli.execute(argv[0], argv[1:])
    width = max(map(len, known), default=0)
    listing = "\n".join(f"  {name:{width}}  {summary}" for name, summary in known.items())
    usage = f"usage: embscale COMMAND [--help]\n\n{embscale.__doc__}\n\ncommands:\n{listing}"
    if not argv or argv[0] in ("-h", "--help"):
        print(usage)
        return 0
    print(f"embscale: no command {argv[0]!r}; known are {', '.join(known)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
