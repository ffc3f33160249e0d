"""Score every layer of checkpoints on a retrieval task, from the table to the output of the final norm.

The texts run through each model; the vector of a text at a layer is the mean of its tokens' hidden states, and
documents are ranked by cosine, as those of tables are.  Layer 0 is the table itself, layer 1 what the first block
receives if that is not the row (learned positions, scaled rows), then come the blocks in their order, each as it hands
its states on, before the final norm; last the output of the final norm, if the model has one.

    embscale layer-scores 0=CHECKPOINT_DIR 400=CHECKPOINT_DIR --beir FOLDER --tokens TOKENS.safetensors
        --length 64 --metric ndcg_at_10 --suite ladder --model ladder-w64 --run 1 -o scores.parquet
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from embscale.cli._length import add_length, tokens_of
from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import natural
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.layers import Forward
from embscale.parameters.scores import ClusterSeed
from embscale.provenance.artifacts import file_sha256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="STEP=CHECKPOINT_DIR",
        help="folders in the Hugging Face layout; the step is recorded in the rows, main if it is not known",
    )
    parser.add_argument("--beir", type=Path, required=True, metavar="FOLDER", help="the task")
    parser.add_argument(
        "--tokens", type=Path, required=True, metavar="TOKENS.safetensors", help="its tokens, from embscale tokenize"
    )
    add_length(parser)
    parser.add_argument("--metric", required=True, help="MTEB's name of it (ndcg_at_10)")
    flags.add(parser, Forward, defaults=flags.section("layers"))
    parser.add_argument("--suite", default="own", help="recorded in the rows")
    parser.add_argument("--model", required=True, help="the same")
    parser.add_argument("--run", type=natural, help="the same; the seed of the training run")
    parser.add_argument("--tokenizer-name", help="the same; default: the name of the file of tokens")
    flags.add(parser, ClusterSeed, defaults=flags.section("scores"))
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="SCORES.parquet", help="a row per query")


def run(args: argparse.Namespace) -> None:
    """Run each model over the texts, rank by each layer, write the score of every query."""
    import pandas as pd

    from embscale.devices import choose_device
    from embscale.layers import running, text_vectors
    from embscale.layers.names import EMBEDDING
    from embscale.scoring import layer_scores, named_tables, scores
    from embscale.scoring.metrics import depth_of
    from embscale.statistics.clusters import query_clusters
    from embscale.texts import beir, tokens

    device = choose_device(args.device).type
    folders = [named_tables.split_step(text) for text in args.checkpoints]
    weights = [file for _, folder in folders for file in running.checkpoint_files(folder)]
    inputs = [*weights, args.tokens, *beir.files(args.beir, "test")]
    facts: dict[str, Any] = {"device": device}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        data = beir.load(args.beir)
        groups, made_of = tokens.load(args.tokens)
        if made_of["data_sha256"] != data.sha256:
            raise EmbscaleError(
                f"{args.tokens}: made of other texts than {args.beir} holds; run embscale tokenize again"
            )
        clusters = query_clusters(data.qrels, seed=args.bootstrap_seed)
        cluster = {query: 0 if clusters.refused else number for query, number in clusters.of.items()}
        queries = pd.DataFrame({"cluster": cluster, "heldout": data.heldout})
        length = tokens_of(args.length)
        documents = groups["documents"] if length is None else groups["documents"].cut(length)
        texts, places = text_vectors.distinct(documents, groups["queries"])
        scorer = layer_scores.vector_scorer(data, *places, depth=depth_of(args.metric), device=device)
        shared = {
            "suite": args.suite,
            "model": args.model,
            "run": scores.NONE if args.run is None else args.run,
            "tokenizer": args.tokenizer_name or args.tokens.with_suffix("").name,
            "variant": "full",
            "pooling": "mean",
            "special_tokens": made_of["special_tokens"],
            "task": data.name,
            "length": args.length,
            "tokenizer_sha256": made_of["tokenizer_sha256"],
            "data_sha256": data.sha256,
        }
        rows, facts["texts"] = [], len(texts)
        for step, folder in folders:
            model = running.load_model(folder, precision=args.precision, device=device)
            if beyond := text_vectors.beyond_context(model, texts):
                print(f"{folder}: {beyond} texts are longer than those that the model was made for", file=sys.stderr)
            facts["texts_beyond_context"] = beyond
            means = text_vectors.mean_states(model, texts, batch=args.batch)
            width = means[EMBEDDING].shape[1]
            digests = [file_sha256(file) for file in running.checkpoint_files(folder)]
            for number, (layer, vectors) in enumerate(means.items()):
                keys = named_tables.NO_KEYS | shared
                keys |= {"step": scores.NONE if step is None else step, "width": width, "dim": vectors.shape[1]}
                keys["table_sha256"] = named_tables.text_sha256(" ".join([*digests, layer]))
                found = scores.long_rows(scorer.per_query(vectors, [args.metric]), keys, [args.metric], queries)
                rows.append(found.assign(layer=layer, layer_number=number))
        scores.write_parquet(pd.concat(rows, ignore_index=True), output)
