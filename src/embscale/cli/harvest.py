"""Collect two retrieval tasks in the BEIR format from pinned packages: docstrings, and functions."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.corpus import Harvest
from embscale.statistics.clusters import query_clusters
from embscale.texts import beir, corpus, near_duplicates, splits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    flags.add(parser, Harvest)
    parser.add_argument(
        "--functions", type=Path, required=True, metavar="FOLDER", help="where the task of functions goes"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the task of docstrings goes"
    )


def run(args: argparse.Namespace) -> None:
    """Harvest, compare the digests, divide, write."""
    packages = dict(package.split("==", 1) for package in args.packages)
    harvested = corpus.harvest(
        packages, min_characters=args.min_characters, code_min_characters=args.code_min_characters
    )
    functions = corpus.function_task(harvested, count=args.code_texts, seed=args.seed)
    facts: dict[str, Any] = {"sha256": harvested.sha256(), "code_sha256": functions.sha256()}
    for task, key in ((harvested, "sha256"), (functions, "code_sha256")):
        print(f"{len(task.documents)} documents, {len(task.queries)} queries, {key} {facts[key]}", file=sys.stderr)
        _check(getattr(args, key), facts[key], f"corpus.{key}")
    split, facts["near_duplicates"] = _split(args, harvested)
    split |= {function.name: _split_of(split, harvested.docstrings[function.name]) for function in functions.documents}
    contents: dict[Path, bytes] = {}
    for name, folder, task in (("docstrings", args.output, harvested), ("functions", args.functions, functions)):
        files, facts[name] = _files(args, folder, task, split)
        contents |= files
    with write_with_provenance(args, inputs=[], outputs=list(contents), facts=facts) as paths:
        for path, content in zip(paths, contents.values(), strict=True):
            path.write_bytes(content)


def _split(args: argparse.Namespace, task: corpus.Task) -> tuple[dict[str, str], dict[str, Any]]:
    """The split of each docstring by its name, and what keeping near-duplicates together does."""
    near = near_duplicates.near_duplicates(
        [document.text for document in task.documents], shingle_words=args.shingle_words, share=args.shared_shingles
    )
    groups = near_duplicates.groups(near)
    names = [document.name for document in task.documents]
    apart, together = (
        splits.of_documents(
            names,
            [document.package for document in task.documents],
            of,
            heldout_fraction=args.heldout_fraction,
            heldout_packages=args.heldout_packages,
            seed=args.seed,
        )
        for of in (np.arange(len(names)), groups)
    )
    sizes = np.bincount(groups)
    beside = np.isin(groups, groups[together == splits.HELDOUT_PACKAGE]) & (together == splits.HELDOUT)
    facts = {
        "groups": int((sizes > 1).sum()),
        "documents": int(sizes[sizes > 1].sum()),
        "largest": int(sizes.max()),
        "beside_heldout_packages": int(beside.sum()),
        # Shares of held-out documents with a near-duplicate in training, without groups and with them.
        "leaking_before": _leaking(near, apart),
        "leaking": _leaking(near, together),
    }
    print(
        f"{facts['groups']} groups of near-duplicates, the largest of {facts['largest']} documents; with such a one in "
        f"training: {facts['leaking_before']:.1%} of the held-out documents, {facts['leaking']:.1%} with groups kept",
        file=sys.stderr,
    )
    return dict(zip(names, together.tolist(), strict=True)), facts


def _leaking(near: coo_array, split: np.ndarray) -> float:
    return near_duplicates.leaking(near, training=split == splits.TRAIN, heldout=split == splits.HELDOUT)


def _split_of(split: Mapping[str, str], docstrings: tuple[str, ...]) -> str:
    """The split of a function: for training if a docstring of it is."""
    found = {split[name] for name in docstrings}
    return next(name for name in (splits.TRAIN, splits.HELDOUT, splits.HELDOUT_PACKAGE) if name in found)


def _files(
    args: argparse.Namespace, folder: Path, task: corpus.Task, split: Mapping[str, str]
) -> tuple[dict[Path, bytes], dict[str, Any]]:
    """The content of each file of a task, and facts about it."""
    clusters = query_clusters(task.qrels(), seed=args.seed)
    dev = splits.dev_queries(clusters, dev_fraction=args.dev_fraction, seed=args.seed)
    documents: list[dict[str, Any]] = [
        {
            "_id": document.name,
            "title": "",
            "text": document.text,
            "metadata": {"package": document.package, "split": split[document.name]},
        }
        for document in task.documents
    ]
    contents = {
        folder / "corpus.jsonl.gz": beir.gzip_bytes(beir.jsonl_bytes(documents)),
        folder / "queries.jsonl": beir.jsonl_bytes({"_id": query.name, "text": query.text} for query in task.queries),
    }
    for name, chosen in (("test", False), ("dev", True)):
        judged = {query: grades for query, grades in task.qrels().items() if (query in dev) == chosen}
        contents[folder / "qrels" / f"{name}.tsv"] = beir.qrels_bytes(judged)
    facts = {
        "documents": dict(sorted(Counter(row["metadata"]["split"] for row in documents).items())),
        "queries": {"dev": len(dev), "test": len(task.queries) - len(dev)},
        "clusters": clusters.words,
    }
    print(f"{folder.name}: {facts['documents']}, queries {facts['queries']}; {facts['clusters']}", file=sys.stderr)
    return contents, facts


def _check(expected: str, digest: str, key: str) -> None:
    if expected not in ("any", digest):
        raise EmbscaleError(
            f"{key}: the harvested texts have the digest {digest}, but params.yaml names {expected}; "
            "the package versions agree, so installed sources or the harvest itself changed. "
            "If that is meant, put the new digest into params.yaml"
        )
