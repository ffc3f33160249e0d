"""Strip the environment file from Snakemake's records, about a hundred of which contain a copy.

The copies would be most of the records' size in a remote.  Snakemake reads them only for ``--report``; it detects
changed software by a digest, which is kept.  Part of ``make record``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from embscale.provenance.snakemake_metadata import METADATA


def strip_environment(metadata: Path = METADATA) -> int:
    """Strip every record; returns the number of changed records."""
    stripped = 0
    for path in sorted(path for path in metadata.rglob("*") if path.is_file()):
        record = json.loads(path.read_text("utf-8"))
        if record.get("conda_env"):
            unfinished = path.with_name(f"{path.name[:-1]}~")
            unfinished.write_text(json.dumps(record | {"conda_env": None}), "utf-8")
            unfinished.replace(path)
            stripped += 1
    return stripped


if __name__ == "__main__":
    strip_environment()
    sys.exit(0)
