"""Rows for the figures and tables that explain embeddings: small computations, nothing trained.

embscale primer lookup TABLE.safetensors --tokenizer DIR --text "The dog barks." --columns 6 --neighbours 1 -o ROWS
embscale primer sinusoidal --places 64 --width 32 -o ROWS
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.primer import Biases, Gradient, Lookup, Offset, Order, Rotary, Sinusoidal, Space

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = "%.8g"  # enough digits for drawing


CONCEPTS: dict[str, tuple[str, type]] = {
    "lookup": ("a text to its vectors: one-hot vectors, table, rows", Lookup),
    "gradient": ("which rows of a table a text trains", Gradient),
    "space": ("words as points in two dimensions", Space),
    "offset": ("words at several positions, moved by what is added for them", Offset),
    "order": ("texts of the same tokens in other orders", Order),
    "sinusoidal": ("sinusoidal positions and their products", Sinusoidal),
    "rotary": ("a query and a key, turned by their positions", Rotary),
    "biases": ("the biases of ALiBi and the buckets of T5", Biases),
}
OF_TABLE = ("lookup", "gradient", "space", "offset", "order")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the concepts and their flags."""
    concepts = parser.add_subparsers(dest="concept", required=True)

    def concept(name: str, words: str, *, of_table: bool = False) -> argparse.ArgumentParser:
        concept_parser = concepts.add_parser(name, help=words, description=words)
        if of_table:
            concept_parser.add_argument("table", type=Path, metavar="TABLE.safetensors", help="from embscale extract")
            concept_parser.add_argument(
                "--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json"
            )
        concept_parser.add_argument("-o", "--output", type=Path, required=True, metavar="ROWS.csv")
        return concept_parser

    for name, (words, group) in CONCEPTS.items():
        flags.add(concept(name, words, of_table=name in OF_TABLE), group)
    made = concept("sizes", "parameters in the tables of every model of the registry")
    made.add_argument("--registry", type=Path, required=True)
    made.add_argument("--partial", type=Path, required=True, metavar="MD", help="the same as a Markdown table")


def run(args: argparse.Namespace) -> None:
    """Compute and write the rows of one concept."""
    if args.concept == "sizes":
        _sizes(args)
        return
    inputs = []
    if "table" in args:
        from embscale.texts import tokens

        inputs = [args.table, tokens.tokenizer_file(args.tokenizer)]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        ROWS[args.concept](args).to_csv(output, index=False, float_format=NUMBERS)


def _lookup(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.lookup import lookup_rows
    from embscale.tables import table_files
    from embscale.texts import tokens

    return lookup_rows(
        tokens.load_tokenizer(args.tokenizer),
        table_files.load(args.table),
        args.text,
        columns=args.columns,
        neighbours=args.neighbours,
    )


def _gradient(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.gradients import gradient_rows
    from embscale.tables import table_files
    from embscale.texts import tokens

    return gradient_rows(tokens.load_tokenizer(args.tokenizer), table_files.load(args.table), args.text)


def _space(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.space import space_rows
    from embscale.tables import table_files
    from embscale.texts import tokens

    return space_rows(tokens.load_tokenizer(args.tokenizer), table_files.load(args.table), args.words)


def _offset(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.space import offset_rows
    from embscale.tables import table_files
    from embscale.texts import tokens

    return offset_rows(tokens.load_tokenizer(args.tokenizer), table_files.load(args.table), args.words, args.places)


def _order(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.order import order_rows
    from embscale.tables import table_files
    from embscale.texts import tokens

    tokenizer = tokens.load_tokenizer(args.tokenizer)
    return order_rows(tokenizer, table_files.load(args.table), args.texts, layers=args.layers, seed=args.seed)


def _sinusoidal(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.sinusoidal import sinusoidal_rows

    return sinusoidal_rows(places=args.places, width=args.width)


def _rotary(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.rotary import rotary_rows

    return rotary_rows(
        width=args.width,
        base=args.base,
        first_places=args.first_places,
        distances=args.distances,
        pair=args.pair,
        seed=args.seed,
    )


def _biases(args: argparse.Namespace) -> pd.DataFrame:
    from embscale.primer.biases import bias_rows

    return bias_rows(heads=args.heads, places=args.places, buckets=args.buckets, max_distance=args.max_distance)


def _sizes(args: argparse.Namespace) -> None:
    from embscale.checkpoints import suites
    from embscale.primer.sizes import size_rows, sizes_table

    outputs = [args.output, args.partial]
    with write_with_provenance(args, inputs=[args.registry], outputs=outputs) as (output, partial):
        # No pins: sizes do not depend on the commits that revisions are pinned to.
        sizes = size_rows(suites.load(args.registry, Path("no pins")))
        sizes.to_csv(output, index=False)
        partial.write_text(sizes_table(sizes), "utf-8")


ROWS: dict[str, Callable[[argparse.Namespace], pd.DataFrame]] = {
    "lookup": _lookup,
    "gradient": _gradient,
    "space": _space,
    "offset": _offset,
    "order": _order,
    "sinusoidal": _sinusoidal,
    "rotary": _rotary,
    "biases": _biases,
}
