"""Collect the docstrings of pinned packages as a retrieval task in the BEIR format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale import beir, corpus
from embscale.artifacts import recorded
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--package", dest="packages", action="append", required=True, metavar="NAME==VERSION")
    parser.add_argument("--min-characters", type=int, required=True, help="leave out shorter docstrings")
    parser.add_argument("--heldout-fraction", type=float, required=True, help="share of documents kept from training")
    parser.add_argument("--seed", type=int, required=True, help="seed of the held-out split")
    parser.add_argument("--sha256", required=True, help="expected digest of the corpus, or 'any'")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format"
    )


def run(args: argparse.Namespace) -> None:
    """Harvest, compare the digest, write."""
    packages = dict(package.split("==", 1) for package in args.packages)
    found = corpus.harvest(packages, min_characters=args.min_characters)
    digest = found.sha256()
    print(f"{len(found.documents)} documents, {len(found.queries)} queries, sha256 {digest}", file=sys.stderr)
    if args.sha256 not in ("any", digest):
        raise EmbscaleError(
            f"corpus.sha256: the harvested texts have the digest {digest}, but params.yaml names {args.sha256}; "
            "the package versions agree, so installed sources or the harvest itself changed. "
            "If that is meant, put the new digest into params.yaml"
        )
    rows = [
        {
            "_id": document.name,
            "title": "",
            "text": document.text,
            "metadata": {
                "package": document.package,
                "split": "heldout"
                if corpus.is_heldout(document.name, fraction=args.heldout_fraction, seed=args.seed)
                else "train",
            },
        }
        for document in found.documents
    ]
    queries = [{"_id": query.name, "text": query.text} for query in found.queries]
    qrels = "query-id\tcorpus-id\tscore\n" + "".join(
        f"{query.name}\t{relevant}\t1\n" for query in found.queries for relevant in query.relevant
    )
    params = {
        "packages": packages,
        "min_characters": args.min_characters,
        "heldout_fraction": args.heldout_fraction,
        "seed": args.seed,
        "sha256": digest,
    }
    outputs = [args.output / "corpus.jsonl.gz", args.output / "queries.jsonl", args.output / "qrels" / "test.tsv"]
    with recorded(command="harvest", params=params, inputs=[], outputs=outputs) as (
        corpus_path,
        queries_path,
        qrels_path,
    ):
        corpus_path.write_bytes(beir.gzip_bytes(beir.jsonl_bytes(rows)))
        queries_path.write_bytes(beir.jsonl_bytes(queries))
        qrels_path.write_text(qrels, "utf-8")
