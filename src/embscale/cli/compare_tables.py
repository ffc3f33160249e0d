"""Compare the tables of a suite with each other: widths, seeds, steps, input and output.

Each checkpoint is MODEL:RUN:STEP=FOLDER, RUN being the seed of the training run.  Three files of rows are written: how
alike pairs of tables are, how many dimensions each one fills, and how well a table gives away the tokens that its
training never saw; and a fourth one with their means over runs.

    embscale compare-tables mine-w16:1:0=run/step0 mine-w16:1:400=run/step400 --suite mine --corpus tasks/Mine ...
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.scores import Comparison

if TYPE_CHECKING:
    import numpy as np

    from embscale.scoring.compared_tables import Checkpoint


class Given(NamedTuple):
    """A checkpoint as named on the command line."""

    model: str
    run: int
    step: int
    folder: Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoints", nargs="+", metavar="MODEL:RUN:STEP=FOLDER", help="see above")
    parser.add_argument("--suite", required=True, help="recorded in the output")
    parser.add_argument(
        "--corpus", type=Path, required=True, metavar="FOLDER", help="of the training texts, in the BEIR format"
    )
    parser.add_argument("--tokens", type=Path, required=True, help="the corpus tokenised by embscale tokenize")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER")
    flags.add(parser, Comparison)
    for name in ("similarity", "dimension", "undertrained"):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="CSV")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="CSV", help="means over runs")


def _given(text: str) -> Given:
    match = re.fullmatch(r"([^:=]+):(\d+):(\d+)=(.+)", text)
    if not match:
        raise EmbscaleError(f"{text}: expected MODEL:RUN:STEP=FOLDER")
    return Given(match[1], int(match[2]), int(match[3]), Path(match[4]))


def run(args: argparse.Namespace) -> None:
    """Read all tables, compare, average, write."""
    from embscale.scoring import compared_estimates, compared_tables, undertrained
    from embscale.texts import beir, tokens

    settings = flags.read(args, Comparison)
    given = [_given(text) for text in args.checkpoints]
    source = beir.corpus_file(args.corpus)
    files = [one.folder / name for one in given for name in ("config.json", "model.safetensors")]
    inputs = [*files, source, args.tokens, tokens.tokenizer_file(args.tokenizer)]
    outputs = [args.output, args.similarity, args.dimension, args.undertrained]
    with write_with_provenance(args, inputs=inputs, outputs=outputs) as written:
        checkpoints = [_read(one) for one in given]
        seen = _seen(args, source, checkpoints)
        rows = compared_tables.chosen_rows(seen, rows=settings.rows, seed=settings.seed)
        fewest = max(settings.neighbours + 1, settings.groups)
        if len(rows) < fewest:
            raise EmbscaleError(
                f"{source}: training sees {len(rows)} tokens of the vocabulary; comparing tables by "
                f"{settings.neighbours} neighbours and {settings.groups} groups needs {fewest}"
            )
        known = undertrained.never_in_texts(tokens.load_tokenizer(args.tokenizer).get_vocab())
        found = (
            compared_tables.similarities(checkpoints, rows, settings),
            compared_tables.dimensions(checkpoints, rows, settings),
            compared_tables.undertrained_tokens(checkpoints, seen, known),
        )
        for of_suite, path in zip((compared_estimates.estimates(*found), *found), written, strict=True):
            of_suite.insert(0, "suite", args.suite)
            of_suite.to_csv(path, index=False)


def _read(one: Given) -> Checkpoint:
    import numpy as np

    from embscale.checkpoints import families, weights
    from embscale.checkpoints.ranges import LocalFolder
    from embscale.scoring.compared_tables import Checkpoint

    source = LocalFolder(one.folder)
    family = weights.read_config(source)["model_type"]
    stored = weights.Weights(source)
    table = stored.read(families.input_table_names(family))
    if table is None:
        raise EmbscaleError(f"{one.folder}: holds no input table of a {family} model")
    output = stored.read(families.output_table_names(family))
    if output is not None and np.array_equal(output, table):
        output = None  # a tied checkpoint may hold its table twice
    for values in (table, output):
        if values is not None and not np.isfinite(values).all():
            raise EmbscaleError(
                f"{one.folder}: a table holds values that are not finite numbers; leave the run out (ladder.left_out)"
            )
    return Checkpoint(one.model, one.run, one.step, table, output)


def _seen(args: argparse.Namespace, source: Path, checkpoints: list[Checkpoint]) -> np.ndarray:
    """Whether the training texts hold the token of each row, ``[tokens]``."""
    import numpy as np

    from embscale.texts import streams

    training, _, _ = streams.read(source, args.tokens, args.tokenizer, seed=args.seed)
    sizes = {len(checkpoint.table) for checkpoint in checkpoints}
    if len(sizes) > 1 or training.max() >= min(sizes):
        raise EmbscaleError(
            f"{args.tokens}: holds token {training.max()}; the tables have {', '.join(map(str, sorted(sizes)))} rows, "
            "so these are not tables of one tokenizer, or not of this one"
        )
    return np.bincount(training, minlength=min(sizes)) > 0
