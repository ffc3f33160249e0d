"""A conda for tests: it answers what Snakemake asks, and really creates and activates environments, without a network.

An environment is a virtual one that sees the packages of the running Python by links, all but this project's own.
Activation follows conda 26: where no environment is active, the new one goes to the front of PATH; else it takes the
place of the active one, wherever that lies.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SITE = Path(sysconfig.get_path("purelib"))

OWN = ("embscale", "__editable__")
ACTIVATE = """
case "${CONDA_SHLVL:-0}:$PATH:" in
0:*) PATH="$1/bin:$PATH" ;;
*:"$CONDA_PREFIX/bin":*) PATH=":$PATH:"; PATH="${PATH/":$CONDA_PREFIX/bin:"/":$1/bin:"}"; PATH="${PATH#:}" ;;
*) PATH="$1/bin:$PATH" ;;
esac
export PATH CONDA_PREFIX="$1" CONDA_SHLVL=$((${CONDA_SHLVL:-0} + 1))
"""
# Each Python of an environment leaves a line that says who ran what.
WITNESS = """
import atexit, json, os, sys
def tell():
    package = sys.modules.get("embscale")
    line = {"argv": sys.argv, "prefix": sys.prefix, "path": sys.path, "embscale": getattr(package, "__file__", None)}
    line["environment"] = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "CONDA_"))}
    with open(os.path.join(sys.prefix, "witness.jsonl"), "a") as file:
        file.write(json.dumps(line) + "\\n")
atexit.register(tell)
"""


def install(root):
    """Put a ``conda`` into a folder, in ``bin``."""
    for name, text in {"conda": f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n', "activate": ACTIVATE}.items():
        path = root / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return root


def create(prefix, packages=None):
    """Create a virtual environment with the packages of the running Python, all or some, but not this project's own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    site = next(Path(prefix).glob("lib/python3*/site-packages"))
    if packages is None:
        entries = [e for e in SITE.iterdir() if e.suffix != ".pth" and not e.name.lower().startswith(OWN)]
    else:
        files = [file for name in packages for file in importlib.metadata.files(name)]
        entries = {SITE / file.parts[0] for file in files if file.parts[0] != ".."}
    for entry in entries:
        (site / entry.name).symlink_to(entry)
    (site / "witness.py").write_text(WITNESS)
    (site / "witness.pth").write_text("import witness\n")
    return Path(prefix)


def needs(package):
    """A package with all that it requires, by normalised names."""
    found, waiting = set(), [package]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found.add(name)
            requirements = map(Requirement, importlib.metadata.requires(name) or ())
            waiting += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def witnesses(prefix):
    """What the Pythons of an environment have told, in their order."""
    return [json.loads(line) for line in (Path(prefix) / "witness.jsonl").read_text().splitlines()]


def main(arguments):
    """Answer as conda would; anything unforeseen is an error."""
    match arguments:
        case ["info", "--json"]:
            print(json.dumps({"conda_prefix": os.environ["STAND_IN_CONDA"], "platform": "linux-64"}))
        case ["--version"]:
            print("conda 26.7.1")
        case ["config", "--get", "channel_priority", "--json"]:
            print(json.dumps({"get": {"channel_priority": "strict"}}))
        case ["env", "create", "--quiet", "--no-default-packages", "--file", file, "--prefix", prefix]:
            import yaml

            *_, pip = yaml.safe_load(Path(file).read_text())["dependencies"]
            create(prefix)
            for name, _, version in (pin.partition("==") for pin in pip["pip"]):
                if importlib.metadata.version(name).partition("+")[0] != version:
                    sys.exit(f"the stand-in has no {name} of version {version}")
        case ["clean", "-y", *_]:
            pass
        case _:
            sys.exit(f"the stand-in knows no conda {' '.join(arguments)}")


if __name__ == "__main__":
    main(sys.argv[1:])
