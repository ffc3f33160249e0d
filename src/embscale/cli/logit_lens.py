"""Predict the next token from each layer's hidden states, with the model's own final norm and output table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli.geometry import add_keys, described
from embscale.parameters import flags
from embscale.parameters.layers import LogitLens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT_DIR", help="a folder in the Hugging Face layout")
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="of this checkpoint")
    flags.add(parser, LogitLens)
    add_keys(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="LENS.csv")


def run(args: argparse.Namespace) -> None:
    """Write a row for each layer and metric; none, with the reason, if the model has no logit lens."""
    import json

    import pandas as pd

    from embscale.layers import hidden_states, logit_lens, running

    inputs = [args.states, *running.checkpoint_files(args.checkpoint)]
    facts: dict[str, str] = {}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        states = hidden_states.load(args.states)
        model_type = json.loads((args.checkpoint / "config.json").read_text("utf-8")).get("model_type", "")
        rows = pd.DataFrame(columns=logit_lens.COLUMNS)
        if reason := logit_lens.why_not(model_type):
            facts["skipped"] = reason
            print(f"{args.checkpoint}: {reason}", file=sys.stderr)
        else:
            rows = logit_lens.lens(
                logit_lens.load_model(args.checkpoint),
                states,
                first_position=args.first_position,
                vectors=args.vectors,
                chunk=args.chunk,
                groups=args.groups,
                seed=args.seed,
            )
        described(rows, states, args).to_csv(output, index=False, float_format="%.6g")
