"""Tokenise the documents and queries of a retrieval task, once for all tables that share a tokenizer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.corpus import Tokenisation
from embscale.texts import beir, tokens

# Groups of tokens and digests of texts by split.
QUERIES = {"test": "queries", "dev": "dev_queries"}
DIGESTS = {"test": "data_sha256", "dev": "dev_sha256"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("task", type=Path, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json")
    flags.add(parser, Tokenisation)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TOKENS.safetensors")


def run(args: argparse.Namespace) -> None:
    """Tokenise and write documents, queries and those to choose settings on, with digests of texts and tokenizer."""
    tokenizer_file = tokens.tokenizer_file(args.tokenizer)
    splits = beir.splits(args.task)
    inputs = [*dict.fromkeys(file for split in splits for file in beir.files(args.task, split)), tokenizer_file]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        data = {split: beir.load(args.task, split) for split in splits}
        texts = {"documents": data["test"].documents} | {QUERIES[split]: data[split].queries for split in splits}
        tokenizer = tokens.load_tokenizer(args.tokenizer)
        groups = {
            name: tokens.tokenise(
                list(group.values()),
                tokenizer,
                max_length=args.max_length,
                special_tokens=args.special_tokens == "include",
            )
            for name, group in texts.items()
        }
        digests = {DIGESTS[split]: data[split].sha256 for split in splits}
        digests["tokenizer_sha256"] = tokens.tokenizer_sha256(args.tokenizer)
        tokens.save(output, groups, {"max_length": args.max_length, "special_tokens": args.special_tokens, **digests})
    cut = int((groups["documents"].lengths == args.max_length).sum())
    print(
        f"{len(groups['documents'])} documents, {len(groups['documents'].ids)} tokens; {cut} reach the limit",
        file=sys.stderr,
    )
