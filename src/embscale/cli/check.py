"""Check results before a report is made of them: complete, within bounds, and consistent with their notes."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path

from embscale.cli import parse
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("results", type=Path, nargs="+", metavar="FILE", help="inputs of the report")
    parser.add_argument("--folder", type=Path, required=True, help="of the study; its notes are followed")
    parser.add_argument("--scores", type=Path, required=True, metavar="CSV", help="from embscale gather")
    parser.add_argument("--layers", type=Path, required=True, metavar="CSV", help="from embscale keep")
    parser.add_argument("--metrics", nargs="+", required=True, help="expected of each score")
    parser.add_argument("--lengths", nargs="+", required=True, help="of documents; treated tables at the first alone")
    parser.add_argument(
        "--tables", nargs="+", required=True, metavar="TASK=MODEL=RUN=STEP=VARIANTS", help="expected scores"
    )
    parser.add_argument(
        "--random", nargs="+", required=True, metavar="TASK=TOKENIZER=WIDTH=SEEDS=VARIANTS", help="of random tables"
    )
    parser.add_argument(
        "--references", nargs="+", required=True, metavar="TASK=TOKENIZER=NAMES", help="of what needs no table"
    )
    parser.add_argument("--layer-models", nargs="*", required=True, metavar="MODEL", help="expected classifiers")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="JSON", help="gets the counts of what was checked"
    )


def run(args: argparse.Namespace) -> None:
    """Check everything, report every finding, and fail if there is one."""
    from embscale.provenance import result_check
    from embscale.rows import tidy

    inputs = [*args.results, args.scores, args.layers]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as [output]:
        notes = result_check.reached_notes(inputs, args.folder)
        digests: dict[Path, str] = {}
        problems = []
        for path, note in notes.items():
            problems += result_check.note_problems(path, note, digests)
            problems += result_check.parameter_problems(path, note, functools.partial(parse, note["command"]))
        scores, layers = tidy.load(args.scores), tidy.load(args.layers)
        options = {name: getattr(args, name) for name in ("metrics", "lengths", "tables", "random", "references")}
        problems += result_check.score_problems(scores, **options)
        problems += result_check.layer_problems(layers, models=args.layer_models)
        for line in problems:
            print(line, file=sys.stderr)
        if problems:
            raise EmbscaleError(f"{args.folder}: {len(problems)} findings, the first: {problems[0]}")
        for path in result_check.leftovers(notes, args.folder):
            # Only to the log: what else lies in the folder does not follow from what was checked.
            print(f"{path}: no result of this study leads to it", file=sys.stderr)
        counts = {"notes": len(notes), "files": len(digests), "scores": len(scores), "layers": len(layers)}
        output.write_text(json.dumps({"checked": counts}, indent=1) + "\n", "utf-8")
