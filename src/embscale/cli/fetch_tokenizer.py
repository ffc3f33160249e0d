"""Fetch a tokenizer from the Hugging Face Hub and save it in the form that every command here reads.

Repositories contain tokenizers in several formats; the output is always ``tokenizer.json``, whose digest is recorded in
every score row.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError

FILES = (
    "config.json",  # some repositories name the tokenizer's class only here
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tokenizer", metavar="REPO@COMMIT", help="the commit with all its 40 digits")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")


def run(args: argparse.Namespace) -> None:
    """Download, load with transformers, save."""
    import transformers

    from embscale.checkpoints.hub import download

    repo, _, commit = args.tokenizer.partition("@")
    part = args.output.with_name(f".{args.output.name}.{commit[:12]}.part")
    download(repo, commit, part, names=FILES)
    outputs = [args.output / "tokenizer.json", args.output / "tokenizer_config.json"]
    with write_with_provenance(args, inputs=[], outputs=outputs) as temporary:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(part, local_files_only=True, use_fast=True)
        except (OSError, ValueError, KeyError, ImportError) as error:
            cause = str(error).strip().partition("\n")[0]
            raise EmbscaleError(f"{args.tokenizer}: transformers cannot load its tokenizer ({cause})") from error
        if not tokenizer.is_fast:
            raise EmbscaleError(f"{args.tokenizer}: transformers has no fast form of its tokenizer")
        folder = temporary[0].parent / "saved"
        tokenizer.save_pretrained(folder)
        for made, target in zip(temporary, outputs, strict=True):
            (folder / target.name).replace(made)
    shutil.rmtree(part)
