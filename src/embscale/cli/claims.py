"""Test the claims of Corey 2024 on per-query scores; a verdict with an interval for each."""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli import _pairs
from embscale.cli._note import write_with_provenance
from embscale.cli._rows import add_where
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.scores import Bootstrap

if TYPE_CHECKING:
    import pandas as pd

    from embscale.claims.table_claims import Panel

ALL = "all"  # as a length: whole documents
TABLES = ("claims_not_run", "trends", "confounds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("scores", type=Path, nargs="+", metavar="SCORES.parquet", help="from embscale score")
    parser.add_argument("--claims", type=Path, required=True, metavar="YAML", help="workflow/claims.yaml")
    parser.add_argument("--registry", type=Path, required=True, help="facts of models that vary together with width")
    parser.add_argument("--pins", type=Path, required=True)
    parser.add_argument("--task", required=True, help="on which the study's models are compared, such as SCIDOCS")
    parser.add_argument("--ladder-task", required=True, help="on which the ladder's are")
    parser.add_argument("--ladder-length", required=True, help="first tokens of each document that count there; or all")
    parser.add_argument("--metric", required=True, help="MTEB's name of it")
    parser.add_argument(
        "--other-task",
        dest="other_tasks",
        action="append",
        default=[],
        metavar="TASK=METRIC",
        help="a task of another kind, for the claim that retrieval is the wrong measure; repeatable",
    )
    add_where(parser)
    flags.add(parser, Bootstrap)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="a row for each claim")
    parser.add_argument("--trends", type=Path, required=True, metavar="CSV", help="trends, peaks, bands, regressions")
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="gets one .md per table")


def run(args: argparse.Namespace) -> None:
    """Read, test, correct, write."""
    import pandas as pd

    from embscale.claims import published_scores, table_claims, verdicts
    from embscale.statistics import resampling

    pins = [args.pins] if args.pins.exists() else []
    inputs = [*args.scores, args.claims, args.registry, *pins, published_scores.FILE]
    outputs = [args.output, args.trends, *(args.tables / f"{name}.md" for name in TABLES)]
    others = dict(_pairs.pairs("--other-task", args.other_tasks, "TASK=METRIC, such as STSBenchmark=cosine_spearman"))
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as (csv, trends, *tables):
        entries = verdicts.load(args.claims, table_claims.STATISTICS)
        printed = published_scores.load()
        frames = _read(args.scores, {args.metric, *others.values()}, args.where)

        def panel(task: str, metric: str, length: str = ALL) -> Panel:
            # Tasks have different queries, so each gets its own resamples; the study's task uses those of scores.csv,
            # so that its intervals are the same.
            seed = (
                args.bootstrap_seed
                if task in (args.task, args.ladder_task)
                else args.bootstrap_seed + zlib.crc32(task.encode())
            )
            options = {"task": task, "metric": metric, "length": length}
            return table_claims.panel(frames, **options, resamples=args.bootstrap_resamples, seed=seed)

        # The study's models were compared on whole documents.
        scored = panel(args.task, args.metric)
        ladder = panel(args.ladder_task, args.metric, args.ladder_length)
        ledger = table_claims.ledger(
            entries,
            printed,
            scored,
            ladder,
            task=args.task,
            metric=args.metric,
            other={task: panel(task, metric) for task, metric in others.items()},
            rows=verdicts.folders(args.scores, args.output),
            command=verdicts.recomputed_by(args.command, args.output),
        )
        ledger.to_csv(csv, index=False)
        known = table_claims.facts(args.registry, args.pins)
        panels = {args.task: scored, args.ladder_task: ladder}
        described = pd.concat(
            [table_claims.describe(made, known).assign(task=task) for task, made in panels.items()], ignore_index=True
        )
        described.to_csv(trends, index=False)
        along = resampling.confounds(known[known["suite"].isin(published_scores.suites(printed))])
        texts = (
            verdicts.not_run_table(ledger),
            table_claims.description_table(described),
            table_claims.confounds_table(along),
        )
        for path, text in zip(tables, texts, strict=True):
            path.write_text(text, "utf-8")


def _read(paths: list[Path], metrics: set[str], where: list[str]) -> list[pd.DataFrame]:
    """Of each file the rows of these metrics that meet every condition ``COLUMN=VALUE``."""
    from embscale.scoring import scores

    frames = []
    for path in paths:
        rows = scores.read_parquet(path)
        if "query" not in rows.columns:
            raise EmbscaleError(f"{path}: no column 'query'; expected the score of every query, from embscale score")
        rows = rows[rows["metric"].isin(metrics)]
        for condition in where:
            column, _, value = condition.partition("=")
            if column not in rows.columns:
                raise EmbscaleError(f"{path}: no column {column!r}; it has {', '.join(map(str, rows.columns))}")
            rows = rows[rows[column].astype(str) == value]
        frames.append(rows)
    if not any(map(len, frames)):
        raise EmbscaleError(f"{paths[0]}: no rows of {', '.join(sorted(metrics))} {' '.join(where)}; check --where")
    return frames
