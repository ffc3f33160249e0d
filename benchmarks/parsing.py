"""Seconds that Snakemake needs to read the Snakefile: in a run's main process, in a job of it, and in one on a node.

    python benchmarks/parsing.py [--configfile STUDY] [--repeats TIMES]

Each reading is a process of its own, as a job on a cluster is two, one after the other.  Given are seconds by the clock
and of the processor, the shortest of the repeats; the import of Snakemake itself is apart.  It happens in a copy of
what git tracks, in which the main process hands down what jobs take from it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

READING = """
import contextlib, io, json, sys, time
from pathlib import Path
started = time.perf_counter(), time.process_time()
from snakemake.api import SnakemakeApi
from snakemake.settings.types import (
    ConfigSettings, OutputSettings, Quietness, ResourceSettings, StorageSettings, WorkflowSettings,
)
from snakemake_interface_executor_plugins.settings import ExecMode
imported = time.perf_counter(), time.process_time()
mode, *overlays = sys.argv[1:]
exec_mode = {"main": ExecMode.DEFAULT, "job": ExecMode.SUBPROCESS, "node": ExecMode.REMOTE}[mode]
with contextlib.redirect_stderr(io.StringIO()), SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
    workflow = api.workflow(
        resource_settings=ResourceSettings(cores=1),
        config_settings=ConfigSettings(configfiles=[Path(name) for name in overlays]),
        workflow_settings=WorkflowSettings(exec_mode=exec_mode),
        storage_settings=StorageSettings(),
        snakefile=Path("Snakefile"),
    )
    read_workflow = workflow._workflow
read = time.perf_counter(), time.process_time()
if mode == "main" and "HANDED" in read_workflow.globals:
    read_workflow.globals["HANDED"].hand_down()
print(json.dumps([imported[0] - started[0], imported[1] - started[1], read[0] - imported[0], read[1] - imported[1]]))
"""


def copy_of(root, folder):
    """A copy of what git tracks, without the record."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file() and not name.startswith("remote/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder


def readings(mode, overlays, repeats, **where):
    """Seconds of the import and of the reading, each by the wall clock and of the processor: the shortest."""
    command = [sys.executable, "-c", READING, mode, *overlays]
    found = []
    for _ in range(repeats + 1):  # the first compiles modules and is not counted
        done = subprocess.run(command, capture_output=True, text=True, **where)
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return [min(times) for times in zip(*found[1:], strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configfile", nargs="*", default=[], help="overlays of params.yaml")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    overlays = [str(Path(overlay).resolve()) for overlay in args.configfile]
    with tempfile.TemporaryDirectory() as folder:
        copied = copy_of(root, Path(folder, "checkout"))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "compiled"))
        print("        import of Snakemake   reading the Snakefile")
        print("        wall    processor     wall    processor")
        for mode in ("main", "job", "node"):
            times = readings(mode, overlays, args.repeats, cwd=copied, env=environment)
            print(f"{mode:6}" + "".join(f"{value:7.2f} s  " for value in times))


if __name__ == "__main__":
    main()
