"""Evaluate embedding tables on tasks of MTEB: retrieval, reranking, similarity, pairs, classification, clustering.

The data sets come from the hub at the revisions that MTEB pins; MTEB computes the scores.  Each row has the main score
of a table or variant on one task, with a 95 % interval over the units in the column interval_over.  A table is a file
(FILE, or STEP=FILE to record the training step in the rows) or random (random:ROWSxDIMS:SEED).

    embscale evaluate table.safetensors --tokenizer DIR --tasks STSBenchmark STS17:en-en -o scores.csv
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from embscale.cli._datasets import keep_datasets_in
from embscale.cli._length import ALL
from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import count
from embscale.parameters import flags
from embscale.parameters.kinds import SpecialTokens
from embscale.parameters.scores import Bootstrap, Pooling
from embscale.progress import progress
from embscale.provenance.artifacts import file_sha256
from embscale.scoring import named_tables, scores
from embscale.scoring.named_tables import OF_TASK
from embscale.tables import random_tables, table_files
from embscale.tables.variants import Variant
from embscale.texts import tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from embscale.scoring.encoder import Gathered
    from embscale.tables.random_tables import RandomTable
    from embscale.tables.variants import Context, Source

FULL = Variant("full")

# Columns of the dummy table with which the texts are collected.
SCOUT_DIMS = 8

ESTIMATE = ["value", "ci_low", "ci_high", "n", "interval_over"]

# What the scores depend on besides files; recorded in the note.
PARAMS = (
    "tables",
    "tasks",
    "suite",
    "model",
    "tokenizer_name",
    "variants",
    "pooling",
    "special_tokens",
    "max_length",
    "resamples",
    "bootstrap_seed",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="what to evaluate; see above")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json")
    parser.add_argument(
        "--tasks",
        nargs="+",
        action="extend",
        required=True,
        metavar="NAME",
        help="MTEB's names, such as STSBenchmark or STS17:en-en, or a tier: small, full",
    )
    parser.add_argument(
        "--datasets",
        type=Path,
        metavar="FOLDER",
        help="from embscale fetch-datasets, in place of the hub (which is asked for what its cache lacks)",
    )
    parser.add_argument("--variants", nargs="*", action="extend", default=[], help="of the tables beside full")
    parser.add_argument("--pooling", choices=get_args(Pooling), default="mean", help="of a text's tokens (mean)")
    parser.add_argument(
        "--special-tokens", choices=get_args(SpecialTokens), default="exclude", help="of the tokenizer (exclude)"
    )
    parser.add_argument("--max-length", type=count, default=2048, help="tokens after which a text is cut (2048)")
    parser.add_argument("--suite", default="own", help="recorded in the rows of tables from files")
    parser.add_argument("--model", help="the same; default: the file's name")
    parser.add_argument("--tokenizer-name", help="recorded in the rows; default: the folder's name")
    flags.add(parser, Bootstrap, defaults=flags.section("scores"))
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="SCORES.csv", help="a row per score")
    parser.add_argument("--per-example", type=Path, metavar="FILE.parquet", help="a row per query, pair or experiment")


@dataclass(frozen=True)
class Case:
    """A table or a variant of it.

    Attributes:
        source: the file, or the random draw.
        variant: of it.
        keys: the columns that identify it in the rows.
    """

    source: Path | RandomTable
    variant: Variant
    keys: dict[str, Any]

    @property
    def label(self) -> str:
        """For progress and errors."""
        name = self.source.stem if isinstance(self.source, Path) else self.source.text
        return f"{name} {self.variant.text}"

    def gather(self, ids: np.ndarray, context: Callable[[int], Context]) -> Gathered:
        """Load the rows `ids` into memory.

        Args:
            ids: tokens, ascending.
            context: a function that counts the tokens of a task, given the table's number of rows.

        Raises:
            EmbscaleError: the table is missing or broken, or belongs to another tokenizer.
        """
        from embscale.scoring.encoder import Gathered

        table: Source = table_files.Stored.open(self.source) if isinstance(self.source, Path) else self.source
        rows = table.shape[0]
        known = context(rows) if self.variant.kind in OF_TASK else None
        return Gathered(self.variant.blocks(table, known), rows, ids)


def run(args: argparse.Namespace) -> None:
    """Collect the texts of all tasks, then evaluate every table on each task."""
    if args.datasets:
        keep_datasets_in(args.datasets, offline=True)
    import numpy as np
    import pandas as pd

    from embscale.scoring import tasks
    from embscale.scoring.encoder import TableEncoder, TaskTexts

    cases = _cases(args)
    todo = [tasks.TableTask(name) for name in tasks.expand(args.tasks)]
    files = dict.fromkeys(case.source for case in cases if isinstance(case.source, Path))
    facts = {"datasets": {task.name: task.dataset for task in todo}}
    with write_with_provenance(
        args,
        inputs=[*files, tokens.tokenizer_file(args.tokenizer)],
        outputs=[args.output, *filter(None, [args.per_example])],
        facts=facts,
    ) as made:
        tokenizer = tokens.load_tokenizer(args.tokenizer)
        for path in files:
            named_tables.note_unused_rows(path.name, table_files.Stored.open(path).shape[0], tokenizer)
        special = args.special_tokens == "include"
        texts = [TaskTexts(tokenizer, max_length=args.max_length, special_tokens=special) for _ in todo]
        report = progress("evaluate", len(todo) * (len(cases) + 1))
        # MTEB reveals a task's texts only by requesting their vectors, so it first gets those of a small dummy table.
        scout = random_tables.independent(max(tokenizer.get_vocab().values()) + 1, SCOUT_DIMS, seed=0)
        done = 0
        for task, its in zip(todo, texts, strict=True):
            task.evaluate(TableEncoder(scout, its, pooling="mean", name="scout"), resamples=1, seed=0)
            report(done := done + 1, f"{task.name}: its texts")
        used = np.unique(np.concatenate([its.rows for its in texts]))
        shared = {
            "tokenizer": args.tokenizer_name or args.tokenizer.resolve().name,
            "tokenizer_sha256": tokens.tokenizer_sha256(args.tokenizer),
            "pooling": args.pooling,
            "special_tokens": args.special_tokens,
            "length": ALL,
        }
        rows, examples = [], []
        for case in cases:
            table = None
            for task, its in zip(todo, texts, strict=True):
                if table is None or case.variant.kind in OF_TASK:
                    table = case.gather(used, its.context)
                encoder = TableEncoder(table, its, pooling=args.pooling, name=case.label)
                score = task.evaluate(encoder, resamples=args.bootstrap_resamples, seed=args.bootstrap_seed)
                keys = shared | case.keys
                keys |= {"dim": table.shape[1], "task": task.name, "metric": task.metric}
                keys |= {"data_sha256": named_tables.text_sha256(f"{task.dataset} {its.sha256}")}
                rows.append(keys | {name: getattr(score, name) for name in ESTIMATE})
                examples.append(score.examples.assign(**keys, interval_over=score.interval_over))
                report(done := done + 1, f"{task.name}: {case.label} {score.value:.4f}")
        scores.without_none(pd.DataFrame(rows))[[*scores.KEYS, *ESTIMATE]].to_csv(made[0], index=False)
        if args.per_example:
            columns = [*scores.KEYS, "interval_over", *tasks.EXAMPLE_COLUMNS]
            scores.write_parquet(scores.without_none(pd.concat(examples, ignore_index=True))[columns], made[1])


def _cases(args: argparse.Namespace) -> list[Case]:
    """Every table, and the variants of each.

    Raises:
        EmbscaleError: a specification cannot be read, or a random table cannot have a variant.
    """
    variants = dict.fromkeys([FULL, *map(Variant.parse, args.variants)])
    cases = []
    for text in args.tables:
        if named_tables.is_random(text):
            drawn = random_tables.parse_random(text)
            cases += [Case(drawn, variant, named_tables.random_keys(drawn, variant)) for variant in variants]
            continue
        step, path = named_tables.split_step(text)
        digest = file_sha256(path) if path.is_file() else ""  # a missing file is reported as an input
        keys = named_tables.file_keys(
            suite=args.suite, model=args.model, run=None, step=step, path=path, table_sha256=digest
        )
        held = table_files.which(path)
        keys["width"] = table_files.Stored.open(path).shape[1]
        cases += [Case(path, variant, keys | named_tables.variant_keys(variant, held)) for variant in variants]
    return cases
