"""Fetch the data set of a task of MTEB into a folder, from which embscale evaluate takes it without the hub."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from embscale.cli._datasets import keep_datasets_in
from embscale.cli._note import write_with_provenance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("task", metavar="NAME", help="MTEB's name, such as STSBenchmark or STS17:en-en, or a tier")
    parser.add_argument("--datasets", type=Path, required=True, metavar="FOLDER", help="keeps them, for several tasks")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="JSON", help="says what was fetched")


def run(args: argparse.Namespace) -> None:
    """Load as MTEB does, at the revision that it pins."""
    keep_datasets_in(args.datasets, offline=False)
    from embscale.scoring import tasks

    todo = [tasks.TableTask(name) for name in tasks.expand([args.task])]
    facts = {"datasets": {task.name: task.dataset for task in todo}}
    with write_with_provenance(args, inputs=[], outputs=[args.output], facts=facts) as (output,):
        for task in todo:
            task.fetch()
        output.write_text(json.dumps(facts["datasets"], indent=1) + "\n", "utf-8")
