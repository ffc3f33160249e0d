"""Follow one query through random, untrained, trained and idf-weighted tables and BM25, for the report.

The query is the one whose scores are nearest to the mean scores of these rankings.  Of each ranking the first
documents are kept, with the tokens that have the largest parts in their scores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from embscale.cli._length import add_length, tokens_of
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256
from embscale.rows.markdown import source_fold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("trained", type=Path, metavar="TABLE", help="from embscale extract")
    parser.add_argument("--untrained", type=Path, metavar="TABLE", help="of the same model at step 0, if there is one")
    parser.add_argument("--seed", type=int, required=True, help="of the random table of the same shape")
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER", help="the task")
    parser.add_argument("--tokens", type=Path, required=True, metavar="TOKENS.safetensors", help="of its texts")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="that made them")
    add_length(parser)
    parser.add_argument("--metric", required=True, help="MTEB's name of it, such as ndcg_at_10")
    parser.add_argument("--data", type=Path, required=True, metavar="CSV", help="gets a row for each document found")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MD", help="the example for the report")


def run(args: argparse.Namespace) -> None:
    """Rank, follow, write."""
    import numpy as np

    from embscale.report import worked_example as written
    from embscale.rows.labels import metric_label
    from embscale.scoring import worked_example
    from embscale.scoring.metrics import depth_of
    from embscale.scoring.retrieval import Scorer
    from embscale.tables import table_files
    from embscale.tables.random_tables import RandomTable
    from embscale.tables.variants import Context, Variant
    from embscale.texts import beir, tokens

    files = {"Untrained table": args.untrained, "Trained table": args.trained}
    files = {name: path for name, path in files.items() if path}
    inputs = [
        *files.values(),
        args.tokens,
        tokens.tokenizer_file(args.tokenizer),
        *beir.files(args.beir, "test"),
    ]
    with write_with_provenance(args, inputs=inputs, outputs=[args.output, args.data]) as (output, rows):
        data = beir.load(args.beir)
        groups, made_of = tokens.load(args.tokens)
        if made_of["data_sha256"] != data.sha256:
            raise EmbscaleError(f"{args.tokens}: made of other texts than {args.beir}; run embscale tokenize again")
        depth = max(depth_of(args.metric), worked_example.HITS)
        scorer = Scorer(
            data, groups["documents"], groups["queries"], length=tokens_of(args.length), depth=depth, device="cpu"
        )
        loaded = {name: table_files.load(path) for name, path in files.items()}
        trained = loaded["Trained table"]
        random = np.concatenate(list(RandomTable(len(trained), trained.shape[1], args.seed).blocks()))
        idf = Variant.parse("idf").apply(trained, Context.of(scorer.documents, len(trained)))
        tables = {"Random table": random, **loaded, "Trained table, rows weighted by idf": idf}
        methods = {name: worked_example.of_table(scorer, table) for name, table in tables.items()}
        methods["BM25"] = worked_example.of_bm25(scorer)
        query, followed = worked_example.follow(scorer, methods, args.metric)
        tokenizer = tokens.load_tokenizer(args.tokenizer)
        found = written.rows(query, args.metric, followed, tokenizer)
        found.to_csv(rows, index=False)
        source = source_fold(
            of="this example",
            rule="worked_example",
            command="worked-example",
            module="embscale.scoring.worked_example",
            digests={path.as_posix(): file_sha256(path) for path in inputs},
            where=[],
            data=args.data.name,
        )
        asked, metric = data.queries[query], metric_label(found)
        text = written.example(query, asked, metric, followed, scorer.documents, tokenizer)
        output.write_text(text + source, "utf-8")
