"""Clear what a killed run left, once it is certain that no run is active: Snakemake's lock, and unfinished outputs.

Snakemake's lock files know no process: after a kill they stay, and every later run stops at them.  The lock of
`locks.RunLock` ends with its process and so distinguishes the two cases.  A run takes it a few seconds after it began;
one that DVC started and that outlived it may still be on its way there, so that a Snakemake of this folder is waited
for until it holds the lock or has ended.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from embscale.provenance.artifacts import remove_unfinished
from locks import RunLock

LOCK_FILES = Path(".snakemake/locks")
STARTING_SECONDS = 30  # within which a run has taken the lock, on a slow machine too


def snakemakes(folder: Path) -> list[int]:
    """Snakemake processes running in a folder that are runs, not jobs of one."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        words = process.info["cmdline"] or []
        named = any(Path(word).name == "snakemake" for word in words[:3])  # python -m snakemake, or its script
        if named and "--mode" not in words and process.info["cwd"] == str(folder):
            found.append(process.pid)
    return found


def main() -> int:
    """Unlock the current folder if needed; returns 1 if a run is active or unlocking failed."""
    lock = RunLock()
    deadline = time.monotonic() + STARTING_SECONDS
    while lock.unowned() and snakemakes(Path.cwd()) and time.monotonic() < deadline:
        time.sleep(0.2)
    # Kept until this process ends, so that no run starts while the lock files are being removed.
    if not lock.acquire():
        print(lock.refusal, file=sys.stderr)
        return 1
    removed = remove_unfinished(Path("results"))
    if removed:
        print(f"removed {len(removed)} folders that killed jobs left: {removed[0]} ...", file=sys.stderr)
    if not any(LOCK_FILES.glob("*.lock")):
        return 0
    print("the last run was killed and left Snakemake's lock behind; removing it", file=sys.stderr)
    unlocking = subprocess.run([sys.executable, "-m", "snakemake", "--unlock"], capture_output=True, text=True)
    if unlocking.returncode:
        print(unlocking.stderr, file=sys.stderr)
    return unlocking.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PermissionError as error:
        sys.exit(f"{error.filename}: {error.strerror}; this checkout is another user's: work in a copy of your own")
