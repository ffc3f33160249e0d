"""Compute the numbers and tables that the report quotes."""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import count
from embscale.cli._rows import add_where
from embscale.provenance.artifacts import note_path, read_note
from embscale.rows import tidy
from embscale.rows.selection import where
from embscale.texts import beir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--study", required=True)
    parser.add_argument("--task", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--estimates", type=Path, required=True, metavar="CSV", help="from embscale estimates")
    parser.add_argument("--differences", type=Path, required=True, metavar="CSV", help="the same")
    add_where(parser)
    parser.add_argument("--metrics", nargs="+", required=True, help="of the scores, the primary one first")
    parser.add_argument("--length", required=True, help="first tokens of each document that count, or all")
    parser.add_argument(
        "--answers",
        type=Path,
        nargs="+",
        required=True,
        metavar="CSV",
        help="crossings.csv and others, from embscale ladder-answers",
    )
    parser.add_argument("--answers-of", required=True, metavar="STUDY", help="that the answers are of")
    parser.add_argument(
        "--claims", type=Path, nargs="+", required=True, metavar="CSV", help="ledgers, from embscale claims and others"
    )
    parser.add_argument("--inventory", type=Path, required=True, help="from embscale inventory")
    parser.add_argument(
        "--other-tasks", type=Path, action="append", default=[], metavar="CSV", help="from embscale evaluate"
    )
    parser.add_argument("--probes", type=Path, nargs="+", required=True, help="from embscale probe")
    parser.add_argument("--layer-scores", type=Path, required=True, metavar="CSV", help="from embscale layer-estimates")
    parser.add_argument("--texts", required=True, help="texts of the hidden states: heldout, or a data set's name")
    parser.add_argument(
        "--primer", type=Path, nargs="+", required=True, help="lookup.csv and others, from embscale primer"
    )
    parser.add_argument("--compared", type=Path, nargs="+", required=True, help="from embscale compare-tables")
    parser.add_argument("--losses", type=Path, nargs="+", required=True, help="from embscale train")
    parser.add_argument("--vocab-size", type=count, required=True)
    parser.add_argument("--kept", type=Path, required=True, metavar="FOLDER", help="from embscale keep")
    parser.add_argument(
        "--recorded", type=Path, required=True, metavar="FOLDER", help="the same, as recorded; need not exist"
    )
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="figures of the report")
    parser.add_argument("--variables", type=Path, required=True, help="_variables.yml of the report")
    parser.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="gets one .md per table")


TABLES = (
    "scores", "treatments", "lengths", "references", "layers", "ladder", "suites", "other_tasks", "provenance"
)  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Read results and notes, write variables and tables."""
    import pandas as pd
    import yaml

    from embscale.answers.words import variables as answers
    from embscale.claims import published_scores
    from embscale.primer.numbers import primer_numbers
    from embscale.provenance import kept_results
    from embscale.report import compared_numbers, findings, numbers

    notes = [note_path(figure) for figure in args.figures]
    qrels = args.task / "qrels" / "test.tsv"
    inputs = [
        beir.corpus_file(args.task),
        qrels,
        args.estimates,
        args.differences,
        *args.answers,
        published_scores.REFERENCES_FILE,
        *args.claims,
        args.inventory,
        *args.other_tasks,
        *args.probes,
        args.layer_scores,
        *args.primer,
        *args.compared,
        *args.losses,
        *kept_results.compared_files(args.kept, args.recorded),
        *notes,
    ]
    outputs = [args.variables, *(args.tables / f"{name}.md" for name in TABLES)]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as (variables, *tables):
        rows, differences = (tidy.read([path], (), where=args.where) for path in (args.estimates, args.differences))
        main = {"task": args.task.name, "metric": args.metrics[0]}
        shown = [where(of, length=args.length, queries="all") for of in (rows, differences)]
        probes = tidy.read(args.probes, (), where=[])
        read_notes = {note.name.partition(".")[0]: read_note(note) for note in notes}
        training = [read_note(note_path(path)) for path in args.losses]
        losses: dict[int, list[pd.DataFrame]] = {}
        for path, note in zip(args.losses, training, strict=True):
            losses.setdefault(note["params"]["width"], []).append(tidy.load(path))
        tokens = max(int(rows["tokens"].max()) for several in losses.values() for rows in several)
        of_answers = {path.stem: tidy.read([path], (), where=[]) for path in args.answers}
        own = args.answers_of == args.study
        values = {
            "study": args.study,
            "findings": findings.variables(
                rows,
                differences,
                probes,
                of_answers["crossings"],
                of_answers["curves"],
                [tidy.read([path], (), where=[]) for path in args.claims],
                main={**main, "length": args.length},
                tokens=tokens,
                recorded="" if own else args.answers_of,
            ),
            "corpus": numbers.corpus_numbers(
                list(beir.read_jsonl(inputs[0])),
                beir.read_qrels(qrels),
                read_note(note_path(beir.corpus_file(args.task)))["facts"],
            ),
            "scores": numbers.score_numbers(rows, differences, **main, length=args.length),
            "answers": answers(of_answers, study=args.answers_of, own=own),
            "layers": numbers.layer_numbers(probes, args.texts),
            "layer_scores": numbers.layer_score_numbers(tidy.read([args.layer_scores], (), where=[])),
            "compared": compared_numbers.variables(tidy.read(args.compared, (), where=[])),
            "primer": primer_numbers(**{path.stem: tidy.read([path], (), where=[]) for path in args.primer}),
            "ladder": {name: str(training[0]["params"][name]) for name in ("blocks", "steps", "context", "batch")}
            | {"tokens": f"{tokens:,}"},
            "record": kept_results.variables(args.kept, args.recorded),
            "versions": training[0]["libraries"],
        }
        variables.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), "utf-8")
        texts = (
            numbers.score_table(shown[0], metrics=args.metrics),
            numbers.treatment_table(*(where(of, **main) for of in shown)),
            numbers.length_table(rows, **main),
            numbers.reference_table(published_scores.references()),
            numbers.layer_table(probes),
            numbers.ladder_table(losses, args.vocab_size),
            numbers.suites_table(tidy.load(args.inventory)),
            numbers.other_tasks_table(tidy.read(args.other_tasks, (), where=[]) if args.other_tasks else None),
            numbers.provenance_table(read_notes),
        )
        for path, text in zip(tables, texts, strict=True):
            path.write_text(text, "utf-8")
