"""Compare trained with random tables on queries with rare and with frequent tokens.

Queries are parted into quarters by the mean logarithm of the document frequency of their tokens.

    embscale query-frequency scores/*.parquet --beir FOLDER --tokens TOKENS.safetensors --variants full unit
        --where metric=ndcg_at_10 --where length=64 -o rows.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli._per_query import read_per_query
from embscale.cli._rows import add_where
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.scores import Bootstrap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER", help="the task of these scores")
    parser.add_argument(
        "--tokens", type=Path, required=True, metavar="TOKENS.safetensors", help="from embscale tokenize"
    )
    parser.add_argument("--variants", nargs="+", required=True, help="of the last tables, as recorded in the rows")
    add_where(parser)
    flags.add(parser, Bootstrap)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV")


def run(args: argparse.Namespace) -> None:
    """Read, part the queries, compare, write."""
    import pandas as pd

    from embscale.scoring import query_frequency
    from embscale.texts import beir, tokens

    inputs = [*args.scores, *beir.files(args.beir, "test"), args.tokens]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        data = beir.load(args.beir)
        groups, made_of = tokens.load(args.tokens)
        if made_of["data_sha256"] != data.sha256:
            raise EmbscaleError(
                f"{args.tokens}: tokens of other texts than {args.beir}; make them with embscale tokenize"
            )
        found = query_frequency.mean_log_frequency(groups["documents"], groups["queries"])
        rows = query_frequency.by_quarter(
            read_per_query(args.scores, [f"task={data.name}", *args.where]),
            pd.Series(found, index=list(data.queries)),
            variants=args.variants,
            resamples=args.bootstrap_resamples,
            seed=args.bootstrap_seed,
        )
        rows.to_csv(output, index=False)
