"""Clear Snakemake's lock after a run that was killed, once it is certain that no run is alive.

Snakemake's lock files know no process: after a kill they stay, and every later run stops at them.  The lock of
`guards.RunLock` ends with its process and so tells the two cases apart.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from guards import RunLock

LOCK_FILES = Path(".snakemake/locks")


def main() -> int:
    """Unlock the current folder if need be; 1 if a run is alive or the unlocking failed."""
    lock = RunLock()
    # Held until this process ends, so that no run starts while its lock files are being removed.
    if not lock.acquire():
        print(f"{lock.told_owner()}; wait for it or end it, then start again", file=sys.stderr)
        return 1
    if not any(LOCK_FILES.glob("*.lock")):
        return 0
    print("the last run was killed and left Snakemake's lock behind; removing it", file=sys.stderr)
    unlocking = subprocess.run([sys.executable, "-m", "snakemake", "--unlock"], capture_output=True, text=True)
    if unlocking.returncode:
        print(unlocking.stderr, file=sys.stderr)
    return unlocking.returncode


if __name__ == "__main__":
    sys.exit(main())
