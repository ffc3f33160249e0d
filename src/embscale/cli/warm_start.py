"""Gather runs of one rung that differ in how their input table starts: losses by step, and scores of the last table."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.artifacts import note_path, read_note, recorded
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "losses", type=Path, nargs="+", metavar="MODEL/losses.csv", help="from embscale train, with the note beside it"
    )
    parser.add_argument(
        "--scores", type=Path, nargs="+", required=True, metavar="SCORES.csv", help="from embscale score, of the models"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row per run, step, metric")


def run(args: argparse.Namespace) -> None:
    """Read what each run was, join its losses and scores, write."""
    import pandas as pd

    from embscale.warm_start import rows

    notes = [note_path(path) for path in args.losses]
    inputs = [*args.losses, *notes, *args.scores]
    with recorded(command="warm-start", params={}, inputs=inputs, outputs=[args.output]) as (output,):
        runs = {path.parent.name: read_note(note)["params"] for path, note in zip(args.losses, notes, strict=True)}
        if len(runs) < len(args.losses):
            raise EmbscaleError("two losses.csv lie in folders of one name, which is the model's; rename one")
        losses = {path.parent.name: pd.read_csv(path) for path in args.losses}
        scores = pd.concat([pd.read_csv(path) for path in args.scores], ignore_index=True)
        rows(runs, losses, scores).to_csv(output, index=False)
