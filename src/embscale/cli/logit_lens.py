"""Let each layer's hidden states predict the next token, with the model's own final norm and output table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli.geometry import KEYS, add_keys, described
from embscale.provenance.artifacts import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT_DIR", help="a folder in the Hugging Face layout")
    parser.add_argument("states", type=Path, metavar="STATES.safetensors", help="of this checkpoint")
    parser.add_argument("--vectors", type=int, required=True, help="hidden states of each layer to look at")
    parser.add_argument("--chunk", type=int, required=True, help="hidden states at once; bounds the memory")
    parser.add_argument("--groups", type=int, required=True, help="of texts, left out in turn for the intervals")
    parser.add_argument("--seed", type=int, required=True, help="of the choice of hidden states and of the groups")
    add_keys(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="LENS.csv")


def run(args: argparse.Namespace) -> None:
    """Write a row for each layer and metric; none, with the reason, where there is nothing to measure."""
    import json

    import pandas as pd

    from embscale.layers import hidden_states, logit_lens, running

    params = {name: getattr(args, name) for name in ("first_position", "vectors", "groups", "seed", *KEYS)}
    inputs = [args.states, *running.checkpoint_files(args.checkpoint)]
    facts: dict[str, str] = {}
    with recorded(command="logit-lens", params=params, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
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
