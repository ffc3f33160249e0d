"""Replace the record in git, ``recorded/STUDY``, by the results of this machine, and say how far they differ.

The last part of the stage ``record`` of ``dvc.yaml``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from embscale.errors import EmbscaleError
from embscale.provenance import kept_results
from pipelines import lock

KEPT = ("*.csv", "metrics.json")  # what a difference of git is read of


def main(study: str) -> int:
    """Compare, report, replace; 1 if a table is damaged."""
    kept, recorded = Path("results") / study / "kept", Path("recorded") / study
    try:
        described = kept_results.variables(kept, recorded)
    except EmbscaleError as error:
        print(f"{error}; remove it and run again", file=sys.stderr)
        return 1
    if described["whose"] == kept_results.LOCAL:
        print(
            f"The results of this machine are not those recorded in git: {described['differences']}. "
            f"Another processor rounds differently, so last digits differ and training amplifies the differences. "
            f"{recorded} and {lock(study)} now contain the results of this machine; "
            f"`git checkout {recorded} {lock(study)}` "
            "restores the earlier record."
        )
    recorded.mkdir(parents=True, exist_ok=True)
    for pattern in KEPT:
        for path in kept.glob(pattern):
            shutil.copyfile(path, recorded / path.name)
    answers = Path("results") / study / "ladder"
    shutil.rmtree(recorded / "ladder", ignore_errors=True)
    shutil.copytree(answers, recorded / "ladder", ignore=lambda _, names: [n for n in names if not n.endswith(".csv")])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
