"""Test the claims of Huang et al. 2024 on the layer results; a verdict with an interval for each."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance

KINDS = {
    "probes": "from embscale probe",
    "grid": "from embscale grid",
    "transfer": "from embscale transfer",
    "ablations": "from embscale ablate",
    "structure": "from embscale geometry",
    "quality": "from embscale reductions",
    "repeated": "from embscale faithful-layers",
}
TABLES = ("layer_claims_not_run", "layer_comparison")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    for kind, source in KINDS.items():
        parser.add_argument(f"--{kind}", type=Path, nargs="*", default=[], metavar="CSV", help=f"rows {source}")
    parser.add_argument("--claims", type=Path, required=True, metavar="YAML", help="workflow/layer_claims.yaml")
    parser.add_argument("--texts", required=True, help="name of the texts on which layers are classified")
    parser.add_argument("--other-texts", required=True, help="name of the texts that classifiers are transferred to")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row for each claim")
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="gets one .md per table")


def run(args: argparse.Namespace) -> None:
    """Read, test, correct, write."""
    import pandas as pd

    from embscale.claims import layer_claims, published_scores, verdicts
    from embscale.rows import tidy

    paths = {kind: getattr(args, kind) for kind in KINDS}
    inputs = [*(path for several in paths.values() for path in several), args.claims, published_scores.LAYERS_FILE]
    outputs = [args.output, *(args.tables / f"{name}.md" for name in TABLES)]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as (csv, not_run, compared):
        entries = verdicts.load(args.claims, layer_claims.STATISTICS)
        frames = {
            kind: pd.concat(map(tidy.load, several), ignore_index=True) for kind, several in paths.items() if several
        }
        ledger = layer_claims.ledger(
            entries,
            frames,
            texts=args.texts,
            other_texts=args.other_texts,
            files={kind: verdicts.folders(several, args.output) for kind, several in paths.items() if several},
            command=verdicts.recomputed_by(args.command, args.output),
        )
        ledger.to_csv(csv, index=False)
        not_run.write_text(verdicts.not_run_table(ledger), "utf-8")
        both = layer_claims.beside_published(layer_claims.read(frames))
        compared.write_text(published_scores.layer_comparison_table(both), "utf-8")
