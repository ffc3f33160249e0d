"""Answer what the ladder is for: crossings, effects of variations, explanations, scaling laws, and what they cost."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.scores import Bootstrap, Margins

FILES = ("curves", "crossings", "effects", "explanations", "fits", "fitted", "costs")
RUN = ("SUITE", "WIDTH", "SEED", "FOLDER")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument(
        "--run", dest="runs", nargs=len(RUN), action="append", required=True, metavar=RUN,
        help="a training run and the folder that embscale train wrote; repeatable",
    )  # fmt: skip
    parser.add_argument("--study", required=True, metavar="NAME", help="recorded in the rows")
    parser.add_argument("--tokenizer", required=True, help="of the ladder's score rows")
    parser.add_argument("--task", required=True)
    parser.add_argument("--metric", required=True, help="MTEB's name of it")
    parser.add_argument("--length", required=True, help="first tokens of each document that count; or all")
    flags.add(parser, Bootstrap, Margins)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help=f"gets {', '.join(FILES)}, each a CSV"
    )


def run(args: argparse.Namespace) -> None:
    """Read, compute, write."""
    from embscale.answers import costs, crossings, curves, effects, explanations, fits, trained
    from embscale.claims import verdicts
    from embscale.rows.treatments import FULL, REFERENCE
    from embscale.scoring import scores
    from embscale.statistics.two_way import Resamples

    folders = [Path(folder) for *_, folder in args.runs]
    inputs = [*args.scores, *(folder / name for folder in folders for name in (trained.LOSSES, trained.COSTS))]
    outputs = [args.output / f"{name}.csv" for name in FILES]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as paths:
        runs = [
            trained.read(suite, _number("WIDTH", width), _number("SEED", seed), Path(folder))
            for suite, width, seed, folder in args.runs
        ]
        protocol = {"task": args.task, "length": args.length, "metric": args.metric}
        chosen = [*protocol.items(), ("tokenizer", args.tokenizer)]
        frames = [scores.read_parquet(path, where=chosen) for path in args.scores]
        tokens = {made.model: made.tokens for made in runs}
        chosen_rows = [frame[(frame["pooling"] == "mean") | (frame["suite"] == REFERENCE)] for frame in frames]
        (scored,) = scores.by_task(frame for frame in chosen_rows if len(frame)) or (None,)
        if scored is None:
            raise EmbscaleError(f"{args.scores[0]}: no scores on {args.task}, here or in the others; check the flags")
        found = {way: curves.curves(scored, tokens, treatment=way) for way in (FULL, *explanations.TREATMENTS)}
        if not found[FULL]:
            raise EmbscaleError(f"{args.scores[0]}: no scores of the given runs, here or in the others; check --run")
        ladder = found[FULL]
        resampled = Resamples(scored.clusters, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed)
        margins = flags.read(args, Margins)
        drawn = [compared for curve in ladder for compared in curves.compared(curve, resampled)]
        asked = explanations.Study(found, runs, resampled, margins)
        laws, fitted = fits.fits(ladder, runs, resampled)
        answers = {
            "curves": curves.rows(drawn, protocol, resampled),
            "crossings": crossings.rows(drawn, protocol, resampled),
            "effects": effects.rows(ladder, runs, resampled, margins),
            "explanations": explanations.rows(
                asked,
                files=verdicts.folders(args.scores, outputs[0]),
                command=verdicts.recomputed_by(args.command, outputs[0]),
            ),
            "fits": laws,
            "fitted": fitted,
            "costs": costs.rows(runs),
        }
        for name, path in zip(FILES, paths, strict=True):
            answers[name].assign(study=args.study).to_csv(path, index=False)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise EmbscaleError(f"--run: {name} {text!r}: expected a whole number") from None
