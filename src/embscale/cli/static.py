"""Train a static embedding table on the tokens that a model of the ladder sees.

    embscale static skip-gram --corpus FOLDER --tokens TOKENS.safetensors --tokenizer FOLDER ... -o TABLE.safetensors

The table is of the kind that embscale extract writes, so embscale score and embscale words accept it.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from embscale.cli._note import write_with_provenance
from embscale.cli._static import WORDS, add_corpus, add_method, train
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.training import METHODS
from embscale.texts import beir, tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of each method."""
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    for method, words in WORDS.items():
        method_parser = methods.add_parser(method, help=words, description=f"Train a table: {words}.")
        add_corpus(method_parser)
        add_method(method_parser, method)
        method_parser.add_argument(
            "--settings",
            type=Path,
            metavar="CHOICE.json",
            help="from embscale tune METHOD; its setting replaces the flag of that name",
        )
        method_parser.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE.safetensors")


def run(args: argparse.Namespace) -> None:
    """Read the tokens, train, write."""
    from embscale.tables import table_files
    from embscale.training import tuning

    inputs = [beir.corpus_file(args.corpus), args.tokens, tokens.tokenizer_file(args.tokenizer)]
    settings = flags.read(args, METHODS[args.method])
    if args.settings:
        inputs.append(args.settings)
        setting, value = tuning.read_choice(args.settings, args.method)
        try:
            settings = tuning.with_setting(settings, setting, value)
        except EmbscaleError as error:
            raise EmbscaleError(f"{args.settings}: {error}; make it again with embscale tune {args.method}") from None
    # The settings as used: one of them may be that of the file instead of the flag's.
    facts: dict[str, Any] = {"settings": dataclasses.asdict(settings)}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        trained = train(args, settings)
        if trained.diverged:
            raise EmbscaleError(f"{args.method}: training diverged, the table has values that are not finite numbers")
        table_files.save(output, trained.table, {"method": args.method})
        facts |= {
            "tokens_seen": trained.tokens_seen,
            "tokens_processed": round(trained.tokens_seen * trained.epochs),
            "rows_zero": int((~trained.table.any(axis=1)).sum()),
        }
        if trained.losses:
            facts["losses"] = list(trained.losses)
