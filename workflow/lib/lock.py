"""Write requirements.lock and requirements-test.lock: the versions and hashes that pip installs, on every platform.

Versions that are locked stay as they are for as long as pyproject.toml allows them; ``--upgrade`` takes the newest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK, TEST_LOCK = ROOT / "requirements.lock", ROOT / "requirements-test.lock"
HEADER = "# Exact versions and hashes of {what}, for every platform; written by make lock.\n"
WITHOUT_TORCH = """\
# Not in it: torch=={torch} and the libraries for GPUs that its build for Linux requires.  Which build a machine needs
# is its own matter, and builds of one version, such as that for processors alone, have other hashes than PyPI's.
"""
# What depends on the build of torch.
OF_BUILD = re.compile(r"(torch|triton|(nvidia|cuda)-[\w-]+)==")


def main(scratch: Path, *flags: str) -> None:
    """Resolve with uv, from an environment of its own, first what runs and then the test tools."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
    subprocess.run([scratch / "venv/bin/pip", "install", "--quiet", "uv"], check=True)
    # It builds the project itself, and packages that come as sources.
    build = scratch / "build.in"
    build.write_text("\n".join(project["build-system"]["requires"]), "utf-8")

    def resolved(old: Path, *arguments: str | Path) -> dict[str, str]:
        """Requirements with their hashes, by name; versions that an old file locks are preferred."""
        new = scratch / old.name
        new.write_bytes(old.read_bytes())
        command = [scratch / "venv/bin/uv", "pip", "compile", "pyproject.toml", build, "--output-file", new, *arguments]
        form = ("--universal", "--generate-hashes", "--no-annotate", "--no-header", "--quiet")
        python = project["project"]["requires-python"].removeprefix(">=")
        subprocess.run([*command, *form, "--python-version", python], cwd=ROOT, check=True)
        found = re.findall(r"^([\w-]+)(==[^\\\n]*(?:\\\n[^\\\n]*)*)\n", new.read_text("utf-8"), re.MULTILINE)
        return {name: f"{name}{rest}\n" for name, rest in found}

    runtime = resolved(LOCK, *flags)
    pins = scratch / "runtime.txt"
    pins.write_text("".join(runtime.values()), "utf-8")
    test = resolved(TEST_LOCK, "--extra", "test", "--constraint", pins, *flags)
    torch = next(need for need in project["project"]["dependencies"] if need.startswith("torch==")).partition("==")[2]
    listed = "".join(text for text in runtime.values() if not OF_BUILD.match(text))
    header = HEADER.format(what="all packages that the study needs") + WITHOUT_TORCH.format(torch=torch)
    LOCK.write_text(header + listed, "utf-8")
    listed = "".join(text for name, text in test.items() if name not in runtime)
    TEST_LOCK.write_text(HEADER.format(what="the test tools") + listed, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
