"""Score embedding tables, and variants of them, on retrieval tasks in the BEIR format.

A table is a file (FILE, or STEP=FILE to record the training step in the rows), random (random:ROWSxDIMS:SEED; with
:legacy or :current appended, drawn as in Corey 2024 by one of torch's two generators), or one of the lexical baselines
overlap, overlap_idf and bm25, which need no table.

    embscale score random:50304x512:42 --tokenizer DIR --beir FOLDER --faithful -o scores.csv
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from embscale.cli._length import ALL, length, tokens_of
from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import count, natural
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.kinds import Device, SpecialTokens
from embscale.parameters.scores import Bootstrap, Pooling
from embscale.progress import progress
from embscale.scoring import engine, named_tables, scores
from embscale.statistics.clusters import query_clusters
from embscale.texts import beir, tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from embscale.scoring.retrieval import Scorer
    from embscale.texts.beir import RetrievalData
    from embscale.texts.tokens import TokenisedTexts

# The protocol of Corey 2024 (from its notebooks and evaluation script); by default special tokens are excluded.
FAITHFUL = {"special_tokens": "include", "max_length": 2048, "pooling": "mean", "lengths": ALL}
DEFAULTS = FAITHFUL | {"special_tokens": "exclude"}

# A run may have several of these; each table is made only once.
FACTORS = ("special_tokens", "pooling", "lengths")
KEYS_OF_FACTORS = ("special_tokens", "pooling", "length")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="what to score; see above")
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="holds tokenizer.json")
    parser.add_argument(
        "--tokens",
        type=Path,
        nargs="*",
        action="extend",
        default=[],
        metavar="TOKENS.safetensors",
        help="from embscale tokenize, in place of a tokenizer; one for each --beir; a task can have several",
    )
    parser.add_argument(
        "--beir", type=Path, nargs="+", action="extend", required=True, metavar="FOLDER", help="the tasks"
    )
    parser.add_argument("--variants", nargs="*", action="extend", default=[], help="of the tables beside full")
    parser.add_argument(
        "--variants-of",
        choices=("all", "files", "last", "controlled"),
        default="all",
        help="variants of every table, of those that are files, of the last one, or of that and the one of step 0",
    )
    parser.add_argument("--metrics", nargs="*", action="extend", help="MTEB's names of them (ndcg_at_10)")
    parser.add_argument(
        "--pooling", nargs="*", action="extend", choices=get_args(Pooling), help="of a text's tokens (mean)"
    )
    parser.add_argument(
        "--special-tokens",
        nargs="*",
        action="extend",
        choices=get_args(SpecialTokens),
        help="of the tokenizer (exclude)",
    )
    parser.add_argument(
        "--lengths",
        nargs="*",
        action="extend",
        type=length,
        help="first tokens of each document that count (all); of several lengths, variants are scored at the first",
    )
    parser.add_argument("--max-length", type=count, help="tokens after which a text is cut (2048)")
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="as in Corey 2024: special tokens included, tables rounded to bfloat16, random tables by its legacy draw",
    )
    parser.add_argument("--device", choices=get_args(Device), default="auto")
    parser.add_argument("--suite", default="own", help="recorded in the rows of tables from files")
    parser.add_argument("--model", help="the same; default: the file's name")
    parser.add_argument("--run", type=natural, help="the same; the seed of the training run")
    parser.add_argument(
        "--shuffle-seed", type=natural, help="also score the last table with its rows shuffled, in all variants"
    )
    parser.add_argument("--tokenizer-name", help="recorded in the rows; default: the folder's name")
    flags.add(parser, Bootstrap, defaults=flags.section("scores"))
    parser.add_argument("-o", "--output", type=Path, metavar="SCORES.csv", help="a row per score, with its interval")
    parser.add_argument("--per-query", type=Path, metavar="SCORES.parquet", help="a row per query")


def run(args: argparse.Namespace) -> None:
    """Score every table and variant on every task."""
    import numpy as np
    import pandas as pd

    from embscale.devices import choose_device
    from embscale.scoring.metrics import depth_of
    from embscale.scoring.retrieval import Scorer

    _settle(args)
    device = choose_device(args.device).type
    depth = max(map(depth_of, args.metrics))
    jobs, files = engine.plan(
        args.tables,
        args.variants,
        variants_of=args.variants_of,
        faithful=args.faithful,
        suite=args.suite,
        model=args.model,
        run=args.run,
        shuffle_seed=args.shuffle_seed,
    )
    tokenised_by = args.tokens or [tokens.tokenizer_file(args.tokenizer)]
    inputs = [*files, *tokenised_by, *(file for folder in args.beir for file in beir.files(folder, "test"))]
    outputs = [path for path in (args.output, args.per_query) if path]
    with write_with_provenance(args, inputs=inputs, outputs=outputs, facts={"device": device}) as paths:
        tasks: list[tuple[Scorer, dict[str, Any], pd.DataFrame]] = []
        tokenizer = tokens.load_tokenizer(args.tokenizer) if args.tokenizer else None
        for number, folder in enumerate(args.beir):
            data = beir.load(folder)
            clusters = query_clusters(data.qrels, seed=args.bootstrap_seed)
            print(f"{data.name}: {clusters.words}", file=sys.stderr)
            # Queries that all belong together are one cluster, which gives no interval.
            cluster = {query: 0 if clusters.refused else number for query, number in clusters.of.items()}
            queries = pd.DataFrame({"cluster": cluster, "heldout": data.heldout})
            for groups, made_of in _tokenised(args, number, data, tokenizer):
                for pooling, counted in itertools.product(args.pooling, args.lengths):
                    shared = {
                        "tokenizer": args.tokenizer_name,
                        "pooling": pooling,
                        "special_tokens": made_of["special_tokens"],
                        "task": data.name,
                        "length": counted,
                        "tokenizer_sha256": made_of["tokenizer_sha256"],
                        "data_sha256": data.sha256,
                    }
                    if shared in [keys for _, keys, _ in tasks]:
                        factors = ", ".join(f"{name} {shared[name]}" for name in KEYS_OF_FACTORS)
                        raise EmbscaleError(f"task {data.name}: asked for twice with {factors}; drop one")
                    cut = tokens_of(counted)
                    scorer = Scorer(data, *groups, pooling=pooling, length=cut, depth=depth, device=device)
                    tasks.append((scorer, shared, queries))
        # A table that has to be drawn or computed is made once and shared by all tasks.
        used = functools.reduce(np.union1d, (scorer.rows for scorer, _, _ in tasks))
        for job in jobs:
            if isinstance(job, engine.Job) and 0 < job.rows <= used.max(initial=0):
                raise EmbscaleError(
                    f"{job.name}: {job.rows} rows, but the texts hold token {used.max()} of the tokenizer "
                    f"{args.tokenizer_name}; give the tokenizer that belongs to the table"
                )
            if tokenizer and isinstance(job, engine.Job):
                named_tables.note_unused_rows(job.name, job.rows, tokenizer)
        report = progress("score", len(jobs))
        rows = []
        for done, job in enumerate(jobs, 1):
            plain = job.untreated()
            for scorer, shared, queries in tasks:
                # Variants are scored at the first length alone.
                chosen = job if shared["length"] == args.lengths[0] else plain
                for several, found in chosen.scores(scorer, used, args.metrics) if chosen else ():
                    rows += [scores.long_rows(found, shared | keys, args.metrics, queries) for keys in several]
            job.table = None
            report(done, job.name)
        per_query = pd.concat(rows, ignore_index=True)
        for path, output in zip(paths, outputs, strict=True):
            if output is args.output:
                summary = scores.summarise(
                    scores.by_task([per_query]), resamples=args.bootstrap_resamples, seed=args.bootstrap_seed
                )
                summary.to_csv(path, index=False)
            else:
                scores.write_parquet(per_query, path)


def _settle(args: argparse.Namespace) -> None:
    """Fill in defaults, and reject contradictions."""
    for name, value in (FAITHFUL if args.faithful else DEFAULTS).items():
        flag, wanted = f"--{name.replace('_', '-')}", [value] if name in FACTORS else value
        if args.tokens and name not in ("pooling", "lengths"):
            if getattr(args, name) is not None:
                raise EmbscaleError(f"{flag} is for making tokens, and --tokens are made; drop one of the two")
        elif getattr(args, name) is None:
            setattr(args, name, wanted)
        elif args.faithful and getattr(args, name) != wanted:
            raise EmbscaleError(f"--faithful means {flag} {value}; drop one of the two")
    if not (args.output or args.per_query):
        raise EmbscaleError("nowhere to write to: give -o SCORES.csv, --per-query SCORES.parquet or both")
    if not (args.tokens or args.tokenizer):
        raise EmbscaleError("no tokens: give --tokenizer FOLDER, or for each task --tokens TOKENS.safetensors")
    if args.tokens and len(args.tokens) != len(args.beir):
        raise EmbscaleError(f"{len(args.tokens)} --tokens for {len(args.beir)} --beir: expected one for each task")
    folders = {folder.resolve() for folder in args.beir}
    if len({folder.name for folder in folders}) < len(folders):
        raise EmbscaleError("two --beir folders have the same name, which is the task's in the rows; rename one")
    args.metrics = args.metrics or ["ndcg_at_10"]
    if args.tokenizer_name is None:
        args.tokenizer_name = (args.tokenizer or args.tokens[0].with_suffix("")).resolve().name


def _tokenised(
    args: argparse.Namespace, number: int, data: RetrievalData, tokenizer: Tokenizer | None
) -> Iterator[tuple[list[TokenisedTexts], dict[str, Any]]]:
    """Documents and queries of a task as tokens, with their provenance; one result per file of tokens."""
    if args.tokens:
        groups, made_of = tokens.load(args.tokens[number])
        if made_of["data_sha256"] != data.sha256:
            raise EmbscaleError(
                f"{args.tokens[number]}: made of other texts than {args.beir[number]} holds; "
                "run embscale tokenize again"
            )
        for name in ("special_tokens", "max_length"):
            if args.faithful and made_of[name] != FAITHFUL[name]:
                raise EmbscaleError(
                    f"{args.tokens[number]}: made with {name} {made_of[name]}, --faithful needs {FAITHFUL[name]}; "
                    "run embscale tokenize again"
                )
        yield [groups["documents"], groups["queries"]], made_of
        return
    assert tokenizer is not None  # `_settle` requires one or the other
    for special in args.special_tokens:
        made = [
            tokens.tokenise(
                list(texts.values()), tokenizer, max_length=args.max_length, special_tokens=special == "include"
            )
            for texts in (data.documents, data.queries)
        ]
        empty = int((made[0].lengths == 0).sum())
        if empty:
            print(f"{data.name}: {empty} documents have no token; their score is 0 for every query", file=sys.stderr)
        yield made, {"special_tokens": special, "tokenizer_sha256": tokens.tokenizer_sha256(args.tokenizer)}
