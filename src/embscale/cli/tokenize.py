"""Tokenise the documents and queries of a retrieval task, once for all tables that share a tokenizer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.corpus import Tokenisation
from embscale.texts import beir, tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("task", type=Path, metavar="FOLDER", help="a folder in the BEIR format")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json")
    flags.add(parser, Tokenisation)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TOKENS.safetensors")


def run(args: argparse.Namespace) -> None:
    """Tokenise and write, with the digests of the texts and of the tokenizer."""
    tokenizer_file = tokens.tokenizer_file(args.tokenizer)
    inputs = [*beir.files(args.task, "test"), tokenizer_file]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        data = beir.load(args.task)
        tokenizer = tokens.load_tokenizer(args.tokenizer)
        groups = {
            name: tokens.tokenise(
                list(texts.values()),
                tokenizer,
                max_length=args.max_length,
                special_tokens=args.special_tokens == "include",
            )
            for name, texts in (("documents", data.documents), ("queries", data.queries))
        }
        digests = {"data_sha256": data.sha256, "tokenizer_sha256": tokens.tokenizer_sha256(args.tokenizer)}
        tokens.save(output, groups, {"max_length": args.max_length, "special_tokens": args.special_tokens, **digests})
    cut = int((groups["documents"].lengths == args.max_length).sum())
    print(
        f"{len(groups['documents'])} documents, {len(groups['documents'].ids)} tokens; {cut} reach the limit",
        file=sys.stderr,
    )
