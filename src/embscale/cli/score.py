"""Score embedding tables, and variants of them, on retrieval tasks in the BEIR format.

A table is a file (FILE, or STEP=FILE where the training step goes into the rows), random (random:ROWSxDIMS:SEED; with
:legacy or :current at the end the first study's draw by one of torch's two generators), or one of the reference lines
overlap, overlap_idf and bm25, which need no table.

    embscale score random:50304x512:42 --tokenizer DIR --beir FOLDER --faithful -o scores.csv
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from embscale import beir, scores, tokens
from embscale.artifacts import file_sha256, recorded
from embscale.errors import EmbscaleError
from embscale.progress import progress

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

    from embscale.beir import RetrievalData
    from embscale.random_tables import Generator, RandomTable
    from embscale.retrieval import Ranking, Scorer, Table
    from embscale.tokens import TokenisedTexts
    from embscale.variants import Rows, Variant

RANDOM = "random"
REFERENCE = "reference"
MAIN = "main"  # the step of a published checkpoint that does not tell it

# Lines that need no table; `embscale.lexical` makes them.
REFERENCES = ("overlap", "overlap_idf", "bm25")

# Variants that a random table can have.  A crop of one is one with fewer columns, a pad one with more.
OF_RANDOM = ("unit", "centred", "all_but_top", "whitened", "sif", "idf", "bf16")

# Variants that weigh tokens by how often a task's documents hold them.
OF_TASK = ("sif", "idf")

# What the first study did (its notebooks and its evaluation script); a run of one's own leaves special tokens out.
FAITHFUL = {"special_tokens": "include", "max_length": 2048, "pooling": "mean"}
DEFAULTS = FAITHFUL | {"special_tokens": "exclude"}

# What a row says that has no step, seed and so on.
NO_KEYS = dict.fromkeys(("step", "variant_dims", "strength", "seed", "dim"), scores.NONE)

# What the scores depend on beside files; it goes into the note.
PARAMS = (
    "tables",
    "suite",
    "model",
    "tokenizer_name",
    "variants",
    "variants_of",
    "metrics",
    "pooling",
    "special_tokens",
    "max_length",
    "faithful",
    "threads",
    "resamples",
    "bootstrap_seed",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="what to score; see above")
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="holds tokenizer.json")
    parser.add_argument(
        "--tokens",
        type=Path,
        action="append",
        default=[],
        metavar="TOKENS.safetensors",
        help="from embscale tokenize, in place of a tokenizer; one for each --beir",
    )
    parser.add_argument(
        "--beir", type=Path, action="append", required=True, metavar="FOLDER", help="a task; can be given again"
    )
    parser.add_argument(
        "--variant", dest="variants", action="append", default=[], help="of the tables beside full; can be given again"
    )
    parser.add_argument(
        "--variants-of", choices=("all", "last"), default="all", help="variants of every table, or of the last one"
    )
    parser.add_argument(
        "--metric", dest="metrics", action="append", help="MTEB's name of it (ndcg_at_10); can be given again"
    )
    parser.add_argument("--pooling", choices=("mean", "sum", "max"), help="of a text's tokens (mean)")
    parser.add_argument("--special-tokens", choices=("exclude", "include"), help="of the tokenizer (exclude)")
    parser.add_argument("--max-length", type=int, help="tokens after which a text is cut (2048)")
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="as the first study: special tokens in, tables rounded to bfloat16, random tables its legacy draw",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, help="as many as there are cores")
    parser.add_argument("--suite", default="own", help="goes into the rows of tables that are files")
    parser.add_argument("--model", help="the same; the file's name")
    parser.add_argument("--tokenizer-name", help="goes into the rows; the folder's name")
    parser.add_argument("--resamples", type=int, default=10_000, help="bootstrap resamples of the queries (10000)")
    parser.add_argument("--bootstrap-seed", type=int, default=1, help="of the resamples (1)")
    parser.add_argument("-o", "--output", type=Path, metavar="SCORES.csv", help="a row per score, with its interval")
    parser.add_argument("--per-query", type=Path, metavar="SCORES.parquet", help="a row per query")


def run(args: argparse.Namespace) -> None:
    """Score every table and variant on every task."""
    import numpy as np
    import pandas as pd
    import torch

    from embscale.devices import choose_device
    from embscale.retrieval import Scorer, depth_of

    _settle(args)
    if args.threads:
        torch.set_num_threads(args.threads)
    device = choose_device(args.device).type
    depth = max(map(depth_of, args.metrics))
    jobs, files = _jobs(args)
    tokenised_by = args.tokens or [tokens.tokenizer_file(args.tokenizer)]
    inputs = [*files, *tokenised_by, *(file for folder in args.beir for file in beir.files(folder, "test"))]
    outputs = [path for path in (args.output, args.per_query) if path]
    params = {name: getattr(args, name) for name in PARAMS} | {"device": device}
    with recorded(command="score", params=params, inputs=inputs, outputs=outputs) as paths:
        tasks: list[tuple[Scorer, dict[str, Any]]] = []
        tokenizer = tokens.load_tokenizer(args.tokenizer) if args.tokenizer else None
        for number, folder in enumerate(args.beir):
            data = beir.load(folder)
            groups, made_of = _tokenised(args, number, data, tokenizer)
            shared = {
                "tokenizer": args.tokenizer_name,
                "pooling": args.pooling,
                "special_tokens": made_of["special_tokens"],
                "task": data.name,
                "tokenizer_sha256": made_of["tokenizer_sha256"],
                "data_sha256": data.sha256,
            }
            tasks.append((Scorer(data, *groups, pooling=args.pooling, depth=depth, device=device), shared))
        # A table that has to be drawn or computed is made once for all tasks.
        used = functools.reduce(np.union1d, (scorer.rows for scorer, _ in tasks))
        for job in jobs:
            if tokenizer and isinstance(job, Job) and job.rows > tokenizer.get_vocab_size():
                unused = job.rows - tokenizer.get_vocab_size()
                print(f"{job.name}: {job.rows} rows, of which the tokenizer has no use for {unused}", file=sys.stderr)
        report = progress("score", len(jobs))
        rows = []
        for done, job in enumerate(jobs, 1):
            for scorer, shared in tasks:
                for several, ranking in job.rankings(scorer, used):
                    found = scorer.per_query(ranking, args.metrics)
                    rows += [scores.long_rows(found, shared | keys, args.metrics) for keys in several]
            job.table = None
            report(done, job.name)
        per_query = pd.concat(rows, ignore_index=True)
        for path, output in zip(paths, outputs, strict=True):
            if output is args.output:
                summary = scores.summarise(per_query, resamples=args.resamples, seed=args.bootstrap_seed)
                summary.to_csv(path, index=False)
            else:
                scores.write_parquet(per_query, path)


@dataclass
class Job:
    """One pass over a table: rankings by some of its first columns.

    Attributes:
        name: a word for the log.
        make: gives the table, from a task and the rows that the texts of all tasks use.
        keys: number of columns to what identifies each row; no number means all columns.
        of_task: whether the table depends on the task.
        rows: rows of a table that is a file, else 0.
        table: what was made.
    """

    name: str
    make: Callable[[Scorer, np.ndarray], Table]
    keys: dict[int | None, list[dict[str, Any]]]
    of_task: bool = False
    rows: int = 0
    table: Table | None = None

    def rankings(self, scorer: Scorer, used: np.ndarray) -> Iterator[tuple[list[dict[str, Any]], Ranking]]:
        """What `keys` asks for."""
        if self.table is None or self.of_task:
            self.table = None  # before the next one is made
            self.table = self.make(scorer, used)
        _, dims = self.table.shape
        by_width: dict[int, list[dict[str, Any]]] = {}
        for asked, several in self.keys.items():
            width = min(asked or dims, dims)
            by_width.setdefault(width, []).extend(keys | {"dim": width} for keys in several)
        for width, ranking in scorer.nested(self.table, sorted(by_width)):
            yield by_width[width], ranking


@dataclass
class Reference:
    """A line that needs no table."""

    name: str
    keys: dict[str, Any]
    table: None = None

    def rankings(self, scorer: Scorer, used: np.ndarray) -> Iterator[tuple[list[dict[str, Any]], Ranking]]:
        """The only one."""
        from embscale import lexical

        yield [self.keys], getattr(lexical, self.name)(scorer)


def _settle(args: argparse.Namespace) -> None:
    """Fill in what was not said, and refuse what contradicts itself."""
    for name, value in (FAITHFUL if args.faithful else DEFAULTS).items():
        flag = f"--{name.replace('_', '-')}"
        if args.tokens and name != "pooling":
            if getattr(args, name) is not None:
                raise EmbscaleError(f"{flag} is for making tokens, and --tokens are made; leave one of the two away")
        elif getattr(args, name) is None:
            setattr(args, name, value)
        elif args.faithful and getattr(args, name) != value:
            raise EmbscaleError(f"--faithful means {flag} {value}; leave one of the two away")
    if not (args.output or args.per_query):
        raise EmbscaleError("nowhere to write to: give -o SCORES.csv, --per-query SCORES.parquet or both")
    if not (args.tokens or args.tokenizer):
        raise EmbscaleError("no tokens: give --tokenizer FOLDER, or for each task --tokens TOKENS.safetensors")
    if args.tokens and len(args.tokens) != len(args.beir):
        raise EmbscaleError(f"{len(args.tokens)} --tokens for {len(args.beir)} --beir: expected one for each task")
    if len({folder.resolve().name for folder in args.beir}) < len(args.beir):
        raise EmbscaleError("two --beir folders have the same name, which is the task's in the rows; rename one")
    args.metrics = args.metrics or ["ndcg_at_10"]
    if args.tokenizer_name is None:
        args.tokenizer_name = (args.tokenizer or args.tokens[0].with_suffix("")).resolve().name


def _tokenised(
    args: argparse.Namespace, number: int, data: RetrievalData, tokenizer: Tokenizer | None
) -> tuple[list[TokenisedTexts], dict[str, Any]]:
    """Documents and queries of a task as tokens, and what they were made of."""
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
        return [groups["documents"], groups["queries"]], made_of
    assert tokenizer is not None  # `_settle` wants the one or the other
    special = args.special_tokens == "include"
    made = [
        tokens.tokenise(list(texts.values()), tokenizer, max_length=args.max_length, special_tokens=special)
        for texts in (data.documents, data.queries)
    ]
    empty = int((made[0].lengths == 0).sum())
    if empty:
        print(f"{data.name}: {empty} documents have no token; their score is 0 for every query", file=sys.stderr)
    return made, {
        "special_tokens": args.special_tokens,
        "tokenizer_sha256": tokens.tokenizer_sha256(args.tokenizer),
    }


def _jobs(args: argparse.Namespace) -> tuple[list[Job | Reference], list[Path]]:
    """What to score, and the files that are read for it."""
    from embscale.random_tables import parse_random
    from embscale.variants import Variant

    variants = [Variant.parse(text) for text in args.variants]
    jobs: list[Job | Reference] = []
    files: list[Path] = []
    nested: dict[RandomTable, list[RandomTable]] = {}
    draws = Draws()
    for number, text in enumerate(args.tables):
        own = variants if args.variants_of == "all" or number == len(args.tables) - 1 else []
        if text in REFERENCES:
            keys = {"suite": REFERENCE, "model": text, "variant": text, "table_sha256": _sha256(text)}
            jobs.append(Reference(text, NO_KEYS | keys))
        elif text.startswith(f"{RANDOM}:"):
            table = parse_random(text)
            if args.faithful and table.generator is None:
                table = parse_random(f"{text}:legacy")
            if table.generator:
                nested.setdefault(replace(table, dims=1), []).append(table)
            else:
                jobs.append(Job(text, functools.partial(_independent, table), {None: [_random_keys(table)]}))
            jobs += [_changed_random(table, variant) for variant in own]
        else:
            match = re.fullmatch(rf"(\d+|{MAIN})=(.+)", text)
            step, path = (match[1], Path(match[2])) if match else (MAIN, Path(text))
            files.append(path)
            jobs += _file_jobs(args, path, step, own, draws)
    for several in nested.values():
        widest = max(several, key=lambda table: table.dims)
        widths: dict[int | None, list[dict[str, Any]]] = {table.dims: [_random_keys(table)] for table in several}
        jobs.append(Job(widest.text, functools.partial(draws.nested, widest), widths))
    return jobs, files


def _file_jobs(
    args: argparse.Namespace, path: Path, step: str, variants: list[Variant], draws: Draws
) -> list[Job | Reference]:
    """The table of a file and its variants; those that are its first columns in one pass."""
    from embscale.retrieval import StoredTable
    from embscale.variants import Variant

    table = StoredTable(path, bfloat16=args.faithful)
    rows = Rounded(table.file) if args.faithful else table.file
    shared = NO_KEYS | {
        "suite": args.suite,
        "model": args.model or path.stem,
        "step": scores.NONE if step == MAIN else int(step),
        "table_sha256": _sha256(f"{file_sha256(path)} bf16") if args.faithful else file_sha256(path),
    }
    first: dict[int | None, list[dict[str, Any]]] = {}
    jobs: list[Job | Reference] = [Job(path.name, lambda scorer, used: table, first, rows=table.shape[0])]
    for variant in [Variant("full"), *(variant for variant in variants if variant.kind != "full")]:
        keys = shared | _variant_keys(variant)
        if variant.kind in ("full", "crop"):
            first.setdefault(variant.dims, []).append(keys)
        elif variant.kind == "pad_faithful" and cast("int", variant.dims) > table.shape[1]:
            jobs.append(Job(variant.text, functools.partial(draws.padded, table, variant), {None: [keys]}))
        else:
            jobs.append(_streamed_job(variant.text, lambda: rows, variant, keys))
    return jobs


def _variant_keys(variant: Variant) -> dict[str, Any]:
    given = {"variant_dims": variant.dims, "strength": variant.strength, "seed": variant.seed}
    kind = f"{variant.kind}_{variant.generator}" if variant.generator else variant.kind
    return {"variant": kind} | {name: scores.NONE if value is None else value for name, value in given.items()}


def _random_keys(table: RandomTable) -> dict[str, Any]:
    return NO_KEYS | {
        "suite": RANDOM,
        "model": RANDOM,
        "variant": f"{RANDOM}_{table.generator}" if table.generator else RANDOM,
        "variant_dims": table.dims,
        "seed": table.seed,
        "table_sha256": _sha256(table.text),
    }


def _changed_random(table: RandomTable, variant: Variant) -> Job:
    """A variant of a random table, such as one with idf weights."""
    if variant.kind not in OF_RANDOM:
        raise EmbscaleError(
            f"variant {variant.text!r} of {table.text}: a random table with fewer or more columns is another random "
            f"table; of random ones there are {', '.join(OF_RANDOM)}"
        )
    keys = _random_keys(table)
    keys |= {"variant": f"{keys['variant']}+{variant.kind}"}
    keys |= {"strength": scores.NONE if variant.strength is None else variant.strength}
    return _streamed_job(f"{table.text} {variant.text}", table.draw, variant, keys)


def _independent(table: RandomTable, scorer: Scorer, used: np.ndarray) -> Table:
    from embscale.retrieval import StreamedTable

    def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
        return (block[:, start:stop] for block in table.blocks())

    return StreamedTable((table.rows, table.dims), used, blocks)


def _streamed_job(name: str, table: Callable[[], Rows], variant: Variant, keys: dict[str, Any]) -> Job:
    of_task = variant.kind in OF_TASK
    return Job(name, lambda scorer, used: _streamed(table(), variant, scorer, used), {None: [keys]}, of_task)


def _streamed(rows: Rows, variant: Variant, scorer: Scorer, used: np.ndarray) -> Table:
    """A variant, computed from the table's first row to its last."""
    from embscale.retrieval import StreamedTable
    from embscale.variants import Context

    context = Context.of(scorer.documents, rows.shape[0]) if variant.kind in OF_TASK else None
    made = variant.blocks(rows, context)
    block = next(made)  # tells the columns; what is behind it may have taken long
    begun = [itertools.chain([block], made)]

    def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
        again = begun.pop() if begun else variant.blocks(rows, context)
        return (block[:, start:stop] for block in again)

    return StreamedTable((rows.shape[0], block.shape[1]), used, blocks)


