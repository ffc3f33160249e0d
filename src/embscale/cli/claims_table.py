"""Write a ledger of claims as a table for the report, with the number of claims by verdict."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "ledger", type=Path, metavar="CLAIMS.csv", help="from embscale claims or embscale layer-claims, with its note"
    )
    parser.add_argument(
        "--text", type=Path, nargs="+", required=True, metavar="QMD", help="chapters, which give figures their labels"
    )
    parser.add_argument("--table", type=Path, required=True, metavar="MD", help="a row for each claim that was tested")
    parser.add_argument("--tallies", type=Path, required=True, metavar="MD", help="how many claims have each verdict")
    parser.add_argument("--data", type=Path, required=True, metavar="CSV", help="the ledger to download, beside a page")
    parser.add_argument("--data-note", type=Path, required=True, metavar="JSON", help="its note, beside it")


def run(args: argparse.Namespace) -> None:
    """Read, write, copy."""
    from embscale.report import claims_table

    note = args.ledger.with_name(f"{args.ledger.name}.note.json")
    outputs = [args.table, args.tallies, args.data, args.data_note]
    with write_with_provenance(args, inputs=[args.ledger, note, *args.text], outputs=outputs) as written:
        table, tallies, data, data_note = written
        rows = claims_table.read(args.ledger)
        labels = claims_table.figure_labels(path.read_text("utf-8") for path in args.text)
        table.write_text(claims_table.verdicts_table(rows, labels, args.data.name), "utf-8")
        tallies.write_text(claims_table.tallies(rows), "utf-8")
        data.write_bytes(args.ledger.read_bytes())
        data_note.write_bytes(note.read_bytes())
