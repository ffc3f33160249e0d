"""Score a table with and without the learned positions of its checkpoint added.

  embscale position-scores gpt2/ --beir FOLDER --tokens TOKENS.safetensors --metric ndcg_at_10 ... -o ROWS.csv

Texts are truncated at the number of positions.  embscale add-positions writes table and texts for other uses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._keys import OfSuite
from embscale.cli._note import write_with_provenance
from embscale.cli.positions import local_files, open_checkpoint
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.primer import PositionSeeds
from embscale.parameters.scores import Bootstrap
from embscale.texts import beir, tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", metavar="REPO[@REVISION] | FOLDER | package:NAME/FOLDER")
    parser.add_argument("--subfolder", default="", help="the checkpoint's folder inside the repository")
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER", help="a task in the BEIR format")
    parser.add_argument("--tokens", type=Path, required=True, help="the task tokenised by embscale tokenize")
    parser.add_argument("--metric", required=True, help="MTEB's name of it, such as ndcg_at_10")
    flags.add(parser, PositionSeeds, Bootstrap)
    flags.add(parser, OfSuite)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ROWS.csv")


def run(args: argparse.Namespace) -> None:
    """Read table and positions, score, write."""
    from embscale.checkpoints.weights import Weights, read_config
    from embscale.primer import position_scores, positions
    from embscale.tables import extraction

    source, facts = open_checkpoint(args.checkpoint, args.subfolder)
    config = read_config(source)
    location = extraction.locate(source, config, "input")
    weights = Weights(source)
    names = (location.tensor.name,)
    needed = positions.needed_tensor(config)
    files = local_files(source, weights, [names, *([needed] if needed else [])])
    inputs = [*beir.files(args.beir, "test"), args.tokens, *files]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        data = beir.load(args.beir)
        groups, made_of = tokens.load(args.tokens)
        if made_of["data_sha256"] != data.sha256:
            raise EmbscaleError(
                f"{args.tokens}: made of other texts than {args.beir} holds; run embscale tokenize again"
            )
        stored = weights.read(names)
        assert stored is not None
        both = positions.table_with_positions(config, stored, weights.read)
        position_scores.position_score_rows(
            data,
            groups["documents"],
            groups["queries"],
            table=both[: len(stored)],
            vectors=both[len(stored) :],
            metric=args.metric,
            seeds=args.seeds,
            resamples=args.bootstrap_resamples,
            bootstrap_seed=args.bootstrap_seed,
        ).assign(suite=args.suite, model=args.model).to_csv(output, index=False)
