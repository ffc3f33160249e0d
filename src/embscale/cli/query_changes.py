"""List the queries that gain and that lose most by training, from each model's last table beside random tables.

embscale query-changes scores/*.parquet --beir FOLDER --queries-listed 20
--where metric=ndcg_at_10 --where length=64 -o rows.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli._per_query import read_per_query
from embscale.cli._rows import add_where
from embscale.parameters import flags
from embscale.parameters.study import ListedQueries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER", help="the task of these scores")
    add_where(parser)
    flags.add(parser, ListedQueries)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV")


def run(args: argparse.Namespace) -> None:
    """Read, compare, list, write."""
    from embscale.scoring import query_changes
    from embscale.texts import beir

    inputs = [*args.scores, *beir.files(args.beir, "test")]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        data = beir.load(args.beir)
        rows = query_changes.changes(
            read_per_query(args.scores, [f"task={data.name}", *args.where]), data.queries, count=args.queries_listed
        )
        rows.to_csv(output, index=False)
