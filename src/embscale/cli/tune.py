"""Choose one setting of a method: train with each value of a grid and compare the tables on development queries.

    embscale tune skip-gram --setting learning_rate --values 0.08 0.25 0.75 ... --rows ROWS.csv -o TABLE.safetensors

Static methods and the language model are tuned alike.  The test queries have no part in the choice; the chosen table is
scored on them afterwards, and written.  embscale static reads the choice with --settings for tables of other widths.
"""

from __future__ import annotations

import argparse
import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.cli._length import add_length, tokens_of
from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import count
from embscale.cli._static import WORDS, add_corpus, add_method
from embscale.cli._static import train as train_static
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.corpus import TableRows
from embscale.parameters.scores import Bootstrap
from embscale.parameters.training import LANGUAGE_MODEL, METHODS, Grid, Recipe, RunSeed, Steps
from embscale.progress import progress
from embscale.provenance.artifacts import file_sha256, note_path, read_note
from embscale.rows import tidy
from embscale.texts import beir, streams, tokens

if TYPE_CHECKING:
    import numpy as np

    from embscale.scoring.retrieval import Scorer
    from embscale.statistics.clusters import Clusters
    from embscale.training.static_embeddings import Trained
    from embscale.training.tuning import Scored

# The queries of each split in a file of tokens.
GROUPS = {"dev": "dev_queries", "test": "queries"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of each method."""
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    for method, words in {LANGUAGE_MODEL: "the input table of a model of the ladder", **WORDS}.items():
        method_parser = methods.add_parser(method, help=words, description=f"Tune one setting: {words}.")
        add_corpus(method_parser)
        if method == LANGUAGE_MODEL:
            method_parser.add_argument("--dim", type=count, required=True, help="columns of the table")
            flags.add(method_parser, TableRows, Recipe, Steps, RunSeed)
            method_parser.add_argument(
                "--run",
                type=Path,
                nargs=2,
                metavar=("LOSSES.csv", "TABLE.safetensors"),
                help="of embscale train and extract with these very settings, which is then not trained again",
            )
        else:
            add_method(method_parser, method)
        flags.add(method_parser, Grid, Bootstrap)
        method_parser.add_argument("--metric", required=True, help="MTEB's name of it, such as ndcg_at_10")
        add_length(method_parser)
        method_parser.add_argument("--tokenizer-name", required=True, metavar="NAME", help="recorded in the output")
        method_parser.add_argument(
            "--choice", type=Path, required=True, metavar="CHOICE.json", help="gets the chosen value"
        )
        method_parser.add_argument("--rows", type=Path, required=True, metavar="ROWS.csv", help="gets the scores")
        method_parser.add_argument(
            "-o", "--output", type=Path, required=True, metavar="TABLE.safetensors", help="gets the chosen table"
        )


def run(args: argparse.Namespace) -> None:
    """Train with every value, score, choose, write."""
    from embscale.tables import table_files
    from embscale.training import tuning

    settings = flags.read(args, Recipe if args.method == LANGUAGE_MODEL else METHODS[args.method])
    # All values are checked before the first training.
    tried = [tuning.with_setting(settings, args.setting, value) for value in args.values]
    inputs = [*dict.fromkeys(path for split in GROUPS for path in beir.files(args.corpus, split)), args.tokens]
    inputs += [tokens.tokenizer_file(args.tokenizer), *(vars(args).get("run") or [])]
    train = _train_language_model if args.method == LANGUAGE_MODEL else train_static
    facts: dict[str, Any] = {}
    outputs = [args.output, args.rows, args.choice]
    with write_with_provenance(args, inputs=inputs, outputs=outputs, facts=facts) as (output, scores, choice):
        report = progress(f"{args.method}: trainings", len(tried))
        done = 0

        def trained(settings: Any) -> Trained:  # noqa: ANN401 (the group of the method)
            nonlocal done
            found = train(args, settings)
            done += 1
            report(done, "")
            return found

        task = functools.cache(functools.partial(_task, args))
        rows, best = tuning.rows(
            args.method,
            args.setting,
            tried,
            train=trained,
            score=lambda table, split: _scored(args, table, *task(split)),
            metric=args.metric,
        )
        keys = {"task": args.corpus.name, "tokenizer": args.tokenizer_name, "length": args.length}
        table_files.save(output, best.table, {"method": args.method})
        rows.assign(**keys).to_csv(scores, index=False)
        facts |= tuning.chosen(rows)
        tuning.write_choice(choice, rows)


def _train_language_model(args: argparse.Namespace, recipe: Recipe) -> Trained:
    """Train a model of the ladder; its table after the last step, and its loss on held-out texts."""
    import torch

    from embscale.tables import table_files
    from embscale.training import ladder
    from embscale.training.static_embeddings import Trained

    torch.use_deterministic_algorithms(True)
    training, unseen, _ = streams.read(beir.corpus_file(args.corpus), args.tokens, args.tokenizer, seed=args.seed)
    size = recipe.batch * recipe.context
    steps = len(training) // size  # of one pass
    passes = max(1.0, args.steps / steps)
    seen = min(args.steps, steps) * size
    if args.run and recipe == flags.read(args, Recipe):
        losses, path = args.run
        return Trained(table_files.load(path), seen, passes, heldout_loss=_loss_of_run(args, losses))
    model = ladder.build(
        **ladder.shape(recipe), width=args.dim, vocab_size=args.vocab_size, seed=args.seed, positions="rotary"
    )
    schedule = ladder.Schedule.of(recipe, steps=args.steps, seed=args.seed)
    ladder.train(model, training, schedule, reached=lambda step, loss: None)
    loss = ladder.heldout_loss(model, unseen[: ladder.HELDOUT_TOKENS], context=recipe.context, batch=recipe.batch)
    table = ladder.input_table(model).detach().numpy()
    return Trained(table, seen, passes, heldout_loss=loss)


def _loss_of_run(args: argparse.Namespace, losses: Path) -> float:
    """The held-out loss after the last step of a run of `embscale train`.

    Raises:
        EmbscaleError: the run was trained in another way than the flags ask for.
    """
    note = read_note(note_path(losses))
    wanted = vars(flags.read(args, Recipe)) | {"steps": args.steps, "seed": args.seed, "vocab_size": args.vocab_size}
    wanted |= {"width": args.dim, "positions": "rotary"}
    for name, value in wanted.items():
        if note["params"].get(name) != value:
            raise EmbscaleError(
                f"{losses}: of a run with {name} {note['params'].get(name)}, expected {value}; give another or no --run"
            )
    if file_sha256(args.tokens) not in note["inputs"].values():
        raise EmbscaleError(f"{losses}: of a run on other tokens than {args.tokens}; give another or no --run")
    rows = tidy.load(losses).set_index("step")
    return float(rows.loc[args.steps, "heldout_loss"])


def _scored(args: argparse.Namespace, table: np.ndarray, scorer: Scorer, clusters: Clusters) -> Scored:
    """The score of a table, with the interval over clusters of queries."""
    from embscale.statistics.resampling import percentile_interval
    from embscale.statistics.two_way import Resamples
    from embscale.training.tuning import Scored

    values = scorer.per_query(table, [args.metric])[args.metric]
    resamples = Resamples(
        [clusters.of[query] for query in values.index],
        resamples=args.bootstrap_resamples,
        seed=args.bootstrap_seed,
    )
    low = high = math.nan
    if not clusters.refused and resamples.clusters > 1:
        (low,), (high,) = percentile_interval(resamples.means(values.to_numpy()[:, None]))
    return Scored(float(values.mean()), float(low), float(high), len(values), resamples.clusters)


def _task(args: argparse.Namespace, split: str) -> tuple[Scorer, Clusters]:
    """The task with the queries of a split, and which of them belong together."""
    from embscale.scoring.metrics import depth_of
    from embscale.scoring.retrieval import Scorer
    from embscale.statistics.clusters import query_clusters

    data = beir.load(args.corpus, split)
    groups, _ = tokens.load(args.tokens)
    queries = groups.get(GROUPS[split])
    if queries is None:
        raise EmbscaleError(f"{args.tokens}: no tokens of the {split} queries; make it again with embscale tokenize")
    scorer = Scorer(
        data,
        groups["documents"],
        queries,
        length=tokens_of(args.length),
        depth=depth_of(args.metric),
        device="cpu",
    )
    return scorer, query_clusters(data.qrels, seed=args.bootstrap_seed)
