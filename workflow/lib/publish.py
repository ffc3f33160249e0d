"""Push the recorded results that licences allow to the default remote; the remote in git is kept small.

The last part of ``make record``, after ``dvc repro``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from embscale.checkpoints.sharing import withheld
from embscale.checkpoints.suites import load

# The remote that the repository carries (.dvc/config): every clone downloads it, so it contains only the newest record.
# Older ones are in the history of git.
CARRIED, FOLDER, MOST_MB = "carried", Path("remote"), 36


def main() -> int:
    """Check and push; 1 if something must not be pushed or is too large."""
    hub = yaml.safe_load(Path("params.yaml").read_text("utf-8"))["hub"]
    files = _dvc("list", ".", "--recursive", "--dvc-only").splitlines()
    reasons = withheld(files, load(Path(hub["registry"]), Path(hub["pins"])))
    for path, reason in reasons.items():
        print(f"{path}: not to be pushed: {reason}; take it out of dvc.yaml or name it in .dvcignore", file=sys.stderr)
    if reasons:
        return 1
    carried = _dvc("config", "core.remote").strip() == CARRIED
    if carried:
        # Start from an empty remote: DVC assumes that existing objects are intact and that listed folders are
        # complete.
        shutil.rmtree(FOLDER, ignore_errors=True)
    print(_dvc("push"), end="")
    if carried:
        size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) / 1e6
        if size > MOST_MB:
            print(
                f"{FOLDER}: {size:.1f} MB, more than the {MOST_MB} that a repository should carry; name what is large "
                "in .dvcignore, or set up a remote (docs/recording.md)",
                file=sys.stderr,
            )
            return 1
        print(f"recorded: {len(files)} files, {size:.1f} MB in {FOLDER}; now commit dvc.lock, recorded and {FOLDER}")
    return 0


def _dvc(*arguments: str) -> str:
    """What a DVC command prints; its errors go to the terminal."""
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
