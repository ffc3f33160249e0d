"""Collect texts of two genres from pinned packages: docstrings as a retrieval task in the BEIR format, and code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.corpus import Harvest
from embscale.texts import beir, corpus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    flags.add(parser, Harvest)
    parser.add_argument("--code", type=Path, required=True, metavar="CODE.jsonl.gz", help="where the functions go")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="a folder in the BEIR format"
    )


def run(args: argparse.Namespace) -> None:
    """Harvest, compare the digests, write."""
    packages = dict(package.split("==", 1) for package in args.packages)
    harvested = corpus.harvest(
        packages, min_characters=args.min_characters, code_min_characters=args.code_min_characters
    )
    functions = corpus.choose(harvested.functions, count=args.code_texts, seed=args.seed)
    digest, code_digest = harvested.sha256(), corpus.sha256(functions)
    print(f"{len(harvested.documents)} documents, {len(harvested.queries)} queries, sha256 {digest}", file=sys.stderr)
    print(f"{len(functions)} of {len(harvested.functions)} functions, sha256 {code_digest}", file=sys.stderr)
    _check(args.sha256, digest, "corpus.sha256")
    _check(args.code_sha256, code_digest, "corpus.code_sha256")
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
        for document in harvested.documents
    ]
    queries = [{"_id": query.name, "text": query.text} for query in harvested.queries]
    qrels = "query-id\tcorpus-id\tscore\n" + "".join(
        f"{query.name}\t{relevant}\t1\n" for query in harvested.queries for relevant in query.relevant
    )
    code_rows = [{"_id": f.name, "text": f.text, "metadata": {"package": f.package}} for f in functions]
    facts = {"sha256": digest, "code_sha256": code_digest}
    outputs = [args.output / "corpus.jsonl.gz", args.output / "queries.jsonl", args.output / "qrels" / "test.tsv"]
    with write_with_provenance(args, inputs=[], outputs=[*outputs, args.code], facts=facts) as (
        corpus_path,
        queries_path,
        qrels_path,
        code_path,
    ):
        corpus_path.write_bytes(beir.gzip_bytes(beir.jsonl_bytes(rows)))
        queries_path.write_bytes(beir.jsonl_bytes(queries))
        qrels_path.write_text(qrels, "utf-8")
        code_path.write_bytes(beir.gzip_bytes(beir.jsonl_bytes(code_rows)))


def _check(expected: str, digest: str, key: str) -> None:
    if expected not in ("any", digest):
        raise EmbscaleError(
            f"{key}: the harvested texts have the digest {digest}, but params.yaml names {expected}; "
            "the package versions agree, so installed sources or the harvest itself changed. "
            "If that is meant, put the new digest into params.yaml"
        )
