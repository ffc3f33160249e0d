"""What the main process of a run does alone, and what it hands to its jobs.

Snakemake reads the Snakefile again in each job that is a Snakemake of its own: in jobs on a cluster twice, on another
machine, perhaps with another home.  Such a reading changes nothing, and takes from the main process what may look
different there or takes long to find: which checkpoints are used, whether there is a token for gated ones, and which
files each command can reach.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embscale.checkpoints.suites import Checkpoint, Planned
from sources import command_sources

HANDED = Path(".snakemake/embscale.plan.json")


def before_graph(workflow: Any, action: Callable[[], None]) -> None:  # noqa: ANN401
    """Run an action once, before Snakemake looks at the first file, in the main process alone.

    Reading the Snakefile is too early: it is also read by jobs, by ``--lint`` and by whoever imports it as a module.
    Only when a graph of jobs is built is it certain that somebody wants to know what is stale.

    Args:
        workflow: the object of that name in a Snakefile.
        action: called without arguments.
    """
    if not workflow.is_main_process:
        return
    prepare = workflow._prepare_dag

    @functools.wraps(prepare)
    def prepare_after_action(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        workflow._prepare_dag = prepare
        action()
        return prepare(*args, **kwargs)

    workflow._prepare_dag = prepare_after_action


def changes_results(workflow: Any) -> bool:  # noqa: ANN401
    """Whether a graph is about to be built in order to run its jobs: not for a dry run, a list or a picture."""
    return workflow.executor_plugin is not None and not workflow.dryrun


def look_when_jobs_end(workflow: Any) -> None:  # noqa: ANN401
    """Let a run on this machine look for the next jobs when one has ended, and at no other time.

    For the sake of clusters, Snakemake limits how many jobs it submits in a second.  While it does, every look at the
    waiting jobs brings about another one a second later, so that looks multiply with the jobs that end; each reads the
    sizes of all inputs.  In a study of 330 jobs they took 40 % of a core.

    Args:
        workflow: the object of that name in a Snakefile, once a graph of jobs is to be built.
    """
    if workflow.local_exec:
        workflow.scheduling_settings.max_jobs_per_timespan = None


class Handed:
    """What the main process has found out, or what it handed to this job.

    Args:
        config: parameters of the study.  What was handed down for others is not taken.
        main: whether this is the main process, which finds out everything by itself.  So does a job that was handed
            nothing, such as one that a person starts by hand.
    """

    def __init__(self, config: Mapping[str, Any], *, main: bool, path: Path = HANDED) -> None:
        self.path = path
        text = json.dumps(config, sort_keys=True, default=str)
        self._config = hashlib.sha256(text.encode()).hexdigest()
        given = {} if main else _read(path)
        self._given = given if given.get("config") == self._config else {}
        self._found: dict[str, Any] = {"config": self._config, "sources": {}}

    def token(self, find: Callable[[], bool]) -> bool:
        """Whether the main process has a token of the hub."""
        token = self._given["token"] if self._given else find()
        self._found["token"] = token
        return bool(token)

    def plan(self, find: Callable[[], list[Planned]]) -> list[Planned]:
        """The decision for each published checkpoint of the study."""
        if self._given:
            return [_planned(item) for item in self._given["plan"]]
        plan = find()
        self._found["plan"] = [dataclasses.asdict(item) for item in plan]
        return plan

    def command_sources(self, command: str, *extra_modules: str) -> list[str]:
        """Files that a command can reach: `sources.command_sources`."""
        key = " ".join([command, *extra_modules])
        found: list[str] = self._given.get("sources", {}).get(key) or command_sources(command, *extra_modules)
        self._found["sources"][key] = found
        return list(found)

    def hand_down(self) -> None:
        """Write what was found out where jobs of this run find it, on whatever machine; for ``onstart:``."""
        self.path.parent.mkdir(exist_ok=True)
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(self._found), "utf-8")
        unfinished.replace(self.path)


def _read(path: Path) -> dict[str, Any]:
    """What was handed down; empty if that was nothing."""
    try:
        given: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return given


def _planned(item: Mapping[str, Any]) -> Planned:
    """A decision as it was before it was written."""
    facts = item["checkpoint"]
    return Planned(**{**item, "checkpoint": Checkpoint(**{**facts, "recalled": tuple(facts["recalled"])})})
