"""Push the recorded results of a study that licences allow: into the repository, or to the default remote of DVC.

The last part of ``make record``, after ``dvc repro``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import yaml
from dvc.exceptions import DvcException
from dvc.repo import Repo

import carried
from embscale.checkpoints.sharing import withheld
from embscale.checkpoints.suites import load
from pipelines import PARAMS, UnknownStudyError, default_study, lock, overlay, pipeline

# Of all studies together.  Every clone downloads that much, and once more for each record before it.
MOST_MB = 30


def main(study: str | None = None) -> int:
    """Check and push; 1 after a line that says what must not be pushed, is missing or too large."""
    try:
        study = study or default_study()
        file = pipeline(study)
        with Repo() as repo:
            stages = carried.recorded(repo.stage.collect(str(file)))
            paths = [path for outs in stages.values() for path, _ in carried.files(outs, repo.cache.local)]
            if reasons := not_to_be_pushed(paths, study):
                print("\n".join(reasons), file=sys.stderr)
                return 1
            words = f"recorded: {study}: {len(paths)} files"
            if repo.config["core"].get("remote") not in (None, carried.REMOTE):
                repo.push(targets=[str(file)])
                print(f"{words}, pushed; now commit {lock(study)} and recorded")
                return 0
            carried.write(study, stages, repo.cache.local)
    except (UnknownStudyError, carried.CarriedError, DvcException, OSError) as error:
        print(f"make record: {error}", file=sys.stderr)
        return 1
    own, whole = carried.size(study) / 1e6, carried.size() / 1e6
    if whole > MOST_MB:
        print(
            f"{carried.FOLDER}: {whole:.1f} MB, {own:.1f} of them {study}, more than the {MOST_MB} that a repository "
            "should carry; name what is large in .dvcignore, or set up a remote (docs/recording.md)",
            file=sys.stderr,
        )
        return 1
    print(f"{words}, {own:.1f} MB of {whole:.1f} in {carried.FOLDER}; now commit {lock(study)}, recorded and remote")
    return 0


def not_to_be_pushed(paths: Iterable[str], study: str) -> list[str]:
    """A line for each file that its licence keeps here."""
    files = [PARAMS, *filter(None, [overlay(study)])]
    hub = {key: value for file in files for key, value in (_read(file).get("hub") or {}).items()}
    reasons = withheld(paths, load(Path(hub["registry"]), Path(hub["pins"])))
    return [
        f"{path}: not to be pushed: {reason}; take it out of dvc.yaml or name it in .dvcignore"
        for path, reason in reasons.items()
    ]


def _read(file: Path) -> dict[str, dict[str, str]]:
    return dict(yaml.safe_load(file.read_text("utf-8")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
