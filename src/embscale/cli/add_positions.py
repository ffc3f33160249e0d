"""Add learned positions to retrieval: append them to a table as rows, and write texts that use both.

embscale score accepts both, with mean pooling.  Token counts are doubled, so variants that weight tokens do not apply.
To see what the positions change, score the table alone on the tokens that were given here:

  embscale add-positions gpt2/ --tokens TOKENS --table TABLE.safetensors --placed-tokens PLACED.safetensors
  embscale score TABLE.safetensors --tokens PLACED.safetensors --beir FOLDER -o scores.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli.positions import local_files, open_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", metavar="REPO[@REVISION] | FOLDER | package:NAME/FOLDER")
    parser.add_argument("--subfolder", default="", help="the checkpoint's folder inside the repository")
    parser.add_argument(
        "--tokens",
        type=Path,
        required=True,
        metavar="TOKENS.safetensors",
        help="from embscale tokenize, with a --max-length of at most the number of positions",
    )
    parser.add_argument("--table", type=Path, required=True, metavar="TABLE.safetensors", help="is written")
    parser.add_argument("--placed-tokens", type=Path, required=True, metavar="TOKENS.safetensors", help="is written")


def run(args: argparse.Namespace) -> None:
    """Write the table and the texts."""
    from embscale.checkpoints.weights import Weights, read_config
    from embscale.primer import positions
    from embscale.tables import extraction, table_files
    from embscale.texts import tokens

    source, facts = open_checkpoint(args.checkpoint, args.subfolder)
    config = read_config(source)
    location = extraction.locate(source, config, "input")
    weights = Weights(source)
    names = (location.tensor.name,)
    endings = [names, *([needed] if (needed := positions.needed_tensor(config)) else [])]
    inputs = [args.tokens, *local_files(source, weights, endings)]
    outputs = [args.table, args.placed_tokens]
    with write_with_provenance(args, inputs=inputs, outputs=outputs, facts=facts) as (
        table_path,
        tokens_path,
    ):
        rows = weights.read(names)
        assert rows is not None
        table = positions.table_with_positions(config, rows, weights.read)
        groups, made_of = tokens.load(args.tokens)
        count = len(rows)
        placed = {name: positions.with_positions(texts, count, len(table) - count) for name, texts in groups.items()}
        table_files.save(table_path, table, {"positions": f"rows from {count}"})
        tokens.save(tokens_path, placed, made_of | {"positions": "one token more for each"})
