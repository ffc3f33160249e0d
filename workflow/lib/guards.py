"""What the Snakefile asks and says of a run: what jobs run in, whether anything is missing, which of them failed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

NAMED = 3  # how many of many missing packages a message names


def drop_conda_if_missing(workflow: Any) -> None:  # noqa: ANN401
    """Let ``--use-conda`` fall back to the active environment if there is no conda.

    Snakemake asks ``conda info`` as soon as conda environments are wanted, and stops without it.  It looks for the
    name ``conda`` alone: neither mamba nor micromamba will do.

    Args:
        workflow: the object of that name in a Snakefile; call this before the first rule.
    """
    from snakemake.settings.types import DeploymentMethod

    settings = workflow.deployment_settings
    if uses_conda(workflow) and shutil.which("conda") is None:
        settings.deployment_method = set(settings.deployment_method) - {DeploymentMethod.CONDA}
        print("Warning: no conda on PATH; the rules run in the active environment instead.", file=sys.stderr)


def uses_conda(workflow: Any) -> bool:  # noqa: ANN401
    """Whether rules run in conda environments."""
    from snakemake.settings.types import DeploymentMethod

    return DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method


def uses_slurm(workflow: Any) -> bool:  # noqa: ANN401
    """Whether jobs are handed to Slurm; known once a graph of jobs is built."""
    return workflow.executor_plugin is not None and workflow.executor_plugin.name == "slurm"


def isolate_jobs(workflow: Any, root: Path) -> None:  # noqa: ANN401
    """Let every job run this checkout's package with the packages of one environment.

    The environment is the one that runs Snakemake, which need not be activated, or one that conda makes.

    Args:
        workflow: the object of that name in a Snakefile.
        root: folder of the checkout.

    Raises:
        ValueError: the folder is not the checkout's, or its name would lead jobs elsewhere.
    """
    if not Path.cwd().samefile(root):
        raise ValueError(f"{Path.cwd()}: the study runs in its own folder; go to {root} and start it there")
    interpreters = Path(sys.executable).parent
    for folder in (root, interpreters):
        if os.pathsep in str(folder):
            # The part after the colon would be taken for another folder, with another Python or none.
            raise ValueError(f"{folder}: a folder on a search path must have no {os.pathsep!r} in its name; rename it")
    os.environ["PATH"] = os.pathsep.join([str(interpreters), os.environ.get("PATH", os.defpath)])
    # Jobs find the package without it, and anything else on it does not belong to the environment.
    os.environ.pop("PYTHONPATH", None)
    if uses_conda(workflow):
        prefix = workflow.deployment_settings.conda_prefix or root
        if re.search(r"[^\w@%+=,./-]", str(prefix)):
            raise ValueError(
                f"{prefix}: Snakemake cannot make a conda environment below a folder with a space or another mark of "
                "the shell in its name; rename it, or choose a folder for the environments with --conda-prefix"
            )
        # Packages in the user's home would take precedence over the environment's own, in pip and in jobs.
        os.environ["PYTHONNOUSERSITE"] = "1"
        # Conda puts an environment in the place of the active one on PATH, which may be after another Python.
        os.environ.pop("CONDA_SHLVL", None)


def require_packages(workflow: Any, root: Path) -> None:  # noqa: ANN401
    """Stop a run whose jobs would find no packages, with one line that says what to do; for ``onstart:``.

    Args:
        workflow: the object of that name in a Snakefile.
        root: folder of the checkout.
    """
    from snakemake.exceptions import WorkflowError

    if uses_conda(workflow):
        return
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    names = [re.split(r"[^\w.-]", requirement)[0] for requirement in project["dependencies"]]
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        named = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
        raise WorkflowError(
            f"{sys.executable}: lacks packages of the study: {named}; run make report, which sets up an environment "
            "of its own, or let conda make one with snakemake --cores all --use-conda"
        )


def _is_installed(distribution: str) -> bool:
    """Whether the running Python has a package."""
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def stop_without_quarto(dag: Any, renderer: str) -> None:  # noqa: ANN401 (Snakemake's graph of jobs)
    """Stop Snakemake with one line if the page is to be made with Quarto and there is none; for ``onstart:``.

    The page is the last thing that a run makes: hours later would be late to learn it.
    """
    from snakemake.exceptions import WorkflowError

    rendering = any(job.rule.name == "render" for job in dag.needrun_jobs())
    if rendering and renderer == "quarto" and shutil.which("quarto") is None:
        raise WorkflowError(
            "report.renderer is quarto, and no quarto is on PATH; install it from quarto.org, or choose pandoc"
        )


def stop_before_the_disk_is_full(dag: Any, config: Any, planned: Any) -> None:  # noqa: ANN401 (Snakemake's objects)
    """Stop Snakemake with one line if what the run will write does not fit on the disk; for ``onstart:``.

    Args:
        dag: Snakemake's graph of jobs.
        config: the parameters of the study.
        planned: its published checkpoints, from `embscale.checkpoints.suites.plan_study`.
    """
    from snakemake.exceptions import WorkflowError

    from embscale.planning import disk
    from embscale.planning.models import Models

    written = [Path(output) for job in dag.needrun_jobs() for output in job.output]
    needed = disk.need(disk.files(Models(config, planned)), shutil.disk_usage(Path.cwd()).free, written=written)
    if not needed.fits:
        raise WorkflowError(needed.words)


def failures(snakemake_logs: list[str]) -> list[str]:
    """The final message of a failed run: for each failed job, the last line of its log and the log's path."""
    text = "".join(Path(log).read_text("utf-8") for log in snakemake_logs)
    # Of a job on a cluster the line names the cluster's log as well.
    logs = re.findall(r"^ +log: ([^\s,]+)(?:, .*)? \(check log file", text, re.MULTILINE)
    lines = []
    for log in dict.fromkeys(logs):
        path = Path(log)
        said = path.read_text("utf-8", "replace").strip().splitlines() if path.is_file() else []
        lines.append(f"failed: {said[-1].strip() if said else 'the job logged nothing'} (log: {log})")
    return lines
