"""Score embedding tables, and variants of them, on a retrieval task; keep the score of every query."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale import beir, scores, tables, tokens
from embscale.artifacts import recorded
from embscale.errors import EmbscaleError
from embscale.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

RANDOM = "random"
MAIN = "main"  # the step of a published checkpoint that does not tell it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--table",
        dest="tables",
        action="append",
        required=True,
        metavar="STEP=FILE | random:ROWSxDIMS:SEED",
        help="a table with the training step it was saved at (main if unknown), or a random one; can be given again",
    )
    parser.add_argument("--suite", required=True, help="goes into the rows")
    parser.add_argument("--model", required=True, help="goes into the rows")
    parser.add_argument("--tokenizer", required=True, metavar="NAME", help="goes into the rows")
    parser.add_argument("--task", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokens", type=Path, required=True, help="the task tokenised by embscale tokenize")
    parser.add_argument(
        "--variant", dest="variants", action="append", default=[], help="of the last table; 'full' always"
    )
    parser.add_argument("--metric", dest="metrics", action="append", required=True, help="MTEB's name of it")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="SCORES.parquet", help="a row per query")


def run(args: argparse.Namespace) -> None:
    """Score every table as it is, and the variants of the last one."""
    import pandas as pd
    import torch

    from embscale.retrieval import Scorer

    torch.set_num_threads(args.threads)
    variants = [tables.Variant.parse(text) for text in args.variants]
    files = [Path(text.partition("=")[2]) for text in args.tables if not text.startswith(f"{RANDOM}:")]
    names = ("tables", "suite", "model", "tokenizer", "variants", "metrics", "threads")
    params = {name: getattr(args, name) for name in names}
    inputs = [*files, args.tokens, *beir.files(args.task, "test")]
    with recorded(command="score", params=params, inputs=inputs, outputs=[args.output]) as (output,):
        data = beir.load(args.task)
        groups, made_of = tokens.load(args.tokens)
        if made_of["data_sha256"] != data.sha256:
            raise EmbscaleError(
                f"{args.tokens}: made of other texts than {args.task} holds; run embscale tokenize again"
            )
        scorer = Scorer(data, groups["documents"], groups["queries"])
        shared = {
            "suite": args.suite,
            "model": args.model,
            "tokenizer": args.tokenizer,
            "task": data.name,
            "tokenizer_sha256": made_of["tokenizer_sha256"],
            "data_sha256": data.sha256,
        }
        cases = list(_cases(args.tables, variants))
        report = progress(args.model, len(cases))
        rows = []
        for done, (keys, load) in enumerate(cases, 1):
            table = load()
            keys |= {"dim": table.shape[1], "table_sha256": tables.sha256(table)}
            rows.append(scores.long_rows(scorer.per_query(table, args.metrics), shared | keys, args.metrics))
            report(done, f"{keys['variant']} {keys['dim']}")
        scores.write_parquet(pd.concat(rows, ignore_index=True), output)


def _cases(
    specifications: list[str], variants: list[tables.Variant]
) -> Iterator[tuple[dict[str, Any], Callable[[], np.ndarray]]]:
    """What to score: the keys of its rows, and a function that gives the table."""
    for number, text in enumerate(specifications):
        if text.startswith(f"{RANDOM}:"):
            rows, dims, seed = tables.parse_random(text)
            keys = {"step": scores.NONE, "variant": RANDOM, "variant_dims": dims, "seed": seed}
            yield keys, functools.partial(tables.random, rows, dims, seed=seed)
            continue
        step, _, name = text.partition("=")
        is_last = number == len(specifications) - 1
        for variant in [tables.Variant("full"), *(variants if is_last else [])]:
            keys = {
                "step": scores.NONE if step == MAIN else int(step),
                "variant": variant.kind,
                "variant_dims": scores.NONE if variant.dims is None else variant.dims,
                "seed": scores.NONE if variant.seed is None else variant.seed,
            }
            yield keys, functools.partial(_changed, Path(name), variant)


def _changed(path: Path, variant: tables.Variant) -> np.ndarray:
    return variant.apply(tables.load(path))
