"""Take the environment's file out of Snakemake's records, which hold a copy in each of some hundred of them.

It would be most of what the records weigh in a remote.  Snakemake itself never reads it but for ``--report``; whether
software has changed it tells by a digest, which stays.  Part of ``make record``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from embscale.provenance.snakemake_metadata import METADATA


def strip_environment(metadata: Path = METADATA) -> int:
    """Trim every record; returns how many were."""
    trimmed = 0
    for path in sorted(path for path in metadata.rglob("*") if path.is_file()):
        record = json.loads(path.read_text("utf-8"))
        if record.get("conda_env"):
            unfinished = path.with_name(f"{path.name[:-1]}~")
            unfinished.write_text(json.dumps(record | {"conda_env": None}), "utf-8")
            unfinished.replace(path)
            trimmed += 1
    return trimmed


if __name__ == "__main__":
    strip_environment()
    sys.exit(0)
