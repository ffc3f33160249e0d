"""Unpack the records that the repository carries into DVC's cache, where ``dvc pull`` finds them.

Part of the set-up of the environment that has ``dvc``; ``make fetch`` does the same for its study.
"""

from __future__ import annotations

import sys

from dvc.exceptions import DvcException
from dvc.repo import Repo

import carried
from pipelines import UnknownStudyError, lock, pipeline


def main() -> int:
    """Unpack every study; 1 after a line for each that could not be."""
    failed = 0
    for study in sorted(path.name for path in carried.FOLDER.glob("*") if path.is_dir()):
        try:
            if lock(study).is_file():
                with Repo() as repo:
                    carried.restore(study, carried.recorded(repo.stage.collect(str(pipeline(study)))), repo.cache.local)
        except (UnknownStudyError, carried.CarriedError, DvcException, OSError) as error:
            print(f"{error}; dvc pull will not find {study}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
