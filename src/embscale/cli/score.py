"""Score embedding tables, and variants of them, on retrieval tasks in the BEIR format.

A table is a file (FILE, or STEP=FILE where the training step goes into the rows), random (random:ROWSxDIMS:SEED; with
:legacy or :current at the end the first study's draw by one of torch's two generators), or one of the reference lines
overlap, overlap_idf and bm25, which need no table.

    embscale score random:50304x512:42 --tokenizer DIR --beir FOLDER --faithful -o scores.csv
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from embscale.errors import EmbscaleError
from embscale.progress import progress
from embscale.provenance.artifacts import file_sha256, recorded
from embscale.scoring import named_tables, scores
from embscale.scoring.named_tables import NO_KEYS, OF_TASK
from embscale.tables import table_files
from embscale.texts import beir, tokens

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

    from embscale.scoring.retrieval import Padding, Ranking, Scorer, Table
    from embscale.tables.random_tables import Generator, RandomTable
    from embscale.tables.variants import Rows, Source, Variant
    from embscale.texts.beir import RetrievalData
    from embscale.texts.tokens import TokenisedTexts

REFERENCE = "reference"

# Lines that need no table; `embscale.scoring.lexical` makes them.
REFERENCES = ("overlap", "overlap_idf", "bm25")

# What the first study did (its notebooks and its evaluation script); a run of one's own leaves special tokens out.
FAITHFUL = {"special_tokens": "include", "max_length": 2048, "pooling": "mean"}
DEFAULTS = FAITHFUL | {"special_tokens": "exclude"}

# Of these a run can have several; each table is made once for all.
FACTORS = ("special_tokens", "pooling")

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
        help="from embscale tokenize, in place of a tokenizer; one for each --beir; a task can have several",
    )
    parser.add_argument(
        "--beir", type=Path, action="append", required=True, metavar="FOLDER", help="a task; can be given again"
    )
    parser.add_argument(
        "--variant", dest="variants", action="append", default=[], help="of the tables beside full; can be given again"
    )
    parser.add_argument(
        "--variants-of",
        choices=("all", "files", "last"),
        default="all",
        help="variants of every table, of those that are files, or of the last one",
    )
    parser.add_argument(
        "--metric", dest="metrics", action="append", help="MTEB's name of it (ndcg_at_10); can be given again"
    )
    parser.add_argument(
        "--pooling",
        action="append",
        choices=("mean", "sum", "max"),
        help="of a text's tokens (mean); can be given again",
    )
    parser.add_argument(
        "--special-tokens",
        action="append",
        choices=("exclude", "include"),
        help="of the tokenizer (exclude); can be given again",
    )
    parser.add_argument("--max-length", type=int, help="tokens after which a text is cut (2048)")
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="as the first study: special tokens in, tables rounded to bfloat16, random tables its legacy draw",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
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

    from embscale.devices import choose_device
    from embscale.scoring.retrieval import Scorer, depth_of

    _settle(args)
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
            for groups, made_of in _tokenised(args, number, data, tokenizer):
                for pooling in args.pooling:
                    shared = {
                        "tokenizer": args.tokenizer_name,
                        "pooling": pooling,
                        "special_tokens": made_of["special_tokens"],
                        "task": data.name,
                        "tokenizer_sha256": made_of["tokenizer_sha256"],
                        "data_sha256": data.sha256,
                    }
                    if shared in [keys for _, keys in tasks]:
                        factors = ", ".join(f"{name} {shared[name]}" for name in FACTORS)
                        raise EmbscaleError(f"task {data.name}: asked for twice with {factors}; leave one away")
                    tasks.append((Scorer(data, *groups, pooling=pooling, depth=depth, device=device), shared))
        # A table that has to be drawn or computed is made once for all tasks.
        used = functools.reduce(np.union1d, (scorer.rows for scorer, _ in tasks))
        for job in jobs:
            if tokenizer and isinstance(job, Job):
                named_tables.note_unused_rows(job.name, job.rows, tokenizer)
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


@dataclass(frozen=True)
class Draw:
    """A random table that the first study's code draws, of which narrower ones are the first columns.

    Attributes:
        rows: tokens.
        columns: of the whole draw.
        seed: of it.
        generator: which of torch's.
    """

    rows: int
    columns: int
    seed: int
    generator: Generator

    @property
    def text(self) -> str:
        """For the log."""
        return f"{named_tables.RANDOM}:{self.rows}x{self.columns}:{self.seed}:{self.generator}"


@dataclass
class Job:
    """One pass over a table: rankings by some of its first columns, and one with the columns of a draw behind it.

    Attributes:
        name: a word for the log.
        make: gives the table, from a task and the rows that the texts of all tasks use.
        keys: number of columns to what identifies each row; no number means all columns.
        of_task: whether the table depends on the task.
        rows: rows of a table that is a file, else 0.
        dims: its columns, else 0.
        draw: what the table is made of or padded with.
        padding: gives the columns of a pad, from the rows that are used.
        padded: what identifies the pad.
        table: what was made.
    """

    name: str
    make: Callable[[Scorer, np.ndarray], Table]
    keys: dict[int | None, list[dict[str, Any]]]
    of_task: bool = False
    rows: int = 0
    dims: int = 0
    draw: Draw | None = None
    padding: Callable[[np.ndarray], Padding] | None = None
    padded: dict[str, Any] = field(default_factory=dict)
    table: Table | None = None

    def rankings(self, scorer: Scorer, used: np.ndarray) -> Iterator[tuple[list[dict[str, Any]], Ranking]]:
        """What `keys` and `padded` ask for."""
        if self.table is None or self.of_task:
            self.table = None  # before the next one is made
            self.table = self.make(scorer, used)
        _, dims = self.table.shape
        by_width: dict[int, list[dict[str, Any]]] = {}
        for asked, several in self.keys.items():
            width = min(asked or dims, dims)
            by_width.setdefault(width, []).extend(keys | {"dim": width} for keys in several)
        widths, padding = sorted(by_width), None
        if self.padding:
            padding = self.padding(used)
            widths, padded = sorted({*widths, dims}), padding.table.shape[1]
            by_width[padded] = [self.padded | {"dim": padded}]
        for width, ranking in scorer.nested(self.table, widths, padding):
            if width in by_width:
                yield by_width[width], ranking


@dataclass
class Reference:
    """A line that needs no table."""

    name: str
    keys: dict[str, Any]
    table: None = None

    def rankings(self, scorer: Scorer, used: np.ndarray) -> Iterator[tuple[list[dict[str, Any]], Ranking]]:
        """The only one."""
        from embscale.scoring import lexical

        yield [self.keys], getattr(lexical, self.name)(scorer)


def _settle(args: argparse.Namespace) -> None:
    """Fill in what was not said, and refuse what contradicts itself."""
    for name, value in (FAITHFUL if args.faithful else DEFAULTS).items():
        flag, wanted = f"--{name.replace('_', '-')}", [value] if name in FACTORS else value
        if args.tokens and name != "pooling":
            if getattr(args, name) is not None:
                raise EmbscaleError(f"{flag} is for making tokens, and --tokens are made; leave one of the two away")
        elif getattr(args, name) is None:
            setattr(args, name, wanted)
        elif args.faithful and getattr(args, name) != wanted:
            raise EmbscaleError(f"--faithful means {flag} {value}; leave one of the two away")
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
    """Documents and queries of a task as tokens, and what they were made of; several times if so asked for."""
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
    assert tokenizer is not None  # `_settle` wants the one or the other
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


def _jobs(args: argparse.Namespace) -> tuple[list[Job | Reference], list[Path]]:
    """What to score, and the files that are read for it."""
    from embscale.tables.random_tables import COLUMNS, parse_random
    from embscale.tables.variants import Variant

    variants = [Variant.parse(text) for text in args.variants]
    jobs: list[Job | Reference] = []
    files: list[Path] = []
    draws = Draws()
    nested: dict[Draw, list[RandomTable]] = {}
    for number, text in enumerate(args.tables):
        chosen = {
            "all": True,
            "files": not named_tables.is_random(text),
            "last": number == len(args.tables) - 1,
        }
        own = variants if chosen[args.variants_of] else []
        if text in REFERENCES:
            keys = {"suite": REFERENCE, "model": text, "variant": text, "table_sha256": named_tables.text_sha256(text)}
            jobs.append(Reference(text, NO_KEYS | keys))
        elif named_tables.is_random(text):
            table = parse_random(text)
            if args.faithful and table.generator is None:
                table = parse_random(f"{text}:legacy")
            if table.generator:
                draw = draws.want(Draw(table.rows, COLUMNS, table.seed, table.generator), table.dims)
                nested.setdefault(draw, []).append(table)
            else:
                jobs.append(_streamed_job(text, table, Variant("full"), named_tables.random_keys(table)))
            jobs += [_changed_random(table, variant) for variant in own]
        else:
            step, path = named_tables.split_step(text)
            files.append(path)
            jobs += _file_jobs(args, path, step, own, draws)
    for draw, several in nested.items():
        widths: dict[int | None, list[dict[str, Any]]] = {}
        for table in several:
            widths.setdefault(table.dims, []).append(named_tables.random_keys(table))
        jobs.append(Job(draw.text, functools.partial(draws.table, draw), widths, draw=draw))
    # Those of one draw one after the other, and the widest table first: it takes the fewest columns for its pad.
    order = {draw: place for place, draw in enumerate(draws.wanted)}
    jobs.sort(key=lambda job: (order[job.draw] + 1, -job.dims) if isinstance(job, Job) and job.draw else (0, 0))
    return jobs, files


def _file_jobs(
    args: argparse.Namespace, path: Path, step: int | None, variants: list[Variant], draws: Draws
) -> list[Job | Reference]:
    """The table of a file and its variants; those that are its first columns in one pass, and with them a pad."""
    from embscale.scoring.retrieval import StoredTable
    from embscale.tables.variants import Variant

    table = StoredTable(path, bfloat16=args.faithful)
    source = Rounded(table.file) if args.faithful else table.file
    rows, dims = table.shape
    digest = named_tables.text_sha256(f"{file_sha256(path)} bf16") if args.faithful else file_sha256(path)
    shared = named_tables.file_keys(suite=args.suite, model=args.model, step=step, path=path, table_sha256=digest)
    held = table_files.which(path)
    first: dict[int | None, list[dict[str, Any]]] = {}
    passes = [Job(path.name, lambda scorer, used: table, first, rows=rows, dims=dims)]
    jobs: list[Job | Reference] = []
    for variant in [Variant("full"), *(variant for variant in variants if variant.kind != "full")]:
        keys = shared | named_tables.variant_keys(variant, held)
        if variant.kind in ("full", "crop"):
            first.setdefault(variant.dims, []).append(keys)
        elif variant.kind == "pad_faithful" and cast("int", variant.dims) > dims:
            columns, seed = cast("int", variant.dims), cast("int", variant.seed)
            if passes[-1].draw:
                passes.append(replace(passes[0], name=variant.text, keys={}))
            passes[-1].draw = draws.want(Draw(rows, columns, seed, cast("Generator", variant.generator)), columns)
            passes[-1].padding, passes[-1].padded = functools.partial(draws.padding, passes[-1].draw), keys
        else:
            jobs.append(_streamed_job(variant.text, source, variant, keys))
    return [*passes, *jobs]


def _changed_random(table: RandomTable, variant: Variant) -> Job:
    """A variant of a random table, such as one with idf weights."""
    keys = named_tables.random_keys(table, variant)
    return _streamed_job(f"{table.text} {variant.text}", table, variant, keys)


def _streamed_job(name: str, table: Source, variant: Variant, keys: dict[str, Any]) -> Job:
    of_task = variant.kind in OF_TASK
    return Job(name, lambda scorer, used: streamed(table, variant, scorer, used), {None: [keys]}, of_task)


def streamed(table: Source, variant: Variant, scorer: Scorer, used: np.ndarray) -> Table:
    """A variant, computed from the table's first row to its last."""
    from embscale.scoring.retrieval import KEPT_BYTES, StreamedTable
    from embscale.tables.variants import Context

    context = Context.of(scorer.documents, table.shape[0]) if variant.kind in OF_TASK else None
    made = variant.blocks(table, context)

    def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
        return (block[:, start:stop] for block in made.some(used))

    dims = next(iter(made)).shape[1]
    return StreamedTable((table.shape[0], dims), used, blocks, kept_bytes=KEPT_BYTES // 2)  # it may hold directions too


class Draws:
    """The first study's draws, of which the last is kept for the tables that share it.

    Attributes:
        wanted: how many of the first columns of each are asked for.
    """

    def __init__(self) -> None:
        self.wanted: dict[Draw, int] = {}
        self._last: tuple[Draw, Padding] | None = None

    def want(self, draw: Draw, dims: int) -> Draw:
        """Ask for some more columns of a draw."""
        self.wanted[draw] = max(dims, self.wanted.get(draw, 0))
        return draw

    def padding(self, draw: Draw, used: np.ndarray) -> Padding:
        """The columns that are asked for, to be put behind tables."""
        import torch

        from embscale.scoring.retrieval import Padding, StreamedTable
        from embscale.tables import random_tables

        if self._last is None or self._last[0] != draw:
            self._last = None  # before the next one is made

            def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
                return random_tables.blocks(
                    draw.rows, stop, draw.seed, draw.generator, draw.columns, first=start, only=used
                )

            table = StreamedTable((draw.rows, self.wanted[draw]), used, blocks, torch.bfloat16)
            self._last = draw, Padding(table)
        return self._last[1]

    def table(self, draw: Draw, scorer: Scorer, used: np.ndarray) -> Table:
        """The same as a table of its own."""
        return self.padding(draw, used).table


class Rounded:
    """A table on disk, its values rounded to bfloat16 as in the first study."""

    def __init__(self, table: Rows) -> None:
        self.table, self.shape = table, table.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Rows one after the other."""
        from embscale.tables.table_files import round_to_bfloat16

        return round_to_bfloat16(self.table[rows])
