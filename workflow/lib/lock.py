"""Write requirements.lock and requirements-test.lock: what pip installs for pyproject.toml today."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = "# Exact versions of {what}; written by make lock, installed by make.\n"


def main(scratch: Path) -> None:
    """Install in an empty environment, first what runs, then the test tools, and list each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
    pip = [scratch / "venv" / "bin" / "pip"]
    runtime = project["project"]["dependencies"]
    # By itself and first: another package would draw in the newest build.
    subprocess.run([*pip, "install", next(need for need in runtime if need.startswith("torch=="))], check=True)
    subprocess.run([*pip, "install", "setuptools>=77", *runtime], check=True)
    installed = _freeze(pip)
    _write("requirements.lock", "all packages that the study needs", installed)
    subprocess.run([*pip, "install", *project["project"]["optional-dependencies"]["test"]], check=True)
    _write("requirements-test.lock", "the test tools", [line for line in _freeze(pip) if line not in installed])


def _freeze(pip: list[Path]) -> list[str]:
    """``name==version`` lines; a local label such as ``+cpu`` belongs to one machine and is left out."""
    # setuptools builds the project itself, so it is listed too.
    listing = subprocess.run([*pip, "freeze", "--all"], check=True, capture_output=True, text=True).stdout
    lines = [line.partition("+")[0] for line in listing.splitlines()]
    return [line for line in lines if not line.startswith("pip==")]


def _write(name: str, what: str, lines: list[str]) -> None:
    (ROOT / name).write_text(HEADER.format(what=what) + "".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
