"""What the Snakefile asks before it runs: is there a conda, and is no other run at work in this folder?"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from pathlib import Path
from typing import IO, Any, ClassVar

LOCK = Path(".snakemake/embscale.lock")


def drop_conda_if_missing(workflow: Any) -> None:  # noqa: ANN401
    """Let ``--use-conda`` go on in the active environment where there is no conda.

    Snakemake asks ``conda info`` as soon as conda environments are wanted, and stops without it.  It looks for the
    name ``conda`` alone: neither mamba nor micromamba will do.

    Args:
        workflow: the object of that name in a Snakefile; call this before the first rule.
    """
    from snakemake.settings.types import DeploymentMethod

    settings = workflow.deployment_settings
    if DeploymentMethod.CONDA in settings.deployment_method and shutil.which("conda") is None:
        settings.deployment_method = set(settings.deployment_method) - {DeploymentMethod.CONDA}
        print("Warning: no conda on PATH; the rules run in the active environment instead.", file=sys.stderr)


def use_this_checkout(root: Path) -> None:
    """Let rules run the package that lies in this checkout, with the Python that runs Snakemake.

    A conda environment does not hold the package; without conda, the environment need not be activated.
    """
    os.environ["PYTHONPATH"] = str(root / "src")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def failures(snakemake_logs: list[str]) -> list[str]:
    """What a failed run shall end with: for each failed job the last line of its log, and where the log is."""
    text = "".join(Path(log).read_text("utf-8") for log in snakemake_logs)
    told = re.findall(r"^ +log: (\S+) \(check log file", text, re.MULTILINE)
    lines = []
    for log in dict.fromkeys(told):
        path = Path(log)
        said = path.read_text("utf-8", "replace").strip().splitlines() if path.is_file() else []
        lines.append(f"failed: {said[-1].strip() if said else 'the job said nothing'} (log: {log})")
    return lines


class RunLock:
    """At most one run that writes in a folder, for as long as the process lives.

    Snakemake's own lock holds back neither a second run with other targets nor one that finds its own lock removed by
    a third.  This one is held by the operating system, so that it ends with the process, however that ends.
    """

    # Not of the instance: closing the file lets go of the lock, and an instance may be gone after one statement.
    _held: ClassVar[list[IO[str]]] = []

    def __init__(self, path: Path = LOCK) -> None:
        self.path = path

    def acquire(self) -> bool:
        """Take the lock unless another process holds it; say whether it is ours now."""
        self.path.parent.mkdir(exist_ok=True)
        file = self.path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._held.append(file)
        return True

    def free(self) -> bool:
        """Whether no process holds the lock."""
        if not self.path.is_file():
            return True
        with self.path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def acquire_or_stop(self) -> None:
        """Take the lock, or stop Snakemake with one line; for ``onstart:``."""
        from snakemake.exceptions import WorkflowError

        if not self.acquire():
            raise WorkflowError(f"{self.told_owner()}; wait for it or end it, then start again")

    def told_owner(self) -> str:
        """Who holds the lock, for a message."""
        return f"another run (process {self.path.read_text() or 'unknown'}) is at work in {Path.cwd()}"
