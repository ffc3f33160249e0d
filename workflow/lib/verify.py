"""Compute recorded results again and compare: ``python workflow/lib/verify.py [STUDY] [--chapter NAME | --minutes N]``.

For ``make verify``.  Jobs run in a copy of the checkout that knows nothing of the record, ``results/verify/STUDY``.  It
stays: a second call goes on where the first ended.  With ``--minutes`` jobs are drawn at random until the time is up,
each with all that it is made from.  The end is a table, ``verified.json`` and ``badge.svg`` in that folder.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from embscale.errors import EmbscaleError
from embscale.provenance import verification
from embscale.provenance.notes import NOTE_SUFFIX, read_note
from embscale.report.machine import machine
from pipelines import UnknownStudyError, configuration, default_study, pipeline

NOT_DRAWN = "report"  # pages and figures of a study with every result in them
LEAST_SECONDS = 5.0
COLOURS = {True: "#2e7d32", False: "#b71c1c"}


def chapters(study: str) -> dict[str, str]:
    """The stage to which the folders and files of ``results/STUDY`` belong, by the first part of a path."""
    stages = yaml.safe_load(pipeline(study).read_text("utf-8"))["stages"]
    found = {}
    for name, stage in stages.items():
        for out in stage["outs"]:
            path = Path(out if isinstance(out, str) else next(iter(out)))
            with contextlib.suppress(ValueError):
                parts = Path(str(path).replace("${study}", study)).relative_to(Path("results") / study).parts
                found[parts[0]] = name
    return found


def copy_checkout(target: Path) -> None:
    """Copy the files that git knows, as they are now; with them come no results.

    Raises:
        EmbscaleError: git knows none, as in an unpacked archive.
    """
    # Of this folder alone: an archive may lie in another repository, or the checkout be another user's.
    command = ["git", "--git-dir=.git", "ls-files", "-z"]
    listed = subprocess.run(command, check=False, capture_output=True)
    if listed.returncode:
        raise EmbscaleError(f"{Path.cwd()}: git does not list its files; make verify needs a clone of the repository")
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copy = Path(name), target / name
        if not source.is_file():
            copy.unlink(missing_ok=True)
        elif not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    # What was fetched from a hub is pinned, and verified wherever it is used.
    if Path("results/hub").is_dir() and not (target / "results/hub").exists():
        (target / "results").mkdir(exist_ok=True)
        (target / "results/hub").symlink_to(Path("results/hub").resolve())


def drawn(recorded: Path, stages: Mapping[str, str], seed: int) -> list[str]:
    """The first output of every recorded job but those of the report, in random order; below the study's folder."""
    found = []
    for path in sorted(recorded.rglob(f"*{NOTE_SUFFIX}")):
        name = path.relative_to(recorded)
        if stages.get(name.parts[0], NOT_DRAWN) != NOT_DRAWN:
            read_note(path)
            found.append(name.as_posix().removesuffix(NOTE_SUFFIX))
    random.Random(seed).shuffle(found)
    return found


def compute(folder: Path, study: str, targets: Sequence[str], seconds: float | None) -> bool:
    """Run Snakemake in a folder; whether it came to its end in time.

    Raises:
        EmbscaleError: a job failed.
    """
    command = ["snakemake", "--cores", "all", *configuration(study), "--", *targets]
    with subprocess.Popen(command, cwd=folder, start_new_session=True) as process:
        try:
            status = process.wait(seconds)
        except BaseException as reason:
            # Everything that it started, as jobs would otherwise go on.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            subprocess.run([sys.executable, "workflow/lib/recover.py"], cwd=folder, check=False)
            if isinstance(reason, subprocess.TimeoutExpired):
                return False
            raise
    if status:
        raise EmbscaleError(f"{folder}: computing {' '.join(targets)} failed; its log is there")
    return True


def badge(result: Mapping[str, Any]) -> str:
    """An SVG of one line: whether the record was reproduced, where and when, and by what tolerance."""
    left = "reproduced" if result["reproduced"] else "not reproduced"
    right = f"{result['processor']}, {result['date']}, {result['tolerance']}"
    widths = [7 * len(text) + 12 for text in (left, right)]
    texts = [
        f'<rect x="{x}" width="{width}" height="20" fill="{fill}"/>'
        f'<text x="{x + width / 2}" y="14" text-anchor="middle">{escape(text)}</text>'
        for x, width, fill, text in (
            (0, widths[0], COLOURS[result["reproduced"]], left),
            (widths[0], widths[1], "#555", right),
        )
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sum(widths)}" height="20" role="img"'
        f' aria-label="{escape(f"{left}: {right}")}" font-family="Verdana, sans-serif" font-size="11" fill="#fff">'
        f"{''.join(texts)}</svg>\n"
    )


def table(result: Mapping[str, Any]) -> str:
    """The counts of a result in lines, a chapter each."""
    head = ["chapter", *verification.WORDS]
    lines = [[chapter, *(str(count) for count in counts.values())] for chapter, counts in result["by_chapter"].items()]
    widths = [max(len(row[place]) for row in (head, *lines)) for place in range(len(head))]
    return "\n".join(
        "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True)) for row in (head, *lines)
    )


def main() -> int:
    """Compute, compare, write; 1 if anything is off or cannot be verified."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", nargs="?", help="its name (default: that of params.yaml)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--chapter", help="a stage of the pipeline, such as scores, with all that it is made from")
    what.add_argument("--minutes", type=float, help="random jobs until the time is up (default: everything)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the order of random jobs")
    args = parser.parse_args()
    try:
        study = args.study or default_study()
        stages = chapters(study)
        recorded, folder = Path("results") / study, Path("results/verify") / study
        if args.chapter and args.chapter not in stages.values():
            raise EmbscaleError(f"chapter {args.chapter}: there are {', '.join(dict.fromkeys(stages.values()))}")
        order = drawn(recorded, stages, args.seed)
        if not order:
            raise EmbscaleError(f"{recorded}: no recorded results; first run make fetch STUDY={study}")
        copy_checkout(folder)
        if args.minutes:
            print(f"random jobs for {args.minutes:g} minutes, seed {args.seed}", file=sys.stderr)
            end = time.monotonic() + 60 * args.minutes
            # Those of an earlier call last, as there is nothing left to compute.
            for name in sorted(order, key=lambda name: (folder / recorded / name).exists()):
                left = end - time.monotonic()
                if left < LEAST_SECONDS or not compute(folder, study, [str(recorded / name)], left):
                    break
        else:
            compute(folder, study, [f"chapter_{args.chapter}" if args.chapter else "all"], None)
        found = verification.compare_jobs(folder / recorded, recorded)
    except (EmbscaleError, UnknownStudyError, OSError) as error:
        print(f"make verify: {error}", file=sys.stderr)
        return 1
    result = verification.summary(found, stages) | {
        "study": study,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": machine(),
        "tolerance": verification.TOLERANCE_IN_WORDS,
        "jobs_in_record": len(order),
        "seed": args.seed if args.minutes else None,
    }
    (folder / "verified.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (folder / "badge.svg").write_text(badge(result), "utf-8")
    print(table(result))
    for one in result["worst"]:
        print(f"{one['word']}: {one['path']}: {one['where']}")
    words = "reproduced" if result["reproduced"] else "not reproduced"
    print(
        f"{words}: {result['compared']} of {result['outputs']} outputs of {study} compared on {result['processor']}; "
        f"{folder}/verified.json, badge.svg"
    )
    return 0 if result["reproduced"] else 1


if __name__ == "__main__":
    sys.exit(main())
