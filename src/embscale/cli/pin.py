"""Look up the current commit of each revision of a study's checkpoints, and record it.

  embscale pin studies/paper.yaml
  embscale pin --all    of every study in studies/

The workflow fetches pinned commits only, so that a study stays the same over time.  Pinned revisions are kept; --again
looks them up again.  What the hub has no longer is recorded without a commit, and the study leaves it out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embscale.cli.plan import add_study, read_study
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_study(parser)
    parser.add_argument(
        "--all", type=Path, nargs="?", const=Path("studies"), metavar="FOLDER", help="every overlay of this folder"
    )
    parser.add_argument("--again", action="store_true", help="also revisions that are pinned already")


def run(args: argparse.Namespace) -> None:
    """Query the hub; write after every response, so that nothing is lost if one fails; then say what is missing."""
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    from embscale.checkpoints import suites
    from embscale.checkpoints.hub import resolve

    # Studies may keep their pins in different files.
    wanted: dict[Path, dict[str, tuple[str, str]]] = {}
    for config in _studies(args):
        revisions = {f"{repo}@{revision}": (repo, revision) for repo, revision in suites.revisions(config)}
        wanted.setdefault(Path(config["hub"]["pins"]), {}).update(revisions)
    failed, missing = [], []
    for path, revisions in wanted.items():
        pins = suites.read_pins(path)
        for key, (repo, revision) in revisions.items():
            if key in pins and not args.again:
                continue
            try:
                commit = resolve(repo, revision)
            except EmbscaleError as error:
                print(f"embscale pin: {error}", file=sys.stderr)
                cause = error.__cause__
                gone = isinstance(cause, (RepositoryNotFoundError, RevisionNotFoundError))
                if not gone or isinstance(cause, GatedRepoError):  # which is a kind of the former
                    failed.append(key)
                    continue
                missing.append(key)
                commit = ""
            pins = pins | {key: {"commit": commit, "source": constants.ENDPOINT}}
            suites.write_pins(path, pins)
            print(f"{key}: {commit or 'left out'}", file=sys.stderr)
        pinned = sum(bool(pins[key]["commit"]) for key in revisions.keys() & pins.keys())
        print(f"{path}: {pinned} of {len(revisions)} revisions are pinned", file=sys.stderr)
    if missing:
        print(f"left out, as the hub has them no longer: {', '.join(missing)}", file=sys.stderr)
    if failed:
        raise EmbscaleError(f"{len(failed)} revisions could not be pinned: {', '.join(failed)}; the others are")


def _studies(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The parameters of the study, or of every study.

    Raises:
        EmbscaleError: a study is given beside --all, or there is none in the folder.
    """
    if args.all is None:
        yield read_study(args)
        return
    overlays = sorted(args.all.glob("*.yaml"))
    if args.study or not overlays:
        why = "drop the study, or --all" if args.study else f"no overlay in {args.all}; give the folder of the studies"
        raise EmbscaleError(f"--all {args.all}: {why}")
    for overlay in overlays:
        yield read_study(argparse.Namespace(params=args.params, study=[overlay]))
