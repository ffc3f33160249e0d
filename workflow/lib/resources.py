"""Write what the rules of a study need into a profile: ``python workflow/lib/resources.py STUDY PROFILE``.

The memory and the time of each rule come from the benchmark files of a study that was computed on this machine.  They
become the last block of ``PROFILE/config.yaml``, ``set-resources``; the rest of the file stays as it is.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from embscale.errors import EmbscaleError
from embscale.provenance.costs import costs
from pipelines import UnknownStudyError, configuration

HEAD = "# Measured with the study "
MARGIN = 1.5  # of memory, above the largest job that was measured
STEP_MB = 250
SLOWER = 4  # another processor, shared with others
LEAST_MINUTES = 10


def owner(rule: str, steps: Iterable[str]) -> str | None:
    """The folder of a rule's benchmark files: of its own name, or of the longest name that it begins with."""
    return max((step for step in steps if rule == step or rule.startswith(f"{step}_")), key=len, default=None)


def resources(rules: Iterable[str], folder: Path) -> dict[str, dict[str, str]]:
    """Memory and time that each rule asks for, with more at each attempt.

    Args:
        rules: their names; those that were not measured are left to the profile's defaults.
        folder: of benchmark files, ``results/STUDY/benchmarks``.

    Raises:
        EmbscaleError: there are none, or one is damaged.
    """
    steps = sorted(path.name for path in folder.iterdir() if any(path.glob("*.tsv"))) if folder.is_dir() else []
    if not steps:
        raise EmbscaleError(f"{folder}: no benchmark files; compute the study on this machine first")
    measured = costs(folder, steps).set_index("step")
    asked = {}
    for rule in sorted(rules):
        step = owner(rule, steps)
        if step is not None:
            memory = STEP_MB * math.ceil(MARGIN * measured["memory_mib"][step] / STEP_MB)
            minutes = max(LEAST_MINUTES, math.ceil(SLOWER * measured["longest_seconds"][step] / 60))
            asked[rule] = {
                "mem_mb": f"max({max(memory, STEP_MB)}, 6 * input.size_mb) * attempt",
                "runtime": f"{minutes} * attempt",
            }
    return asked


def with_resources(profile: str, study: str, asked: Mapping[str, Mapping[str, str]]) -> str:
    """The text of a profile with these resources at its end, in the place of earlier ones."""
    lines = [f"{HEAD}{study}, by workflow/lib/resources.py: MiB, at least, and minutes.", "set-resources:"]
    for rule, values in asked.items():
        lines += [f"  {rule}:", *(f"    {name}: {json.dumps(value)}" for name, value in values.items())]
    return "\n".join([profile.partition(HEAD)[0].rstrip("\n"), *lines]) + "\n"


def main(study: str, profile: Path) -> None:
    """Read benchmark files, write the profile."""
    listed = subprocess.run(
        ["snakemake", "--list-rules", *configuration(study)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    rules = re.findall(r"^\w+", listed.stdout, re.MULTILINE)
    config = profile / "config.yaml"
    asked = resources(rules, Path("results") / study / "benchmarks")
    config.write_text(with_resources(config.read_text("utf-8"), study, asked), "utf-8")
    print(f"{config}: resources of {len(asked)} rules")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.partition("\n")[0])
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except (EmbscaleError, UnknownStudyError, FileNotFoundError) as error:
        sys.exit(f"resources: {error}")
