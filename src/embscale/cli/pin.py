"""Look up the current commit of each revision of a study's checkpoints, and record it.

  embscale pin studies/paper.yaml

The workflow fetches pinned commits only, so that a study stays the same over time.  Pinned revisions are kept; --again
looks them up again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli.plan import add_study, read_study
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_study(parser)
    parser.add_argument("--again", action="store_true", help="also revisions that are pinned already")


def run(args: argparse.Namespace) -> None:
    """Query the hub; write after every response, so that nothing is lost if one fails."""
    from huggingface_hub import constants

    from embscale.checkpoints import suites
    from embscale.checkpoints.hub import resolve

    config = read_study(args)
    path = Path(config["hub"]["pins"])
    failed = []
    for repo, revision in suites.revisions(config):
        pins = suites.read_pins(path)
        key = f"{repo}@{revision}"
        if key in pins and not args.again:
            continue
        try:
            commit = resolve(repo, revision)
        except EmbscaleError as error:
            failed.append(key)
            print(f"embscale pin: {error}", file=sys.stderr)
            continue
        suites.write_pins(path, pins | {key: {"commit": commit, "source": constants.ENDPOINT}})
        print(f"{key}: {commit}", file=sys.stderr)
    if failed:
        raise EmbscaleError(f"{len(failed)} revisions could not be pinned: {', '.join(failed)}; the others are")
