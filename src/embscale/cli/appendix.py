"""Write the tables of the report's appendix: settings as run, what was not run, and the data dictionary."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.provenance.artifacts import read_note
from embscale.rows import tidy

TABLES = ("settings", "not_run", "dictionary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--notes", type=Path, nargs="+", required=True, metavar="JSON", help="beside a result of each kind of job"
    )
    parser.add_argument("--inventory", type=Path, required=True, metavar="CSV", help="from embscale inventory")
    parser.add_argument("--left-out", nargs="*", default=[], metavar="RUN=REASON", help="training runs not made")
    parser.add_argument("--claims", type=Path, nargs="+", required=True, metavar="CSV", help="ledgers of claims")
    parser.add_argument(
        "--other-tasks", type=Path, action="append", default=[], metavar="CSV", help="from embscale evaluate"
    )
    parser.add_argument("--partials", type=Path, nargs="+", required=True, metavar="MD", help="from embscale draw")
    parser.add_argument("--readme", type=Path, required=True, metavar="MD", help="describes the columns of tables")
    parser.add_argument("--scores", type=Path, required=True, metavar="CSV", help="from embscale gather")
    parser.add_argument("--probes", type=Path, required=True, metavar="CSV", help="from embscale probe")
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="gets one .md per table")


def run(args: argparse.Namespace) -> None:
    """Read notes and results, write tables."""
    from embscale.report import appendix

    inputs = [
        *args.notes,
        args.inventory,
        *args.claims,
        *args.other_tasks,
        *args.partials,
        args.readme,
        args.scores,
        args.probes,
    ]
    outputs = [args.tables / f"{name}.md" for name in TABLES]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as tables:
        checked = {"scores.csv": args.scores, "probes/MODEL.csv": args.probes}
        columns = {name: tidy.load(path) for name, path in checked.items()}
        texts = (
            appendix.settings_table([read_note(note) for note in args.notes]),
            appendix.not_run_table(
                tidy.load(args.inventory),
                [tidy.load(ledger) for ledger in args.claims],
                {partial.stem: partial.read_text("utf-8") for partial in args.partials},
                len(args.other_tasks),
                dict(text.split("=", 1) for text in args.left_out),
            ),
            appendix.dictionary(args.readme.read_text("utf-8"), columns),
        )
        for path, text in zip(tables, texts, strict=True):
            path.write_text(text, "utf-8")