class Draws:
    """The first study's draws, of which the last is kept for the tables that share it."""

    def __init__(self) -> None:
        self.last: tuple[tuple[object, ...], Table] | None = None

    def nested(self, table: RandomTable, scorer: Scorer, used: np.ndarray) -> Table:
        """The widest of several tables that are the first columns of one draw."""
        return self._draw(used, table.rows, table.dims, table.seed, cast("Generator", table.generator))

    def padded(self, table: Table, variant: Variant, scorer: Scorer, used: np.ndarray) -> Table:
        """A table with the columns of a draw that are behind its own."""
        from embscale.retrieval import Beside

        dims, seed = cast("int", variant.dims), cast("int", variant.seed)
        return Beside(table, self._draw(used, table.shape[0], dims, seed, cast("Generator", variant.generator), dims))

    def _draw(
        self, used: np.ndarray, rows: int, dims: int, seed: int, generator: Generator, columns: int | None = None
    ) -> Table:
        import torch

        from embscale import random_tables
        from embscale.retrieval import StreamedTable

        columns = columns or random_tables.COLUMNS
        key = (rows, dims, seed, generator, columns)
        if self.last is None or self.last[0] != key:

            def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
                return random_tables.blocks(rows, stop, seed, generator, columns, first=start)

            self.last = key, StreamedTable((rows, dims), used, blocks, torch.bfloat16)
        return self.last[1]


class Rounded:
    """A table on disk, its values rounded to bfloat16 as in the first study."""

    def __init__(self, table: Rows) -> None:
        self.table, self.shape = table, table.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Rows one after the other."""
        from embscale.tables import round_to_bfloat16

        return round_to_bfloat16(self.table[rows])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
