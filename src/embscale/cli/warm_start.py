"""Train one model from tables of several kinds: held-out losses by step, and scores of its table before and after.

The corpus is also the retrieval task that tables are scored on.  Each run of the command uses one seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli._length import add_length, tokens_of
from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.corpus import TableRows
from embscale.parameters.training import Recipe, RunSeed, WarmRuns
from embscale.progress import progress
from embscale.tables import table_files
from embscale.texts import beir, streams, tokens

if TYPE_CHECKING:
    import numpy as np


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "table", type=Path, metavar="TABLE.safetensors", help="from embscale static; as wide as the model"
    )
    parser.add_argument("--corpus", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")
    flags.add(parser, TableRows, Recipe, WarmRuns, RunSeed)
    parser.add_argument("--metric", required=True, help="MTEB's name of it, such as ndcg_at_10")
    add_length(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ROWS.csv")


def run(args: argparse.Namespace) -> None:
    """Read texts and table, train from each start, score, write."""
    import torch

    from embscale.scoring.metrics import depth_of
    from embscale.scoring.retrieval import Scorer
    from embscale.training import ladder, warm_start

    torch.use_deterministic_algorithms(True)
    inputs = [*beir.files(args.corpus, "test"), args.tokens, tokens.tokenizer_file(args.tokenizer), args.table]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        training, unseen, _ = streams.read(beir.corpus_file(args.corpus), args.tokens, args.tokenizer, seed=args.seed)
        groups, _ = tokens.load(args.tokens)
        scorer = Scorer(
            beir.load(args.corpus),
            groups["documents"],
            groups["queries"],
            length=tokens_of(args.length),
            depth=depth_of(args.metric),
            device="cpu",
        )
        recipe = flags.read(args, Recipe)
        done = 0
        report = progress("tables scored", 2 * len(args.starts))

        def score(table: np.ndarray) -> tuple[float, int]:
            nonlocal done
            done += 1
            report(done, "")
            found = scorer.per_query(table, [args.metric])[args.metric]
            return float(found.mean()), len(found)

        warm_start.run_rows(
            args.starts,
            table=table_files.load(args.table),
            training=training,
            unseen=unseen[: ladder.HELDOUT_TOKENS],
            shape=ladder.shape(recipe) | {"vocab_size": args.vocab_size},
            schedule=ladder.Schedule.of(recipe, steps=args.steps, seed=args.seed),
            checkpoints=args.checkpoints,
            metric=args.metric,
            score=score,
            chance=float(scorer.chance([args.metric])[args.metric].mean()),
        ).to_csv(output, index=False)
