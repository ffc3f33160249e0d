"""Fetch a retrieval task of MTEB at the revision that MTEB pins, and write it as a BEIR folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("task", metavar="NAME", help="MTEB's name, such as SCIDOCS or XQuADRetrieval:es")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")


def run(args: argparse.Namespace) -> None:
    """Load as MTEB does; titles and texts stay separate, as in every BEIR folder."""
    import mteb
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    from embscale.checkpoints.hub import trying
    from embscale.texts import beir

    name, _, subset = args.task.partition(":")
    try:
        task = mteb.get_task(name, hf_subsets=[subset] if subset else None)
    except KeyError as error:
        raise EmbscaleError(f"task {args.task}: MTEB knows no such task") from error
    except ValueError as error:
        raise EmbscaleError(f"task {args.task}: {name} has no subset {subset}") from error
    if not isinstance(task, AbsTaskRetrieval):
        raise EmbscaleError(f"task {args.task}: of the type {task.metadata.type}, not Retrieval")
    if len(task.hf_subsets) > 1:
        raise EmbscaleError(f"task {args.task}: name one of its subsets, {name}:SUBSET: {', '.join(task.hf_subsets)}")
    outputs = [args.output / name for name in ("corpus.jsonl.gz", "queries.jsonl", "qrels/test.tsv")]
    facts: dict[str, Any] = {"dataset": dict(task.metadata.dataset), "license": str(task.metadata.license)}
    with write_with_provenance(args, inputs=[], outputs=outputs, facts=facts) as (
        corpus,
        queries,
        qrels,
    ):
        trying(f"{task.metadata.dataset['path']}@{task.metadata.dataset['revision'][:12]}", task.load_data)
        (split,) = task.metadata.eval_splits
        ((_, splits),) = task.dataset.items()
        data = splits[split]
        documents = [{"_id": row["id"], "title": row.get("title") or "", "text": row["text"]} for row in data["corpus"]]
        corpus.write_bytes(beir.gzip_bytes(beir.jsonl_bytes(documents)))
        queries.write_bytes(beir.jsonl_bytes({"_id": row["id"], "text": row["text"]} for row in data["queries"]))
        qrels.write_bytes(beir.qrels_bytes(data["relevant_docs"]))
        facts |= {"split": split, "documents": len(documents), "queries": len(data["queries"])}
    print(f"{facts['documents']} documents, {facts['queries']} queries", file=sys.stderr)
