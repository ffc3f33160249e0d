"""Probe what embedding tables know about words: analogies, degrees, relations, similarity.

A table is a file (FILE, or STEP=FILE to record the training step in the rows).  Words are probed in two forms, after a
space and at the start of a text, and each form is paired with the other; with --tokens, by frequency in those texts.

    embscale words TABLE.safetensors --tokenizer FOLDER --analogies questions-words.txt --similarity wordsim353.tsv
        -o words.csv
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.parameters import flags
from embscale.parameters.scores import WordProbes
from embscale.texts import tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("tables", nargs="+", metavar="TABLE", help="FILE, STEP=FILE or main=FILE")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json")
    parser.add_argument("--variants", nargs="*", action="extend", default=[], help="of the tables beside full")
    parser.add_argument(
        "--analogies",
        type=Path,
        nargs="*",
        action="extend",
        default=[],
        metavar="FILE",
        help="four words a line under ': SECTION'",
    )
    parser.add_argument(
        "--similarity",
        type=Path,
        nargs="*",
        action="extend",
        default=[],
        metavar="FILE",
        help="two words and a number a line",
    )
    parser.add_argument(
        "--tokens", type=Path, metavar="TOKENS.safetensors", help="texts that say how frequent words are"
    )
    flags.add(parser, WordProbes, defaults=flags.section("words"))
    parser.add_argument("--suite", default="own", help="recorded in the rows")
    parser.add_argument("--model", help="the same; default: the file's name")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="WORDS.csv")


def run(args: argparse.Namespace) -> None:
    """Find the words, probe every table and variant in both forms, write."""
    import numpy as np
    import pandas as pd

    from embscale.scoring import words
    from embscale.tables.table_files import Stored
    from embscale.tables.variants import Variant

    variants = [Variant.parse(text) for text in ["full", *args.variants]]
    given = [re.fullmatch(r"(?:(\d+)=|main=)?(.+)", text) for text in args.tables]
    files = [(match[1], Path(match[2])) for match in given if match]
    sets = [words.OWN_FILE, *args.analogies, *args.similarity, *([args.tokens] if args.tokens else [])]
    inputs = [*(path for _, path in files), tokens.tokenizer_file(args.tokenizer), *sets]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output]) as (output,):
        asked = [
            words.own_set(),
            *(words.read_analogies(path) for path in args.analogies),
            *(words.read_similarities(path) for path in args.similarity),
        ]
        mentioned = set().union(*(several.words() for several in asked))
        tokenizer = tokens.load_tokenizer(args.tokenizer)
        vocabularies = {form: words.vocabulary(tokenizer, form, asked=mentioned) for form in words.FORMS}
        counts = None
        if args.tokens:
            ids = tokens.load(args.tokens)[0]["documents"].ids
            counts = np.bincount(ids, minlength=tokenizer.get_vocab_size())
        twice, pairs = words.two_forms(vocabularies, counts)
        asks = [(form, vocabulary, asked) for form, vocabulary in vocabularies.items()]
        asks.append((words.BOTH, twice, [pairs]))
        rows = []
        for step, path in files:
            table = Stored.open(path)
            for variant in variants:
                keys = {"suite": args.suite, "model": args.model or path.stem, "step": step, "variant": variant.text}
                for form, vocabulary, several in asks:
                    vectors = words.word_vectors(variant.blocks(table), vocabulary)
                    found = words.word_set_rows(
                        vectors,
                        several,
                        form=form,
                        random_seeds=args.random_seeds,
                    )
                    dim = {"dim": vectors.vectors.shape[1], "words": len(vectors.vectors)}
                    rows += [keys | dim | row for row in found]
        pd.DataFrame(rows).to_csv(output, index=False)
